//! Each hostile guest ends in its documented code or refusal, and the host continues.

use crate::soak::{self, left_behind::Footprint};
use std::sync::Arc;
use std::time::Duration;

use tollgate_agent::code::Code;
use tollgate_artifacts::{Expectation, Guest, HOSTILE, for_each_hostile_guest, good, hostile};
use tollgate_sandbox::Limits;

use crate::promises::{against_the_promises, not_noted};
use crate::rig::{Ended, Rig};

/// Returns limits that are large enough for every attack and small enough to end soon.
fn limits() -> Limits {
    Limits { fuel: 1_000_000_000, ..Limits::default() }
}

/// Returns the deadline: only guests that wait forever may meet it, even on a busy machine.
fn timeout(guest: &Guest) -> Duration {
    match guest.expects {
        Expectation::Code("timed_out") => Duration::from_millis(200),
        _ => Duration::from_secs(60),
    }
}

/// Returns the actual outcome if it differs from the one that the guest's file documents.
pub(crate) fn unlike_documented(guest: &Guest, came_out: &Result<Ended, String>) -> Option<String> {
    match (guest.expects, came_out) {
        (Expectation::Refused(words), Err(reason)) if reason.contains(words) => None,
        (Expectation::Refused(_), Err(reason)) => Some(format!("refused for another reason: {reason}")),
        (Expectation::Refused(_), Ok(_)) => Some(format!("it was loaded: {}", guest.attack)),
        (_, Err(reason)) => Some(format!("it was refused: {reason}")),
        (Expectation::Succeeds, Ok(ended)) if ended.result.is_ok() => against_the_promises(ended),
        (Expectation::Code(code), Ok(ended)) if ended.code().map(Code::as_str) == Some(code) => None,
        (_, Ok(ended)) => {
            let denied = ended.attempt.as_ref().map(|attempt| &attempt.denied);
            Some(format!("not {}: {:?}, refused {denied:?}", guest.expects, ended.result))
        }
    }
}

/// Loads and calls the guest, and returns the outcome.
fn attack(rig: &Rig, guest: &Guest) -> Result<Ended, String> {
    let loaded = rig.load(guest)?;
    Ok(rig.call(&loaded, "{}", &limits(), timeout(guest)))
}

fn ends_as_documented(guest: &Guest) {
    let rig = Rig::new();
    let echo = rig.load(&good::ECHO).unwrap();
    let came_out = attack(&rig, guest);
    let problem = unlike_documented(guest, &came_out)
        .or_else(|| came_out.as_ref().ok().and_then(|ended| not_noted(guest, ended)));
    if let Some(problem) = problem {
        panic!("{problem}");
    }
    let answer = rig.call(&echo, r#"{"still":"here"}"#, &limits(), Duration::from_secs(60));
    assert_eq!(answer.result.unwrap().result.data["still"], "here");
}

macro_rules! tests {
    ($($name:ident = $guest:ident,)*) => { $(
        #[test]
        fn $name() {
            ends_as_documented(&hostile::$guest);
        }
    )* };
}

mod each {
    use super::*;

    for_each_hostile_guest!(tests);
}

#[test]
fn arguments_with_duplicate_keys_run_nothing() {
    let rig = Rig::new();
    let echo = rig.load(&good::ECHO).unwrap();
    let ended = rig.call(&echo, r#"{"path":"a","path":"b"}"#, &limits(), Duration::from_secs(60));
    assert_eq!(ended.code(), Some(Code::InvalidArguments));
    assert!(ended.attempt.is_none());
}

#[test]
fn a_pattern_is_tried_without_backtracking() {
    let rig = Rig::new();
    let loaded = rig.load(&hostile::PATTERN_THAT_BACKTRACKS).unwrap();
    let arguments = format!(r#"{{"a":"{}!"}}"#, "a".repeat(20_000));
    let began = std::time::Instant::now();
    let ended = rig.call(&loaded, &arguments, &limits(), Duration::from_secs(60));
    assert_eq!(ended.code(), Some(Code::InvalidArguments));
    // With backtracking, this would take longer than the age of the universe.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn what_is_called_wasm_and_is_no_file_is_refused() {
    let rig = Rig::new();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let real = good::ECHO.write_to(folder.path());
    std::fs::create_dir(at("directory.wasm")).unwrap();
    std::os::unix::fs::symlink(&real, at("symlink.wasm")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(at("pipe.wasm")).status().unwrap();
    assert!(made.success());
    for name in ["directory.wasm", "symlink.wasm", "pipe.wasm", "absent.wasm"] {
        let reason = rig.load_file(&at(name)).err().unwrap();
        assert!(reason.contains(name), "{reason}");
    }
    assert!(rig.load_file(&real).is_ok());
}

/// Each moves the directory that the others traverse, at the same time.
#[test]
fn directories_that_several_guests_swap_lead_nowhere() {
    let rig = Rig::new();
    let loaded = Arc::new(rig.load(&hostile::SWAP_DIRECTORIES).unwrap());
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let loaded = Arc::clone(&loaded);
            rig.runtime().spawn(async move { loaded.call("{}", &limits(), Duration::from_secs(60)).await })
        })
        .collect();
    for call in calls {
        let ended = rig.runtime().block_on(call).unwrap();
        assert!(ended.result.is_ok(), "{:?}", ended.result);
    }
}

#[test]
fn memory_descriptors_and_slots_return_to_where_they_were() {
    soak::in_a_measured_process("hostile::all_attacks_twice");
}

#[test]
#[ignore = "the test above starts it"]
fn all_attacks_twice() {
    let rig = Rig::new();
    let all = || {
        for guest in HOSTILE {
            // Its outcome is checked by its own test.
            let _ = attack(&rig, guest);
        }
    };
    // The first round warms up the pool, the allocator and caches.
    all();
    let before = Footprint::by(&rig);
    before.print("before");
    all();
    Footprint::once_at_rest(&rig, &before).print("after");
}

/// Returns the resident memory of this process.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}
