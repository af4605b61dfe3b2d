//! Tests of host files that are pipes, directories or links to devices: the error names what to do,
//! and nothing waits for them.

use crate::place::{Place, Said};
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tollgate_artifacts::good;

/// Far longer than any of these takes. Waiting for a pipe would never end.
const PATIENCE: Duration = Duration::from_secs(60);

fn pipe(at: &Path) {
    assert!(Command::new("mkfifo").arg(at).status().unwrap().success());
}

fn directory(at: &Path) {
    fs::create_dir(at).unwrap();
}

fn link(at: &Path) {
    symlink("/dev/zero", at).unwrap();
}

/// A function that creates a file of some kind at this path.
type Make = fn(&Path);

const KINDS: [(Make, &str); 3] = [
    (pipe, "it is a named pipe, and must be a regular file; move it away: mv "),
    (directory, "it is a directory, and must be a regular file; move it away: mv "),
    (link, "it is a symbolic link, which is not followed here"),
];

fn type_in(place: &Place, arguments: &[&str]) -> Said {
    Said::of(&place.tollgate(arguments).timeout(PATIENCE).assert())
}

#[test]
fn z17_a_file_of_the_store_that_is_no_regular_one_is_refused_at_once() {
    for name in ["tollgate.lock", "tollgate.db", "tollgate.db-wal", "tollgate.db-shm"] {
        for (make, why) in KINDS {
            let place = Place::new();
            let data = place.path().join("data");
            fs::DirBuilder::new().mode(0o700).create(&data).unwrap();
            make(&data.join(name));
            type_in(&place, &["runs"]).ends_with(1).says(&format!("data/{name}: ")).says(why);
        }
    }
}

#[test]
fn a_pipe_beside_the_files_of_processes_is_not_waited_for() {
    let place = Place::new();
    type_in(&place, &["runs"]).ends_with(0);
    let processes = place.path().join("data/processes");
    pipe(&processes.join("01890000-0000-7000-8000-000000000000"));
    type_in(&place, &["runs"]).ends_with(0);
}

#[test]
fn a_cache_of_pipes_directories_or_links_is_not_waited_for() {
    for (make, _) in KINDS {
        let place = Place::new().with_tools(&[good::ECHO]);
        type_in(&place, &["call", "echo"]).ends_with(0);
        let mut replaced = 0;
        for entry in fs::read_dir(place.path().join("cache")).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_file() {
                fs::remove_file(&entry).unwrap();
                make(&entry);
                replaced += 1;
            }
        }
        assert!(replaced > 0, "there was a cache");
        type_in(&place, &["call", "echo"]).ends_with(0);
    }
}

#[test]
fn a_lack_of_file_descriptors_is_said_with_its_remedy() {
    let place = Place::new();
    place.type_in(&["runs"]).ends_with(0);
    let mut refused = 0;
    // Below some limit, the program cannot even start.
    for limit in 8..20 {
        let mut shell = std::process::Command::new("bash");
        let typed = format!("ulimit -n {limit}; exec {} runs", env!("CARGO_BIN_EXE_tollgate"));
        shell.args(["-c", &typed]).current_dir(place.path()).env("TOLLGATE_DATA", place.path().join("data"));
        let output = shell.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("data directory") {
            let remedy = "this process has too many open files; raise its limit (ulimit -n)";
            assert!(said.contains(remedy), "{limit}: {said}");
            refused += 1;
        }
    }
    assert!(refused > 0, "no limit is met while the data directory is opened");
}
