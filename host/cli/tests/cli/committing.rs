//! Tests that a grant, its approval and its record take effect together, or nothing changes.

use crate::place::{Place, Said};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};
use tollgate_artifacts::good;

/// Returns a place with an earlier grant and compiled tools.
fn place() -> Place {
    let place = Place::new().with_tools(&[good::ECHO, good::ADDER]);
    place.type_in(&["grant", "adder", "--env", "LANG"]).ends_with(0);
    place
}

/// Returns the configuration, the record of approvals and the audit.
fn all(place: &Place) -> [String; 3] {
    let read = |file: &str| fs::read_to_string(place.path().join(file)).unwrap();
    let audit = place.type_in(&["audit", "--kind", "grant", "--json"]).ends_with(0).stdout;
    [read("tollgate.toml"), read("tollgate.approved.toml"), audit]
}

#[test]
fn a_grant_whose_approval_cannot_be_recorded_changes_nothing() {
    let place = place();
    let approvals = place.path().join("tollgate.approved.toml");
    fs::rename(&approvals, place.path().join("elsewhere.toml")).unwrap();
    // The file can be read, but is not written through the link.
    symlink("elsewhere.toml", &approvals).unwrap();
    let before = all(&place);
    for typed in [&["--asked"][..], &["--http", "https://a.test/"]] {
        let said = place.type_in(&[&["grant", "echo"], typed].concat()).ends_with(1);
        said.says("nothing was changed: the record of approvals cannot be written")
            .says("cp --remove-destination");
        assert_eq!(all(&place), before);
    }
}

/// Runs the program with a limit on the size of files.
fn type_in_with_files_up_to(place: &Place, bytes: u64, arguments: &[&str]) -> Said {
    let program = place.program(arguments);
    let mut shell = Command::new("sh");
    // The unit of POSIX is 512 bytes, that of bash 1,024.
    shell.args(["-c", r#"ulimit -f "$1" && shift && exec "$@""#, "sh", &(bytes / 512).to_string()]);
    shell.arg(program.get_program()).args(program.get_args()).current_dir(place.path());
    for (name, value) in program.get_envs() {
        value.map(|value| shell.env(name, value));
    }
    Said::of(&assert_cmd::Command::from_std(shell).assert())
}

#[test]
fn a_grant_that_cannot_be_written_approves_and_records_nothing() {
    let place = place();
    let config = fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    let lines = "# A line of a configuration that is longer than a file may grow.\n".repeat(20_000);
    place.write("tollgate.toml", format!("{lines}{config}"));
    let before = all(&place);
    // The store stays within this limit; the configuration exceeds it.
    let said = type_in_with_files_up_to(&place, 1 << 20, &["grant", "echo", "--asked", "--env", "LANG"])
        .ends_with(2);
    said.says("nothing was changed: tollgate.toml cannot be written: file too large");
    assert_eq!(all(&place), before);
    place.type_in(&["grant", "echo", "--env", "LANG"]).ends_with(0);
    assert_ne!(all(&place), before);
}

#[test]
fn only_a_directory_that_can_be_opened_is_granted() {
    let place = place();
    place.write("notes.txt", "");
    symlink("nowhere", place.path().join("link")).unwrap();
    let pipe = Command::new("mkfifo").arg(place.path().join("pipe")).status().unwrap();
    assert!(pipe.success());
    let before = all(&place);
    for (directory, why, correct) in [
        ("absent", "No such file or directory", "mkdir -p absent"),
        ("notes.txt", "Not a directory", "grant echo --read .=/x"),
        ("pipe", "Not a directory", "grant echo --read .=/x"),
        ("link", "symbolic link", "readlink -f link"),
    ] {
        let typed = ["grant", "echo", "--env", "LANG", "--read", &format!("{directory}=/x")];
        let said = place.type_in(&typed).ends_with(2);
        said.says(&format!("nothing was granted: the directory {directory} cannot be granted: "))
            .says(why)
            .says(correct);
        assert_eq!(all(&place), before);
    }
    // A file that no longer exists does not prevent other grants.
    fs::create_dir(place.path().join("docs")).unwrap();
    place.type_in(&["grant", "echo", "--read", "docs=/x"]).ends_with(0);
    fs::remove_dir(place.path().join("docs")).unwrap();
    place.type_in(&["grant", "echo", "--env", "LANG"]).ends_with(0);
}

#[test]
fn the_next_edit_removes_what_a_killed_one_left() {
    let place = place();
    let left = || {
        let names = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with(".tollgate-")).count()
    };
    let lines = "# A line of a configuration that takes a while to write.\n".repeat(60_000);
    let config = fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    place.write("tollgate.toml", format!("{lines}{config}"));
    let until = Instant::now() + Duration::from_secs(60);
    while left() == 0 {
        assert!(Instant::now() < until, "no edit was killed while it wrote");
        let mut edit = place.program(&["grant", "adder", "--env", "TZ"]).spawn().unwrap();
        while left() == 0 && edit.try_wait().unwrap().is_none() {}
        edit.kill().unwrap();
        edit.wait().unwrap();
        if left() == 0 {
            place.type_in(&["revoke", "adder", "--env", "TZ"]);
        }
    }
    place.type_in(&["grant", "adder", "--env", "HOME"]).ends_with(0);
    assert_eq!(left(), 0);
}
