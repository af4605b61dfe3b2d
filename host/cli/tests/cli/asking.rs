//! Questions to a person at a terminal.

use crate::person::type_on_a_terminal;
use crate::place::Place;
use crate::terminal::on_terminal;
use serde_json::Value;
use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};
use tollgate_artifacts::good;

fn asking() -> Place {
    Place::new().with_tools(&[good::ECHO]).with_config("[permissions]\nask = [\"*\"]\n")
}

fn suspending() -> Place {
    Place::new().with_tools(&[good::SUSPENDS])
}

fn statuses(place: &Place) -> Vec<String> {
    let runs = place.type_in(&["runs", "--json"]).ends_with(0).json();
    runs.as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn w3_a_permission_question_takes_one_letter_and_runs_the_call() {
    let place = asking();
    let call = ["call", "echo", "{\"a\": 1}"];
    type_on_a_terminal(&place, &call, "?\no\n")
        .ends_with(0)
        .shows("The gate `permissions` asks about `echo` (permit):")
        .shows("[o]nce  [t]hread  [a]lways  [n]o")
        .shows("schema of the answer")
        .shows("in every thread; it is written to tollgate.toml")
        .shows("\"a\": 1");
    let refused = type_on_a_terminal(&place, &call, "n\n").ends_with(1).shows("cancelled");
    assert!(!refused.text.contains("anyOf"), "the schema is shown on request: {}", refused.text);
    assert_eq!(statuses(&place), ["failed", "completed"]);
    type_on_a_terminal(&place, &call, "a\n").ends_with(0).shows("remembered for always");
    place.type_in(&call).ends_with(0);
}

/// The answer to the rules' question only permits the call. The tool's own question is asked then.
#[test]
fn w8_a_permission_is_not_the_answer_to_the_tools_own_question() {
    let place = Place::new().with_config("[permissions]\notherwise = \"ask\"\n");
    place.write("tools/approve.wasm", tollgate_artifacts::rust_guest_bytes("approve"));
    let call = ["call", "request_approval", "{\"question\": \"Publish 1 notes?\"}"];
    type_on_a_terminal(&place, &call, "o\ny\nLooks good.\n")
        .ends_with(0)
        .shows("The gate `permissions` asks")
        .shows("Publish 1 notes?")
        .shows("\"comment\": \"Looks good.\"");
    let replayed = place.type_in(&["replay", "last", "--json"]).ends_with(0).json();
    let findings: Vec<_> = replayed["attempts"].as_array().unwrap().iter().map(|it| &it["finding"]).collect();
    assert_eq!(findings, ["same", "same"], "{replayed}");
}

#[test]
fn w2_nothing_typed_leaves_the_question_open_and_decide_asks_it_again() {
    let place = suspending();
    let left = type_on_a_terminal(&place, &["call", "suspends"], "\n").ends_with(3).shows("tollgate decide ");
    assert_eq!(left.text.matches("Shall I?").count(), 1, "the question is shown twice: {}", left.text);
    assert_eq!(statuses(&place), ["waiting"]);
    // The only waiting call needs no name.
    type_on_a_terminal(&place, &["decide"], "maybe\nyes\n")
        .ends_with(0)
        .shows("Shall I?")
        .shows("| \"approved\"")
        .shows("[y]es / [n]o")
        .shows("type y for yes or n for no");
    assert_eq!(statuses(&place), ["completed"]);
    place.type_in(&["decide", "--cancel"]).ends_with(2).says("no run waits for a decision");
}

#[test]
fn w3_a_run_that_does_not_wait_is_named_with_its_status() {
    let place = suspending();
    let empty = place.type_in(&["decide"]).ends_with(2);
    empty.says("no run waits for a decision");
    place.type_in(&["decide", "last"]).ends_with(2).says("there is no run yet");
    place.type_in(&["call", "suspends"]).ends_with(3).says("call-1 --resume 'ANSWER AS JSON' --code CODE");
    place.type_in(&["decide", "zzz"]).ends_with(2).says("there is no run zzz");
    place.type_in(&["decide"]).ends_with(2).says("--resume true --code CODE");
    let code = place.code("last", "call-1").unwrap();
    let decide = ["decide", "last", "call-1", "--resume", "{\"approved\": true}", "--code", &code];
    place.type_in(&decide).ends_with(0);
    for arguments in [&["decide", "last"] as &[&str], &["decide", "last", "--cancel"], &decide] {
        let said = place
            .type_in(arguments)
            .ends_with(2)
            .says("is not waiting for a decision: its status is completed");
        assert_eq!(said.stdout, "");
    }
    type_on_a_terminal(&place, &["decide", "last"], "").ends_with(2).shows("is not waiting");
}

#[test]
fn w3_the_only_waiting_call_is_the_default_and_several_are_listed() {
    let place = suspending();
    for _ in 0..2 {
        place.type_in(&["call", "suspends"]).ends_with(3);
    }
    place
        .type_in(&["decide", "--cancel"])
        .ends_with(2)
        .says("several runs wait for a decision")
        .says("suspends");
    let code = place.code("last", "call-1").unwrap();
    place.type_in(&["decide", "last", "--cancel"]).ends_with(2).says("needs the question's code");
    place.type_in(&["decide", "last", "--cancel", "--code", &code]).ends_with(1);
    let runs = place.type_in(&["runs", "--status", "waiting", "--json"]).json();
    let code = place.code(runs[0]["run_id"].as_str().unwrap(), "call-1").unwrap();
    place.type_in(&["decide", "--resume", "{\"approved\": true}", "--code", &code]).ends_with(0);
}

#[test]
fn z11_codes_are_shown_on_a_terminal() {
    let place = suspending();
    place.type_in(&["call", "suspends"]).ends_with(3);
    let code = place.code("last", "call-1").unwrap();
    type_on_a_terminal(&place, &["runs"], "").ends_with(0).shows(&format!("waiting  {code}"));
    type_on_a_terminal(&place, &["show", "last"], "").ends_with(0).shows(&format!("its code: {code}"));
}

/// Calls the tool on a terminal that stays open without input, until its question is asked. Returns the
/// program and its keyboard.
fn asked_on_a_terminal(place: &Place) -> (Child, ChildStdin) {
    let mut asking = on_terminal("call suspends")
        .current_dir(place.path())
        .env("TOLLGATE_DATA", place.path().join("data"))
        .env("TOLLGATE_CACHE", place.path().join("cache"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let keyboard = asking.stdin.take().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while statuses(place) != ["waiting"] {
        assert!(std::time::Instant::now() < deadline, "the call does not wait");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    (asking, keyboard)
}

#[test]
fn w2_ctrl_c_leaves_the_question_open() {
    let place = suspending();
    let (asking, mut keyboard) = asked_on_a_terminal(&place);
    keyboard.write_all(b"\x03").unwrap();
    let ended = asking.wait_with_output().unwrap();
    drop(keyboard);
    let screen = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.status.code(), Some(3), "{screen}");
    assert!(screen.contains("tollgate decide "), "{screen}");
    assert_eq!(screen.matches("Shall I?").count(), 1, "the question is shown twice: {screen}");
    assert_eq!(statuses(&place), ["waiting"]);
}

/// The prompt stays open until a decision is made in another process.
#[test]
fn w5_a_decision_made_elsewhere_ends_the_prompt_and_shows_the_result() {
    let place = suspending();
    let (asking, keyboard) = asked_on_a_terminal(&place);
    let run: Value = place.type_in(&["runs", "--json"]).json();
    place
        .type_in(&[
            "decide",
            run[0]["run_id"].as_str().unwrap(),
            "call-1",
            "--resume",
            "{\"approved\": true}",
        ])
        .ends_with(0);
    let ended = asking.wait_with_output().unwrap();
    drop(keyboard);
    let screen = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{screen}");
    assert!(screen.contains("decided elsewhere") && screen.contains("\"approved\": true"), "{screen}");
}
