//! Tests of calls: several in parallel, their notifications, and the ways in which they end.

use crate::place::Place;
use crate::raw::Raw;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tollgate_artifacts::{good, hostile, rust_guest_bytes};

const ENDLESS: &str = "[limits]\ntimeout_ms = 30_000\nfuel = 900_000_000_000\n";

fn spins(place: Place) -> Place {
    place.with_tools(&[good::ECHO, hostile::SPIN_FOR_EVER]).with_config(ENDLESS)
}

#[test]
fn what_is_wrong_with_a_call_is_a_result_and_what_is_wrong_with_a_request_is_an_error() {
    let place = Place::new().with_tools(&[good::ECHO, good::ADDER]);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let answer = raw.ask("tools/call", json!({"name": "ecco", "arguments": {}}));
    assert_eq!(answer["error"]["code"], -32602);
    assert!(answer["error"]["message"].as_str().unwrap().contains("the nearest: echo"), "{answer}");
    let answer = raw.ask("tools/call", json!({"arguments": {}}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = raw.ask("tools/list", json!({"cursor": "no such tool"}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[test]
fn g3_a_call_that_a_rule_denies_is_a_result_with_its_code() {
    let place = Place::new()
        .with_tools(&[good::ECHO, good::FAILS])
        .with_config("[permissions]\nallow = [\"*\"]\ndeny = [\"echo\"]\n");
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let result = raw.call("echo", json!({}));
    assert_eq!(result["isError"], true);
    assert_eq!(result["structuredContent"]["error"]["code"], "denied", "{result}");
    assert_eq!(raw.call("fails", json!({}))["structuredContent"]["error"]["code"], "tool_failed");
}

#[test]
fn l9_arguments_are_judged_as_they_were_written() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    raw.send_line(
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"a":2}}}"#,
    );
    let result = raw.answer(7)["result"].clone();
    assert_eq!(result["isError"], true);
    assert_eq!(result["structuredContent"]["error"]["code"], "invalid_arguments", "{result}");
}

#[test]
fn x1_a_cancelled_call_ends_and_is_not_answered() {
    let place = spins(Place::new());
    let mut raw = Raw::begin_with(&place, &["--thread", "t"], "2025-11-25", json!({}));
    raw.begin_asking(1, "tools/call", json!({"name": "spin-for-ever", "arguments": {}}));
    raw.call("echo", json!({}));
    raw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    let answered = raw.comes(|message| message["id"] == 1, Duration::from_secs(2));
    assert!(!answered);
    let runs = place.type_in(&["runs", "--json"]).json();
    let statuses: Vec<&str> =
        runs.as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert!(statuses.contains(&"cancelled") && !statuses.contains(&"running"), "{statuses:?}");
}

#[test]
fn answers_that_are_due_at_the_end_of_input_are_given() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    raw.begin_asking(1, "tools/call", json!({"name": "echo", "arguments": {"last": true}}));
    assert_eq!(raw.leave().1, 0);
    assert_eq!(raw.answer(1)["result"]["structuredContent"]["last"], true);
}

#[test]
fn e2_progress_and_log_lines_are_told_to_who_asked() {
    let place = Place::new().with_tools(&[good::REPORTS]);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    raw.call("reports", json!({}));
    assert!(!raw.comes(|message| message.get("method").is_some(), Duration::from_millis(200)));
    raw.ask("logging/setLevel", json!({"level": "debug"}));
    let params = json!({"name": "reports", "arguments": {}, "_meta": {"progressToken": "p"}});
    raw.begin_asking(9, "tools/call", params);
    let progress = raw.told("notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "p");
    assert!(progress["params"]["progress"].is_number());
    let line = raw.told("notifications/message");
    assert!(line["params"]["logger"].as_str().unwrap().starts_with("reports"), "{line}");
    raw.answer(9);
    let mut last = progress["params"]["progress"].as_f64().unwrap();
    while raw.comes(|message| message["method"] == "notifications/progress", Duration::ZERO) {
        let next = raw.told("notifications/progress")["params"]["progress"].as_f64().unwrap();
        assert!(next > last, "{next} is no progress after {last}");
        last = next;
    }
}

#[test]
fn e7_phases_and_changes_of_an_activity_reach_clients_and_the_terminal() {
    let place = Place::new().with_tools(&[good::REPORTS_CHANGES]);
    let mut last = 0.0;
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    raw.ask("logging/setLevel", json!({"level": "info"}));
    let params = json!({"name": "reports-changes", "arguments": {}, "_meta": {"progressToken": "p"}});
    raw.begin_asking(9, "tools/call", params);
    for words in ["pending: files", "files: [{", "done: files", "more"] {
        let progress = raw.told("notifications/progress");
        assert!(progress["params"]["message"].as_str().unwrap().starts_with(words), "{progress}");
        let numbers = &progress["params"];
        let done = numbers["progress"].as_f64().unwrap();
        // Reports after the whole still increase, and have no total to exceed.
        let total = numbers["total"].as_f64().unwrap_or(f64::INFINITY);
        assert!(last < done && done <= total, "{progress} after {last}");
        assert_eq!(numbers.get("total").is_some(), done <= 1.0, "{progress}");
        last = done;
    }
    assert!(last > 1.0, "a report came after the whole");
    let change = raw.told("notifications/message");
    assert_eq!(change["params"]["logger"], "reports-changes/activity");
    let patch = json!([{"op": "add", "path": "/read", "value": 3}]);
    assert_eq!(change["params"]["data"], json!({"kind": "files", "patch": patch}));
    raw.answer(9);
    let said = place.type_in(&["call", "reports-changes"]).ends_with(0);
    for words in ["pending files", "files: [{\"op\":\"add\"", "100 % done files"] {
        assert!(said.stderr.contains(words), "{words} in {}", said.stderr);
    }
}

#[test]
fn a9_calls_of_a_session_share_its_state_and_no_other() {
    let place = Place::new();
    place.write("tools/counter.wasm", rust_guest_bytes("counter"));
    let mut first = Raw::begin(&place, "2025-11-25", json!({}));
    let count = |raw: &mut Raw| raw.call("counter", json!({}))["structuredContent"]["total"].clone();
    assert_eq!((count(&mut first), count(&mut first)), (json!(1), json!(2)));
    let mut other = Raw::begin(&place, "2025-11-25", json!({}));
    assert_eq!(count(&mut other), 1);
    // Ten calls at once on one thread are all counted.
    for id in 0..10 {
        first.begin_asking(id, "tools/call", json!({"name": "counter", "arguments": {}}));
    }
    for id in 0..10 {
        assert_eq!(first.answer(id)["result"]["isError"], false);
    }
    assert_eq!(count(&mut first), 13);
}

#[test]
fn d10_an_agent_is_offered_as_a_tool() {
    let place = Place::new().with_tools(&[good::ECHO]).with_config(
        "[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n[agents.helper]\ndescription = \"Helps\"\n",
    );
    place.write("turns.toml", "[[turn]]\ntext = \"I helped.\"\n");
    let mut raw = Raw::begin_with(&place, &["--agent", "helper"], "2025-11-25", json!({}));
    let listed = raw.ask("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(listed[1]["name"], "helper", "{listed}");
    let result = raw.call("helper", json!({"request": "Help!"}));
    assert_eq!(result["structuredContent"], json!({"response": "I helped."}), "{result}");
    assert_eq!(raw.call("helper", json!({"wish": 1}))["isError"], true);
    place.type_in(&["mcp", "--agent", "halper"]).ends_with(2).says("did you mean `helper`?");
}

#[test]
fn b3_a_client_is_offered_nothing_that_grants_installs_loads_or_approves() {
    let place = Place::new();
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    assert_eq!(raw.ask("tools/list", json!({}))["result"]["tools"], json!([]), "nothing of the host's own");
    for name in ["search_history", "transfer_to_agent", "tollgate_run_agent", "grant", "install", "decide"] {
        let answer = raw.ask("tools/call", json!({"name": name, "arguments": {}}));
        assert_eq!(answer["error"]["code"], -32602, "{name}: {answer}");
    }
    for method in ["tools/install", "tools/grant", "tools/approve", "tollgate/decide"] {
        let answer = raw.ask(method, json!({}));
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
}

#[test]
fn t5_calls_of_one_client_run_at_once() {
    let place = Place::new().with_tools(&[good::WAITS]);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let one = Instant::now();
    raw.call("waits", json!({}));
    let one = one.elapsed();
    let all = Instant::now();
    for id in 0..16 {
        raw.begin_asking(id, "tools/call", json!({"name": "waits", "arguments": {}}));
    }
    for id in 0..16 {
        assert_eq!(raw.answer(id)["result"]["isError"], false);
    }
    assert!(all.elapsed() < one * 10 + Duration::from_millis(200), "{one:?} for one, {:?}", all.elapsed());
}

#[test]
fn what_a_guest_prints_is_not_on_standard_output() {
    let place = Place::new().with_tools(&[hostile::FLOOD_OF_STDOUT, good::ECHO]);
    // Every line that comes is parsed as a message.
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    raw.call("flood-of-stdout", json!({}));
    let result: Value = raw.call("echo", json!({"clean": true}));
    assert_eq!(result["structuredContent"]["clean"], true);
}

#[test]
fn a_tool_that_is_dropped_in_is_listed_and_told_of() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    raw.call("echo", json!({}));
    place.write("tools/fails.wasm", good::FAILS.bytes());
    raw.told("notifications/tools/list_changed");
    let listed = raw.ask("tools/list", json!({}))["result"]["tools"].as_array().unwrap().len();
    assert_eq!(listed, 2);
}
