//! Messages of library crates name no commands or options: their users may have no command line. The
//! program adds them to what it shows (`host/cli/src/terminal/remedy.rs`).

use crate::{TextFile, assert_none, text_files};

/// The sources of library crates. Those of the server are left out: its pages and answers are part
/// of the program, which people operate by its commands.
const LIBRARIES: &[&str] = &[
    "host/agent/src/",
    "host/sandbox/src/",
    "host/registry/src/",
    "host/store/src/",
    "host/models/src/",
    "host/sqlite/src/",
    "host/postgres/src/",
    "host/src/",
    "host/mcp/src/",
];

/// A file, words in it that look like a command or an option, and the reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("host/registry/src/lock.rs", "`tollgate ", "the head of a file that the program writes and people read"),
    (
        "host/src/grants/approvals.rs",
        "tollgate grant",
        "the head of a file that the program writes and people read",
    ),
    (
        "host/src/grants/requests.rs",
        "--",
        "the arguments that grant a power are data, for a command or a page",
    ),
    ("host/src/config/change.rs", "--remove-destination", "an option of `cp`"),
    ("host/sandbox/src/load/census.rs", "componentize", "options of compilers for components"),
];

#[test]
fn library_messages_name_no_commands() {
    let mut found = Vec::new();
    let mut used = vec![false; ALLOWED.len()];
    let files = text_files();
    let sources = files.iter().filter(|file| file.is_rust() && !file.is_test());
    for file in sources.filter(|file| LIBRARIES.iter().any(|library| file.path.starts_with(library))) {
        for (number, line) in lines_with_commands(file) {
            let mut allowed = ALLOWED.iter().enumerate();
            match allowed.find(|(_, (path, words, _))| file.path == *path && line.contains(words)) {
                Some((at, _)) => used[at] = true,
                None => found.push(format!("{}:{number}: {}", file.path, line.trim())),
            }
        }
    }
    let needless = ALLOWED.iter().zip(&used).filter(|(_, used)| !**used);
    found.extend(needless.map(|((path, words, _), _)| format!("{path}: it has `{words}` no longer")));
    assert_none(
        "Say in the library what to do, and add the command in host/cli/src/terminal/remedy.rs:",
        found,
    );
}

#[test]
fn commands_are_found_where_they_are() {
    for named in
        ["\"run `tollgate store init`\"", "restore it: tollgate sync", "queue (--queue)", "\"--data\""]
    {
        assert!(names_a_command(named), "{named}");
    }
    for other in
        ["tollgate.lock", "`tollgate_agent` x", "use tollgate::{A, B};", "a -- b", "n--;", "tollgate {name}"]
    {
        assert!(!names_a_command(other), "{other}");
    }
}

/// Returns the lines of the code, without comments and tests, that name a command or an option.
fn lines_with_commands(file: &TextFile) -> impl Iterator<Item = (usize, &str)> {
    let code = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//") && names_a_command(line))
}

/// Returns whether the text has `tollgate VERB` or `--option` as words of their own.
fn names_a_command(text: &str) -> bool {
    ["tollgate ", "--"].iter().any(|start| {
        text.match_indices(start).any(|(at, _)| {
            let begins_word =
                !text[..at].ends_with(|before: char| before.is_alphanumeric() || "_-.:/".contains(before));
            begins_word && text[at + start.len()..].starts_with(|next: char| next.is_ascii_lowercase())
        })
    })
}
