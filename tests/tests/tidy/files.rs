//! Checks the contents, names and lengths of files.

use crate::{TextFile, assert_none, text_files};

const LONGEST_FILE_LINES: usize = 600;

#[test]
fn files_of_code_have_at_most_600_lines() {
    assert_none(
        "Split these files along their concepts:",
        text_files().iter().filter(|file| file.is_rust() && !file.is_test()).filter_map(|file| {
            let lines = file.text.lines().count();
            (lines > LONGEST_FILE_LINES).then(|| format!("{}: {lines} lines", file.path))
        }),
    );
}

/// The limit itself is a lint (clippy.toml); here it cannot be switched off.
#[test]
fn functions_have_70_lines_at_most_without_exception() {
    let exception = ["clippy::too_many", "_lines"].concat();
    assert_none("Split the functions instead:", lines_with(&[&exception], TextFile::is_rust));
}

#[test]
fn nothing_is_left_for_later() {
    let words = ["TO", "FIX", "XX"].into_iter().zip(["DO", "ME", "X"]).map(|(a, b)| [a, b].concat());
    let words: Vec<String> = words.collect();
    assert_none(
        "Do it, or write an issue:",
        lines_with(&words.iter().map(String::as_str).collect::<Vec<_>>(), |_| true),
    );
}

#[test]
fn no_path_of_one_machine_is_in_the_repository() {
    let paths =
        [["/ro", "ot/"], ["/wo", "rk/"], ["../sha", "red"], ["/ho", "me/"]].map(|parts| parts.concat());
    assert_none(
        "These paths are on one machine alone:",
        lines_with(&paths.each_ref().map(String::as_str), |_| true),
    );
}

#[test]
fn modules_are_named_by_what_they_hold() {
    let vague = ["util", "utils", "common", "helper", "helpers", "misc"];
    assert_none(
        "Name these by what they hold:",
        text_files().iter().filter(|file| file.is_rust()).filter_map(|file| {
            let is_vague = |part: &str| vague.contains(&part.trim_end_matches(".rs"));
            file.path.split('/').any(is_vague).then(|| file.path.clone())
        }),
    );
}

#[test]
fn types_have_the_nouns_of_the_field() {
    let vague = ["Utils", "Helper"];
    assert_none(
        "Name these types by what they are:",
        text_files().iter().filter(|file| file.is_rust()).flat_map(|file| {
            defined_types(&file.text)
                .filter(|name| vague.iter().any(|noun| name.ends_with(noun)))
                .map(|name| format!("{}: {name}", file.path))
                .collect::<Vec<_>>()
        }),
    );
}

#[test]
fn modules_begin_with_what_they_are_for() {
    assert_none(
        "Begin these with a paragraph of //! documentation:",
        text_files()
            .iter()
            .filter(|file| file.is_rust() && !file.is_test())
            .filter(|file| !file.text.starts_with("//!") && !file.text.starts_with("#![doc"))
            .map(|file| file.path.clone()),
    );
}

fn defined_types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let mut words =
            line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        words
            .find(|word| !["pub", "crate", "super"].contains(word))
            .filter(|w| ["struct", "enum", "trait"].contains(w))?;
        words.next()
    })
}

/// Returns `path:line: text` for each line that contains one of the words.
fn lines_with(words: &[&str], of: impl Fn(&TextFile) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in text_files().iter().filter(|file| of(file) && file.name() != "Cargo.lock") {
        for (at, line) in file.text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{}: {}", file.path, at + 1, line.trim()));
            }
        }
    }
    found
}
