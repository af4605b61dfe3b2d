//! Tests of the command line itself: help, mistakes, completions, and a reader that closes the
//! pipe.

use crate::place::Place;
use std::process::{Command, Stdio};

#[test]
fn help_and_version_are_answers() {
    let place = Place::new();
    place.type_in(&["--help"]).ends_with(0).answers("Examples:").answers("Exit codes:");
    place.type_in(&["--version"]).ends_with(0).answers("tollgate 0.");
    for verb in ["demo", "run", "call", "tools", "inspect", "new", "build", "completions"] {
        place.type_in(&[verb, "--help"]).ends_with(0).answers("Example");
    }
}

#[test]
fn what_cannot_be_meant_ends_with_2_and_says_what_can() {
    let place = Place::new();
    place.type_in(&[]).ends_with(2).says("Usage: tollgate");
    place.type_in(&["tolls"]).ends_with(2).says("unrecognized subcommand 'tolls'").says("'tools'");
    place.type_in(&["call"]).ends_with(2).says("<TOOL>");
    place.type_in(&["tools", "--jsn"]).ends_with(2).says("--json");
    place.type_in(&["new", "x", "--lang", "cobol"]).ends_with(2).says("possible values: rust");
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        Place::new().type_in(&["completions", shell]).ends_with(0).answers("tollgate");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert_eq!(words, "");
}
