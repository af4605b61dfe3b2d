//! Tests of signals while an agent or a call runs: Ctrl-C, and other ways to end a program.

use crate::place::Place;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tollgate::store::{SqliteStore, StateStore};
use tollgate_agent::message::Message;
use tollgate_artifacts::{good, hostile};

const CONFIG: &str =
    "[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n[limits]\ntimeout_ms = 120_000\n";
const TURNS: &str = "\
[[turn]]
text = \"This will take a while.\"
calls = [{ name = \"echo\", arguments = {} }, { name = \"sleep-for-ever\", arguments = {} }]
";
const NEXT: &str = "[[turn]]\nexpect = \"And now?\"\ntext = \"Now I am back.\"\n";

/// Sends the signal of Ctrl-C.
pub(crate) fn interrupt(process: u32) {
    send("-INT", process);
}

pub(crate) fn send(signal: &str, process: u32) {
    let status = Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Runs the agent on the thread `t` until both calls are in progress, sends it these signals, and
/// returns all events that it printed.
fn signalled(place: &Place, signals: &[&str]) -> (Vec<Value>, Option<i32>) {
    let mut command = place.program(&["run", "--json", "--thread", "t", "Go."]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut events = Vec::new();
    let mut started = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["type"] == "call_started" {
            started += 1;
            if started == 2 {
                signals.iter().for_each(|signal| send(signal, child.id()));
            }
        }
        events.push(event);
    }
    (events, child.wait().unwrap().code())
}

#[test]
fn x1_x3_an_interrupt_cancels_the_run_and_the_conversation_goes_on() {
    let place = Place::new().with_tools(&[good::ECHO, hostile::SLEEP_FOR_EVER]).with_config(CONFIG);
    place.write("turns.toml", TURNS);
    let (events, code) = signalled(&place, &["-INT"]);
    let last = events.last().unwrap();
    assert_eq!(
        (last["type"].as_str(), last["status"]["status"].as_str()),
        (Some("run_finished"), Some("cancelled"))
    );
    assert_eq!(code, Some(1));

    let store = SqliteStore::open(&place.path().join("data")).unwrap();
    let thread = tokio::runtime::Runtime::new().unwrap().block_on(store.thread("t")).unwrap();
    drop(store);
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    for message in thread.messages.iter() {
        match message {
            Message::Assistant(said) => asked.extend(said.calls.iter().map(|call| call.id.clone())),
            Message::Answer(answer) => answered.push(answer.call_id.to_string()),
            Message::User(_) | Message::Note(_) => {}
        }
    }
    assert_eq!((asked.len(), &asked), (2, &answered), "each call has its one answer, in order");
    assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), 2);

    place.write("turns.toml", NEXT);
    let said = place.type_in(&["run", "--thread", "t", "And now?"]).ends_with(0);
    assert_eq!(said.stdout, "Now I am back.\n");
}

#[test]
fn x1_other_signals_that_end_a_program_cancel_the_run_too() {
    for signal in ["-TERM", "-HUP"] {
        let place = Place::new().with_tools(&[good::ECHO, hostile::SLEEP_FOR_EVER]).with_config(CONFIG);
        place.write("turns.toml", TURNS);
        let (events, code) = signalled(&place, &[signal]);
        let last = events.last().unwrap();
        assert_eq!(
            (last["status"]["status"].as_str(), code),
            (Some("cancelled"), Some(1)),
            "{signal}: {last}"
        );
        let runs = place.type_in(&["runs", "--json"]).json();
        assert_eq!(runs[0]["status"], "cancelled", "{signal}");
    }
}

#[test]
fn x1_a_second_signal_ends_the_program_at_once() {
    let place = Place::new().with_tools(&[good::ECHO, hostile::SLEEP_FOR_EVER]).with_config(CONFIG);
    place.write("turns.toml", TURNS);
    let (_, code) = signalled(&place, &["-INT", "-TERM"]);
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    let runs = place.type_in(&["runs", "--json"]).json();
    // The cancellation by the first signal may have been recorded in between.
    assert!(["running", "cancelled"].contains(&runs[0]["status"].as_str().unwrap()), "{runs}");
    assert_eq!(runs[0]["at_work"], false);
}

#[test]
fn x1_a_signal_cancels_a_direct_call() {
    let place = Place::new().with_tools(&[hostile::SLEEP_FOR_EVER]).with_config(CONFIG);
    let mut command = place.program(&["call", "sleep-for-ever", "--json"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while place.type_in(&["runs", "--status", "running", "--json"]).json() == serde_json::json!([]) {
        assert!(began.elapsed() < Duration::from_secs(60), "the call does not start");
    }
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(place.type_in(&["runs", "--json"]).json()[0]["status"], "cancelled");
}
