//! Tests of calls that wait for a person, on the command line.

use crate::place::{Place, Said};
use crate::terminal::on_terminal;
use serde_json::{Value, json};
use std::process::Stdio;
use tollgate_artifacts::{Expectation, Guest, good};

/// A tool that asks a person, and asks again when it is resumed.
const ASKS_AGAIN: Guest = Guest {
    name: "asks-again",
    attack: "",
    limit: "",
    expects: Expectation::Succeeds,
    source: r#";; Asks, and asks again.
;;
;; returns: {"ok": {"result": {"data": "null", "message": "Sure?", "status": {"pending": {
;;   "action": "approve", "message": "Sure?", "parameters": {"what": "this"},
;;   "response-schema": {"type": "object", "required": ["approved"],
;;   "properties": {"approved": {"type": "boolean"}}},
;;   "resume-mode": "replay-tool-call"}}}}}
"#,
};

/// A tool that adds one to a number of its thread before it asks a person.
const ADDS_AND_ASKS: Guest = Guest {
    name: "adds-and-asks",
    attack: "",
    limit: "",
    expects: Expectation::Succeeds,
    source: r#";; Adds one, and asks.
;;
;; descriptor: {"state": [{"key": "adds-and-asks.total", "write": true,
;;   "defines": {"initial": "0", "reducer": "add", "scope": "thread", "persistent": true}}]}
;; returns: {"ok": {"result": {"data": "null", "message": "Sure?", "status": {"pending": {
;;   "action": "approve", "message": "Sure?", "parameters": {"what": "this"},
;;   "response-schema": {"type": "boolean"}, "resume-mode": "use-decision-as-tool-result"}}},
;;   "mutations": [{"key": "adds-and-asks.total", "update": "1"}]}}
"#,
};

/// Returns another version of the component, which differs only in a custom section.
fn another_version(guest: &Guest) -> Vec<u8> {
    let mut bytes = guest.bytes();
    bytes.extend([0, 3, 2, b'v', b'2']);
    bytes
}

/// Returns the run of a call that waits, and the call.
fn waits(place: &Place, tool: &str) -> (String, String) {
    let answer = place.type_in(&["call", tool, "--json"]).ends_with(3).json();
    let word = |key: &str| answer[key].as_str().unwrap().to_owned();
    (word("run_id"), word("call_id"))
}

fn lines(said: &Said) -> Vec<Value> {
    said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn w1_the_whole_question_is_stored_listed_and_shown() {
    let place = Place::new().with_tools(&[good::SUSPENDS]);
    let (run, call) = waits(&place, "suspends");
    let listed = place.type_in(&["runs", "--status", "waiting", "--json"]).ends_with(0).json();
    assert_eq!(listed[0]["run_id"], run.as_str());
    place.type_in(&["runs"]).ends_with(0).answers(&run[28..]).answers("waiting");
    let shown = place.type_in(&["show", &run[..30]]).ends_with(0);
    for words in [
        "Shall I?",
        "approve",
        "\"what\": \"this\"",
        "approved",
        &format!("decide {} {call}", &run[28..]),
        &run,
    ] {
        assert!(shown.stdout.contains(words), "{words:?} is not in:\n{}", shown.stdout);
    }
    let events = lines(&place.type_in(&["show", &run, "--json"]).ends_with(0));
    assert_eq!(events.last().unwrap()["type"], "run_waiting");
    let asked = events.iter().find(|event| event["type"] == "call_suspended").unwrap();
    assert_eq!(asked["ticket"]["response_schema"]["required"][0], "approved");
}

#[test]
fn w1_each_verb_shows_the_values_that_a_waiting_call_led_to() {
    let place = Place::new().with_tools(&[ADDS_AND_ASKS]);
    let call = ["call", "adds-and-asks", "--thread", "t", "--json"];
    let values = |said: Said| said.ends_with(3).json()["mutations"].clone();
    let first = values(place.type_in(&call));
    assert_eq!(first, json!([{"key": "adds-and-asks.total", "update": 1, "value": 1}]));
    assert_eq!(values(place.type_in(&["resume", "last", "--json"])), first);
}

#[test]
fn w3_an_answer_that_does_not_fit_is_refused_and_the_call_goes_on_waiting() {
    let place = Place::new().with_tools(&[good::SUSPENDS]);
    let (run, call) = waits(&place, "suspends");
    for (answer, words) in [
        ("\"yes\"", "the answer does not fit what was asked"),
        ("{\"approved\": \"yes\"}", "/approved"),
        ("yes", "the answer is not valid JSON"),
    ] {
        place.type_in(&["decide", &run, &call, "--resume", answer]).ends_with(2).says(words);
    }
    place.type_in(&["decide", &run, "call-7", "--cancel"]).ends_with(2).says("call-7");
    place.type_in(&["decide", "0000", &call, "--cancel"]).ends_with(2).says("there is no run 0000");
    place.type_in(&["decide", &run, &call]).ends_with(2).says("--resume");
    let said =
        place.type_in(&["decide", &run, &call, "--resume", "{\"approved\": true}", "--json"]).ends_with(0);
    assert_eq!(said.json()["data"]["approved"], true, "w4: the decision is the result");
}

#[test]
fn w5_the_same_decision_twice_changes_nothing_and_another_is_refused() {
    let place = Place::new().with_tools(&[good::SUSPENDS]);
    let (run, call) = waits(&place, "suspends");
    place
        .type_in(&["decide", &run, &call, "--cancel", "--reason", "not today", "--id", "d1"])
        .ends_with(1)
        .says("not today");
    let record = place.type_in(&["show", &run, "--json"]).stdout;
    let again = place.type_in(&["decide", &run, &call, "--resume", "{\"approved\": true}", "--id", "d2"]);
    assert_eq!(again.code, 2, "{again:?}");
    place.type_in(&["decide", &run, &call, "--cancel", "--reason", "not today", "--id", "d1"]);
    assert_eq!(place.type_in(&["show", &run, "--json"]).stdout, record);
}

#[test]
fn w9_another_version_of_a_component_asks_again() {
    let place = Place::new().with_tools(&[ASKS_AGAIN]);
    let (run, call) = waits(&place, "asks-again");
    place.write("tools/asks-again.wasm", another_version(&ASKS_AGAIN));
    let resume = || place.type_in(&["decide", &run, &call, "--resume", "{\"approved\": true}", "--json"]);
    assert_eq!(resume().ends_with(3).json()["usage"]["attempts"], 0, "the unapproved version did not run");
    assert_eq!(resume().ends_with(3).json()["usage"]["attempts"], 1, "w10: it ran, and asks again");
    let events = lines(&place.type_in(&["show", &run, "--json"]));
    let asked = events.iter().filter(|event| event["type"] == "call_suspended").collect::<Vec<_>>();
    assert_eq!(asked.len(), 3);
    assert_ne!(asked[0]["owner"]["version"], asked[1]["owner"]["version"]);
    assert_eq!(asked[1]["owner"]["version"], asked[2]["owner"]["version"]);
}

#[test]
fn w9_where_the_component_is_gone_the_question_stays() {
    let place = Place::new().with_tools(&[ASKS_AGAIN]);
    let (run, call) = waits(&place, "asks-again");
    std::fs::remove_file(place.path().join("tools/asks-again.wasm")).unwrap();
    place
        .type_in(&["decide", &run, &call, "--resume", "{\"approved\": true}"])
        .ends_with(2)
        .says("is not loaded");
    place.type_in(&["show", &run]).ends_with(0).answers("Sure?");
}

const MODEL: &str = "[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n";
const ASKS_TWICE: &str =
    "[[turn]]\ncalls = [{ name = \"suspends\" }, { name = \"suspends\", arguments = { n = 2 } }]\n";
const ENDS: &str = "[[turn]]\ntext = \"Both are decided.\"\n";

#[test]
fn w6_decisions_come_one_by_one_each_from_a_process_of_its_own() {
    let place = Place::new().with_tools(&[good::SUSPENDS]).with_config(MODEL);
    place.write("turns.toml", ASKS_TWICE);
    let said = place.type_in(&["run", "--thread", "t", "Ask both"]).ends_with(3);
    said.says("the run waits for 2 decisions").says("call-1-2 --cancel");
    let run = place.type_in(&["runs", "--json"]).json()[0]["run_id"].as_str().unwrap().to_owned();
    place.write("turns.toml", ENDS);
    let decide = |call: &str| place.type_in(&["decide", &run, call, "--resume", "{\"approved\": true}"]);
    decide("call-1-2").ends_with(3).says("the run waits for 1 decision");
    let said = decide("call-1-1").ends_with(0);
    assert_eq!(said.stdout, "Both are decided.\n");
}

#[test]
fn w7_a_message_on_the_thread_supersedes_the_open_calls() {
    let place = Place::new().with_tools(&[good::SUSPENDS]).with_config(MODEL);
    place.write("turns.toml", ASKS_TWICE);
    place.type_in(&["run", "--thread", "t", "Ask both"]).ends_with(3);
    place.write("turns.toml", ENDS.replace("Both are decided", "Never mind"));
    let said = place.type_in(&["run", "--thread", "t", "Forget it"]).ends_with(0);
    assert_eq!(said.stdout, "Never mind.\n");
    let runs = place.type_in(&["runs", "--thread", "t", "--json"]).json();
    assert_eq!(runs.as_array().unwrap().len(), 1, "the run went on");
    let shown = place.type_in(&["show", runs[0]["run_id"].as_str().unwrap()]).ends_with(0);
    assert_eq!(shown.stdout.matches("superseded").count(), 2, "{}", shown.stdout);
}

/// The program reads a person's input from a separate terminal.
#[test]
fn w1_on_a_terminal_a_run_asks_at_once() {
    let place = Place::new().with_tools(&[good::SUSPENDS]).with_config(MODEL);
    place.write("turns.toml", format!("{ASKS_TWICE}{ENDS}"));
    place.write("typed", "maybe\n{\"approved\": 1}\n{\"approved\": true}\ncancel\n");
    let typed = std::fs::File::open(place.path().join("typed")).unwrap();
    let output = on_terminal("run 'Ask both'")
        .current_dir(place.path())
        .env("TOLLGATE_DATA", place.path().join("data"))
        .stdin(Stdio::from(typed))
        .output()
        .expect("`script`, of util-linux, gives programs a terminal");
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{screen}");
    for words in [
        "Shall I?",
        "\"what\"",
        "type y for yes or n for no",
        "does not fit what was asked",
        "Both are decided.",
    ] {
        assert!(screen.contains(words), "{words:?} is not on the screen:\n{screen}");
    }
}
