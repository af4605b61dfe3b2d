//! The program is killed at each step that `add`, `update` and `remove` take in the file system:
//! nothing that the lock file does not name is ever served, and the next command completes the work.
//!
//! strace delivers the signal: the program ends at the Nth call of each kind that changes a file, before
//! that call has an effect.

use crate::place::Place;
use crate::registry::{Registry, copy, make_key, missing, publish};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use tollgate_registry::{Digest, Lock};

/// The calls of the system that change files or directories, as far as the program uses them.
const CALLS: [&str; 11] = [
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "fsync",
    "fdatasync",
    "fchmod",
    "linkat",
];
/// More calls of one kind than any verb makes.
const MAX_STEPS: u32 = 100;
/// A file that is not recorded is not served.
const CONFIG: &str = "[tools]\nlocked = \"all\"\n";
const ASKS: &str = "[asks]\n";

/// Whether strace can be used here.
fn has_strace() -> bool {
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let is_usable = traced.is_ok_and(|status| status.success());
    if !is_usable {
        missing("strace");
    }
    is_usable
}

/// Runs a verb, and kills it at this call. Whether it was killed; otherwise it ended before.
fn killed_at(call: &str, step: u32, place: &Place, arguments: &[&str]) -> bool {
    let program = place.program(arguments);
    let mut strace = Command::new("strace");
    // Only the main thread is traced, which does this work.
    // Not every machine has every call.
    strace.args(["-o", "/dev/null", "-e", &format!("trace=?{call}")]);
    strace.args(["-e", &format!("inject=?{call}:signal=KILL:when={step}")]);
    strace.arg(program.get_program()).args(program.get_args()).current_dir(place.path());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    let output = strace.stdin(Stdio::null()).output().unwrap();
    let is_killed = output.status.signal() == Some(9) || output.status.code() == Some(128 + 9);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(is_killed || output.status.success(), "{call} {step}: {}\n{errors}", output.status);
    is_killed
}

/// The files of a place that belong to components, by their names below it.
fn files(place: &Place) -> BTreeMap<String, Digest> {
    let mut found = BTreeMap::new();
    for directory in ["", "tools", "tollgate.bundles"] {
        for entry in fs::read_dir(place.path().join(directory)).into_iter().flatten().flatten() {
            let name = format!("{directory}/{}", entry.file_name().to_string_lossy());
            let is_work = name.starts_with("/echo.") || name.starts_with("/acme.");
            if entry.path().is_file() && !is_work {
                let mut content = fs::read(entry.path()).unwrap();
                if name.ends_with("approved.toml") {
                    // It holds times.
                    content.clear();
                }
                found.insert(name, Digest::of(&content));
            }
        }
    }
    found
}

/// Nothing is served that the lock file does not name.
fn check_served(place: &Place, step: &str) {
    let text = fs::read_to_string(place.path().join("tollgate.lock")).unwrap_or_default();
    let lock = Lock::parse(&text).unwrap_or_else(|e| panic!("step {step}: {e}"));
    let seen = place.type_in(&["tools", "--json"]).ends_with(0).json();
    for tool in seen["tools"].as_array().unwrap() {
        let entry =
            lock.of(tool["component"].as_str().unwrap()).unwrap_or_else(|| panic!("step {step}: {tool}"));
        assert_eq!(tool["digest"], entry.wasm.hex(), "step {step}");
        assert_eq!(tool["recorded"]["manifest"], entry.manifest.as_ref().unwrap().to_string(), "step {step}");
    }
}

/// A copy of a place, with everything that is in it.
fn copied(from: &Place) -> Place {
    let place = Place::new();
    for entry in fs::read_dir(from.path()).unwrap() {
        copy(from.path(), place.path(), entry.unwrap().file_name().to_str().unwrap());
    }
    place
}

/// Kills a verb at each of its steps, and returns their number. Each time, `sync` makes files and lock
/// file agree, and the same verb then has the result of a run that was not disturbed.
fn kill_at_each_step(start: &Place, arguments: &[&str], again: &[i32]) -> u32 {
    let undisturbed = copied(start);
    undisturbed.type_in(arguments).ends_with(0);
    let expected = files(&undisturbed);
    let mut kills = 0;
    for call in CALLS {
        for step in 1.. {
            assert!(step < MAX_STEPS, "{arguments:?} calls {call} more than {MAX_STEPS} times");
            let place = copied(start);
            if !killed_at(call, step, &place, arguments) {
                assert_eq!(files(&place), expected, "it was not disturbed");
                break;
            }
            kills += 1;
            let step = format!("{call} {step}");
            check_served(&place, &step);
            let synced = place.type_in(&["sync"]).ends_with(0);
            // Only a removal leaves an entry whose file has to be fetched again.
            assert!(arguments[0] == "remove" || !synced.stdout.contains("restored"), "{step}: {synced:?}");
            place.type_in(&["sync", "--locked"]).ends_with(0);
            place.type_in(&["verify"]).ends_with(0);
            let code = place.type_in(arguments).code;
            assert!(again.contains(&code), "{step}: it ends with {code} the second time");
            // The next verb that changes something removes the remains.
            assert_eq!(files(&place), expected, "{step}");
        }
    }
    println!("{arguments:?} was killed at {kills} steps");
    kills
}

/// A place with a key, and a registry that has version 1 of `echo`.
fn prepared() -> Option<(Registry, Place)> {
    if !has_strace() {
        return None;
    }
    let registry = Registry::start()?;
    let place = Place::new().with_config(CONFIG);
    make_key(&place, "acme")?;
    publish(&place, &registry.echo("1"), 1, Some(ASKS), Some("acme")).ends_with(0);
    // The code of the component is compiled once for all copies.
    place.type_in(&["inspect", "echo.wasm"]).ends_with(0);
    Some((registry, place))
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

#[test]
fn a_component_is_added_whole_or_not_at_all() {
    let Some((registry, place)) = prepared() else { return };
    let reference = registry.echo("1");
    let steps = kill_at_each_step(&place, &["add", &reference, "--key", "acme.pub", "--yes"], &[0]);
    assert!(steps >= 12, "{steps} steps are too few to mean anything");
}

#[test]
fn an_update_takes_the_place_of_the_old_version_whole_or_not_at_all() {
    let Some((registry, place)) = prepared() else { return };
    place.type_in(&["add", &registry.echo("1"), "--key", "acme.pub", "--yes"]).ends_with(0);
    let more = "[asks]\nwhy = \"It still asks for nothing.\"\n";
    publish(&place, &registry.echo("1"), 2, Some(more), Some("acme")).ends_with(0);
    let steps = kill_at_each_step(&place, &["update", "--yes"], &[0]);
    assert!(steps >= 12, "{steps} steps are too few to mean anything");
}

#[test]
fn a_component_is_removed_with_its_entry_and_its_evidence() {
    let Some((registry, place)) = prepared() else { return };
    place.type_in(&["add", &registry.echo("1"), "--key", "acme.pub", "--yes"]).ends_with(0);
    // A removal that was completed before the signal is not there to be repeated.
    let steps = kill_at_each_step(&place, &["remove", "echo"], &[0, 2]);
    assert!(steps >= 5, "{steps} steps are too few to mean anything");
    let removed = copied(&place);
    removed.type_in(&["remove", "echo"]).ends_with(0);
    assert!(is_empty(&removed.path().join("tools")) && is_empty(&removed.path().join("tollgate.bundles")));
}
