//! Checks the syntax of the container recipes and of the systemd unit.

use super::{assert_none, root, text_files};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The instructions of a recipe.
const INSTRUCTIONS: [&str; 17] = [
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// Returns the instructions of a recipe with their arguments; a line that ends with a backslash
/// continues.
fn instructions(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let words = joined.lines().map(str::trim).filter(|line| !line.is_empty());
    words
        .map(|line| {
            let (instruction, arguments) = line.split_once(' ').unwrap_or((line, ""));
            (instruction.to_owned(), arguments.trim().to_owned())
        })
        .collect()
}

/// Returns what is wrong with a recipe.
fn problems(text: &str, context: &Path) -> Vec<String> {
    let (mut problems, mut stages) = (Vec::new(), BTreeSet::new());
    let found = instructions(text);
    if found.first().is_none_or(|(first, _)| first != "FROM") {
        problems.push("it does not begin with FROM".to_owned());
    }
    for (instruction, arguments) in &found {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        if !INSTRUCTIONS.contains(&instruction.as_str()) || words.is_empty() {
            problems.push(format!("unknown or empty instruction: {instruction} {arguments}"));
        }
        // Arguments in brackets are JSON.
        let list = arguments
            .find('[')
            .filter(|_| ["CMD", "ENTRYPOINT", "HEALTHCHECK", "VOLUME"].contains(&instruction.as_str()));
        if let Some(at) = list
            && serde_json::from_str::<Vec<String>>(&arguments[at..]).is_err()
        {
            problems.push(format!("not a list of strings: {instruction} {arguments}"));
        }
        match (instruction.as_str(), words.as_slice()) {
            ("FROM", [image, rest @ ..]) => {
                if !image.contains(':') && !stages.contains(*image) {
                    problems.push(format!("an image without a tag: {image}"));
                }
                if let [word, stage] = rest
                    && word.eq_ignore_ascii_case("as")
                {
                    stages.insert((*stage).to_owned());
                }
            }
            ("COPY", [from, ..]) if from.starts_with("--from=") => {
                let stage = from.trim_start_matches("--from=");
                if !stages.contains(stage) {
                    problems.push(format!("there is no stage {stage}"));
                }
            }
            ("COPY", [sources @ .., _]) => {
                let missing = sources.iter().filter(|source| !context.join(source).exists());
                problems.extend(missing.map(|source| format!("{source} does not exist")));
            }
            _ => {}
        }
    }
    match found.iter().rfind(|(instruction, _)| instruction == "USER") {
        Some((_, user)) if user.as_str() != "root" && !user.starts_with('0') => {}
        _ => problems.push("it runs as root".to_owned()),
    }
    problems
}

#[test]
fn container_recipes_are_well_formed() {
    let recipes: Vec<_> = text_files().into_iter().filter(|file| file.name() == "Dockerfile").collect();
    assert!(!recipes.is_empty());
    assert_none(
        "container recipes are well-formed and do not run as root",
        recipes.iter().flat_map(|file| {
            problems(&file.text, &root()).into_iter().map(move |problem| format!("{}: {problem}", file.path))
        }),
    );
    for wrong in [
        "RUN true\nUSER 1\n",
        "FROM debian\nUSER 1\n",
        "FROM debian:12\nRUNN true\nUSER 1\n",
        "FROM debian:12\nCMD [\"a\",]\nUSER 1\n",
        "FROM debian:12\nCOPY --from=build /a /b\nUSER 1\n",
        "FROM debian:12\nCOPY no-such-file /b\nUSER 1\n",
        "FROM debian:12\nCMD [\"a\"]\n",
    ] {
        assert_eq!(problems(wrong, &root()).len(), 1, "{wrong}");
    }
}

/// systemd reads the unit without a complaint. CI has systemd; elsewhere the test may be skipped. The
/// program of the unit is not installed, so another takes its place.
#[test]
fn the_unit_is_read_by_systemd() {
    let unit = std::fs::read_to_string(root().join("packaging/tollgate.service")).unwrap();
    let verify = |unit: &str| {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("tollgate.service");
        std::fs::write(&file, unit.replace("/usr/local/bin/tollgate", "/bin/true")).unwrap();
        Command::new("systemd-analyze").arg("verify").arg(&file).output().ok()
    };
    let Some(read) = verify(&unit) else {
        let missing =
            "the unit is not checked: systemd-analyze is missing; on Debian: apt-get install systemd";
        eprintln!("SKIPPED: {missing}");
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        return;
    };
    let complaints = |stderr: &[u8]| {
        let text = String::from_utf8_lossy(stderr).into_owned();
        text.lines().filter(|line| line.contains("tollgate.service")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_none("systemd accepts the unit", complaints(&read.stderr));
    let wrong = verify(&unit.replace("UMask=", "UMaskk=")).unwrap();
    assert!(!complaints(&wrong.stderr).is_empty());
}
