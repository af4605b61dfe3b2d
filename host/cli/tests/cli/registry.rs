//! Publishing versions of a component to a real registry.

pub(crate) use crate::docker_registry::{Registry, missing};
use crate::place::{Place, Said};
use crate::terminal::on_terminal;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use tollgate_artifacts::good;

/// A version of the component `echo`: the same component with a custom section.
pub(crate) fn version(number: u8) -> Vec<u8> {
    [&good::ECHO.bytes()[..], &[0, 3, 1, b'v', number]].concat()
}

/// Makes a key in a place, as a publisher does. `None` if openssl is not installed.
pub(crate) fn make_key(place: &Place, name: &str) -> Option<()> {
    let run = |arguments: &[&str]| {
        let mut command = Command::new("openssl");
        command.args(arguments).current_dir(place.path()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().map(|status| assert!(status.success(), "{arguments:?}"))
    };
    let (key, public) = (format!("{name}.key"), format!("{name}.pub"));
    let curve = ["-pkeyopt", "ec_paramgen_curve:P-256"];
    if run(&[&["genpkey", "-algorithm", "EC", "-out", &key], &curve[..]].concat()).is_err() {
        missing("openssl");
        return None;
    }
    run(&["pkey", "-in", &key, "-pubout", "-out", &public]).unwrap();
    Some(())
}

/// Publishes a version, signed with a key or not at all.
pub(crate) fn publish(
    place: &Place,
    reference: &str,
    number: u8,
    asks: Option<&str>,
    key: Option<&str>,
) -> Said {
    place.write("echo.wasm", version(number));
    let manifest = place.path().join("echo.toml");
    match asks {
        Some(asks) => fs::write(&manifest, asks).unwrap(),
        None => drop(fs::remove_file(&manifest)),
    }
    let key = key.map(|key| format!("{key}.key"));
    let how = key.as_deref().map_or(vec!["--unsigned"], |key| vec!["--key", key]);
    place.type_in(&[&["publish", reference, "echo.wasm", "--replace"], &how[..]].concat())
}

pub(crate) fn lock(place: &Place) -> String {
    fs::read_to_string(place.path().join("tollgate.lock")).unwrap_or_default()
}

pub(crate) fn copy(from: &Path, to: &Path, name: &str) {
    let target = to.join(name);
    if from.join(name).is_dir() {
        fs::create_dir_all(&target).unwrap();
        for entry in fs::read_dir(from.join(name)).unwrap() {
            copy(&from.join(name), &target, entry.unwrap().file_name().to_str().unwrap());
        }
    } else {
        fs::copy(from.join(name), target).unwrap();
    }
}

/// Runs the program on a terminal on which this is typed, and returns what it shows. `None` if there
/// is no program that makes a terminal.
pub(crate) fn on_a_terminal(place: &Place, arguments: &[&str], typed: &str) -> Option<String> {
    let mut command = on_terminal(&arguments.join(" "));
    command.current_dir(place.path());
    command.env("TOLLGATE_DATA", place.path().join("data")).env("TOLLGATE_CACHE", place.path().join("cache"));
    let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        missing("script");
        return None;
    };
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    Some(String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned())
}
