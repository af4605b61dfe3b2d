//! Tests of calls that wait for a person, with clients that can ask a person and clients that
//! cannot.

use crate::place::Place;
use crate::raw::Raw;
use serde_json::{Value, json};
use tollgate_artifacts::good;

fn place() -> Place {
    Place::new().with_tools(&[good::SUSPENDS])
}

#[test]
fn w1_a_client_that_shows_forms_is_asked() {
    let place = place();
    for version in ["2025-06-18", "2025-11-25"] {
        let mut raw = Raw::begin(&place, version, json!({"elicitation": {}}));
        raw.begin_asking(1, "tools/call", json!({"name": "suspends", "arguments": {}}));
        let asked = raw.told("elicitation/create");
        assert!(asked["params"]["message"].as_str().unwrap().contains("Shall I?"), "{asked}");
        assert_eq!(asked["params"]["requestedSchema"]["properties"]["approved"]["type"], "boolean");
        let content = json!({"action": "accept", "content": {"approved": true}});
        raw.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": content}));
        assert_eq!(raw.answer(1)["result"]["structuredContent"], json!({"approved": true}), "{version}");
    }
}

#[test]
fn w3_an_answer_that_does_not_fit_is_asked_for_again_and_a_refusal_ends_the_call() {
    let place = place();
    let mut raw = Raw::begin(&place, "2025-11-25", json!({"elicitation": {"form": {}}}));
    raw.begin_asking(1, "tools/call", json!({"name": "suspends", "arguments": {}}));
    let asked = raw.told("elicitation/create");
    let wrong = json!({"action": "accept", "content": {"approved": "perhaps"}});
    raw.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": wrong}));
    let asked = raw.told("elicitation/create");
    raw.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}));
    let result = raw.answer(1)["result"].clone();
    assert_eq!(result["structuredContent"]["error"]["code"], "cancelled", "{result}");
}

#[test]
fn w1_newer_clients_are_told_which_input_is_required() {
    let place = place();
    let mut raw = Raw::begin(&place, "2026-07-28", json!({"elicitation": {"form": {}}}));
    let call = json!({"name": "suspends", "arguments": {}});
    let required = raw.ask("tools/call", call.clone())["result"].clone();
    assert_eq!(required["resultType"], "input_required", "{required}");
    let (id, asked) = required["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    let mut again = call.clone();
    again["requestState"] = required["requestState"].clone();
    again["inputResponses"] = json!({id: {"action": "accept", "content": {"approved": true}}});
    let result = raw.ask("tools/call", again.clone())["result"].clone();
    assert_eq!(result["structuredContent"], json!({"approved": true}), "{result}");
    // The state is valid for this call, and only once.
    let spent = raw.ask("tools/call", again.clone());
    assert_eq!(spent["error"]["code"], -32602, "{spent}");
    again["requestState"] = json!("0123456789abcdef0123456789abcdef");
    assert_eq!(raw.ask("tools/call", again.clone())["error"]["code"], -32602);
    // That call is complete. The next one asks anew, and repeats the question until an answer fits.
    let next = raw.ask("tools/call", call)["result"].clone();
    assert_eq!(next["resultType"], "input_required", "{next}");
    let id = next["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    again["requestState"] = next["requestState"].clone();
    again["inputResponses"] = json!({&id: {"action": "accept", "content": {"approved": "perhaps"}}});
    let unfit = raw.ask("tools/call", again.clone())["result"].clone();
    assert_eq!(unfit["resultType"], "input_required", "{unfit}");
    again["requestState"] = unfit["requestState"].clone();
    again["inputResponses"] = json!({&id: {"action": "accept", "content": {"approved": false}}});
    let result = raw.ask("tools/call", again)["result"].clone();
    assert_eq!(result["structuredContent"], json!({"approved": false}), "{result}");
}

#[test]
fn w2_any_other_client_is_told_how_to_decide_and_the_call_goes_on_when_it_is_repeated() {
    let place = place();
    for version in ["2025-11-25", "2026-07-28"] {
        let mut raw = Raw::begin(&place, version, json!({}));
        let required = raw.call("suspends", json!({"a": 1, "b": {"c": [1], "d": "x"}}));
        assert_eq!(required["isError"], true);
        let told = &required["structuredContent"];
        assert_eq!(told["status"], "approval_required", "{required}");
        // Models write the same call anew, with members in another order.
        let mut again = |spaced: &str| {
            raw.send_raw_call("again", "suspends", spaced);
            raw.answer("again")["result"].clone()
        };
        let waits = again(r#"{ "b": {"d":"x", "c":[ 1 ]}, "a": 1 }"#);
        assert_eq!(waits["structuredContent"]["run_id"], told["run_id"], "it is the same call");
        let other = again(r#"{"a":1,"b":{"c":[2],"d":"x"}}"#);
        assert_ne!(other["structuredContent"]["run_id"], told["run_id"], "it is another call");
        decide_elsewhere(&place, &told["approve"]);
        let result = again(r#"{"b":{"d":"x","c":[1]},"a":1}"#);
        assert_eq!(result["structuredContent"], json!({"approved": true}), "{result}");
        // That call is complete: the next one asks anew.
        let next = again(r#"{"a":1,"b":{"c":[1],"d":"x"}}"#);
        assert_ne!(next["structuredContent"]["run_id"], told["run_id"], "{next}");
    }
}

#[test]
fn w2_a_client_that_knows_tasks_looks_after_the_call_until_it_is_decided() {
    let place = place();
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut raw = Raw::begin(&place, "2026-07-28", tasks.clone());
    let call = json!({"name": "suspends", "arguments": {}});
    let task = raw.ask("tools/call", call.clone())["result"].clone();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    assert!(task["createdAt"].as_str().unwrap().ends_with('Z') && task["ttlMs"].is_null(), "{task}");
    let again = raw.ask("tools/call", call.clone())["result"].clone();
    assert_eq!(again["taskId"], task["taskId"], "the same call is the same task");
    let id = json!({"taskId": task["taskId"]});
    // It requests nothing from its client, and ignores input.
    let update = json!({"taskId": task["taskId"], "inputResponses": {"x": {"action": "accept"}}});
    assert_eq!(raw.ask("tasks/update", update)["result"], json!({"resultType": "complete"}));
    let waits = raw.ask("tasks/get", id.clone())["result"].clone();
    assert_eq!(waits["status"], "working", "{waits}");
    let told = waits["statusMessage"].as_str().unwrap();
    assert!(told.contains("Shall I?"), "{told}");
    let approve = told.split_once("To approve: ").unwrap().1.split_once("   To reject:").unwrap().0;
    decide_elsewhere(&place, &json!(approve));
    for _ in 0..2 {
        let done = raw.ask("tasks/get", id.clone())["result"].clone();
        assert_eq!(done["status"], "completed", "{done}");
        assert_eq!(done["result"]["structuredContent"], json!({"approved": true}), "{done}");
    }
    assert!(raw.ask("tasks/cancel", id.clone())["result"].is_object());
    assert_eq!(raw.ask("tasks/get", id)["result"]["status"], "completed", "it had ended");
    // That call is complete. The next one asks anew, and is cancelled.
    let next = raw.ask("tools/call", call.clone())["result"]["taskId"].clone();
    assert_ne!(next, task["taskId"]);
    let id = json!({"taskId": next});
    assert!(raw.ask("tasks/cancel", id.clone())["result"].is_object());
    assert_eq!(raw.ask("tasks/get", id)["result"]["status"], "cancelled");
    assert_eq!(raw.ask("tasks/get", json!({"taskId": "0123"}))["error"]["code"], -32602);
    // A client that also shows forms is asked immediately.
    let mut both = tasks;
    both["elicitation"] = json!({"form": {}});
    let mut raw = Raw::begin(&place, "2026-07-28", both);
    assert_eq!(raw.ask("tools/call", call)["result"]["resultType"], "input_required");
    let mut raw = Raw::begin(&place, "2026-07-28", json!({}));
    assert_eq!(raw.ask("tasks/get", json!({"taskId": "0123"}))["error"]["code"], -32021);
}

/// Runs a command in a separate directory and without the test's variables.
fn run_elsewhere(command: &str) -> std::process::Output {
    let elsewhere = tempfile::tempdir().unwrap();
    let mut sh = std::process::Command::new("sh");
    sh.args(["-c", command]).current_dir(elsewhere.path());
    sh.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", elsewhere.path());
    sh.output().unwrap()
}

/// Runs the command that a client received, with the code that only the host shows.
#[track_caller]
fn decide_elsewhere(place: &Place, command: &Value) {
    let command = command.as_str().unwrap();
    let decided = command.split_once(" decide ").unwrap().1;
    let mut words = decided.split_whitespace();
    let (run, call) = (words.next().unwrap(), words.next().unwrap());
    let code = place.code(run, call).unwrap();
    let output = run_elsewhere(&command.replace(&format!(" {call}"), &format!(" {call} --code {code}")));
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn z11_a_model_that_runs_the_command_it_was_shown_does_not_approve_its_call() {
    let place = place();
    let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
    let required = raw.call("suspends", json!({}));
    let told = required["structuredContent"].clone();
    let (run, call) = (told["run_id"].as_str().unwrap(), told["call_id"].as_str().unwrap());
    let code = place.code(run, call).unwrap();
    assert!(!required.to_string().contains(&code), "the code is in {required}");
    let approve = told["approve"].as_str().unwrap();
    for command in [approve.to_owned(), format!("{approve} --code 000000")] {
        let refused = run_elsewhere(&command);
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{words}");
        assert!(words.contains("code"), "{words}");
    }
    // Without a terminal, nothing that the host prints holds the code.
    for looked in [vec!["runs"], vec!["runs", "--json"], vec!["show", run], vec!["show", run, "--json"]] {
        let said = place.type_in(&looked).ends_with(0);
        assert!(!said.stdout.contains(&code) && !said.stderr.contains(&code), "{looked:?}: {said:?}");
    }
    assert_eq!(raw.call("suspends", json!({}))["structuredContent"]["status"], "approval_required");
    decide_elsewhere(&place, &told["approve"]);
    assert_eq!(raw.call("suspends", json!({}))["structuredContent"], json!({"approved": true}));
}

#[test]
fn w2_the_command_that_decides_works_from_any_directory() {
    // A rule of the configuration asks. The configuration is in the directory and not named.
    let place = Place::new().with_tools(&[good::ECHO]).with_config("[permissions]\nask = [\"*\"]\n");
    let without = Place::new().with_tools(&[good::SUSPENDS]);
    for (place, tool) in [(place, "echo"), (without, "suspends")] {
        let mut raw = Raw::begin(&place, "2025-11-25", json!({}));
        let told = raw.call(tool, json!({}))["structuredContent"].clone();
        decide_elsewhere(&place, &told["approve"]);
        let result = raw.call(tool, json!({}));
        assert_eq!(result["isError"], false, "{result}");
        let told = raw.call(tool, json!({"now": "no"}))["structuredContent"].clone();
        let reject = told["reject"].as_str().unwrap();
        decide_elsewhere(&place, &json!(format!("{reject} || test $? = 1")));
        assert_eq!(raw.call(tool, json!({"now": "no"}))["structuredContent"]["error"]["code"], "cancelled");
    }
}

/// Decides the one waiting call, like a person who sees it in the list.
#[track_caller]
fn approve_what_waits(place: &Place) {
    let runs = place.type_in(&["runs", "--json"]).json();
    let waits = runs.as_array().unwrap().iter().find(|run| run["status"] == "waiting");
    let run = waits.unwrap_or_else(|| panic!("{runs}"))["run_id"].as_str().unwrap().to_owned();
    let record = place.type_in(&["show", &run, "--json"]).ends_with(0).stdout;
    let events = record.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let call = events.filter_map(|event| Some(event["call_id"].as_str()?.to_owned())).next();
    let call = call.unwrap_or_else(|| panic!("{record}"));
    place.type_in(&["decide", &run, &call, "--resume", r#"{"approved": true}"#]).ends_with(0);
}

#[test]
fn w2_who_answers_what_was_decided_elsewhere_gets_what_came_of_it() {
    let place = place();
    let call = json!({"name": "suspends", "arguments": {}});
    let mut raw = Raw::begin(&place, "2026-07-28", json!({"elicitation": {"form": {}}}));
    let required = raw.ask("tools/call", call.clone())["result"].clone();
    let id = required["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    approve_what_waits(&place);
    let mut again = call.clone();
    again["requestState"] = required["requestState"].clone();
    again["inputResponses"] = json!({id: {"action": "accept", "content": {"approved": false}}});
    let result = raw.ask("tools/call", again.clone())["result"].clone();
    assert_eq!(result["structuredContent"], json!({"approved": true}), "{result}");
    assert_eq!(raw.ask("tools/call", again)["error"]["code"], -32602, "the call is done with");
    // The same with a form that is already shown.
    let mut raw = Raw::begin(&place, "2025-11-25", json!({"elicitation": {}}));
    raw.begin_asking(1, "tools/call", call);
    let asked = raw.told("elicitation/create");
    approve_what_waits(&place);
    let content = json!({"action": "accept", "content": {"approved": false}});
    raw.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": content}));
    assert_eq!(raw.answer(1)["result"]["structuredContent"], json!({"approved": true}));
}

const HELPED: &str = "[[turn]]\ntext = \"I helped.\"\n";

/// Creates a place whose agent `helper` calls a tool that asks a person, twice in one turn.
fn with_agent() -> Place {
    let place = place().with_config(
        "[model]\nprovider = \"recorded\"\nfile = \"turns.toml\"\n[agents.helper]\ntools = [\"*\"]\n",
    );
    let asks =
        "[[turn]]\ncalls = [{ name = \"suspends\" }, { name = \"suspends\", arguments = { n = 2 } }]\n";
    place.write("turns.toml", format!("{asks}{HELPED}"));
    place
}

#[test]
fn w2_an_agents_call_that_waits_goes_on_when_it_is_repeated() {
    let place = with_agent();
    let mut raw = Raw::begin_with(&place, &["--agent", "helper"], "2025-11-25", json!({}));
    let request = json!({"request": "Help!"});
    let first = raw.call("helper", request.clone())["structuredContent"].clone();
    assert_eq!(first["status"], "approval_required", "{first}");
    // The process that decides continues the run.
    place.write("turns.toml", HELPED);
    assert_eq!(raw.call("helper", request.clone())["structuredContent"]["call_id"], first["call_id"]);
    decide_elsewhere(&place, &json!(format!("{} || test $? = 3", first["approve"].as_str().unwrap())));
    // Its other question is still open.
    let second = raw.call("helper", request.clone())["structuredContent"].clone();
    assert_eq!(second["run_id"], first["run_id"], "{second}");
    assert_ne!(second["call_id"], first["call_id"]);
    decide_elsewhere(&place, &second["approve"]);
    let result = raw.call("helper", request);
    assert_eq!(result["structuredContent"], json!({"response": "I helped."}), "{result}");
}

#[test]
fn w1_an_agents_questions_are_shown_to_clients_that_have_forms() {
    let place = with_agent();
    let mut raw = Raw::begin_with(&place, &["--agent", "helper"], "2025-11-25", json!({"elicitation": {}}));
    raw.begin_asking(1, "tools/call", json!({"name": "helper", "arguments": {"request": "Help!"}}));
    for _ in 0..2 {
        let asked = raw.told("elicitation/create");
        let content = json!({"action": "accept", "content": {"approved": true}});
        raw.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": content}));
    }
    assert_eq!(raw.answer(1)["result"]["structuredContent"], json!({"response": "I helped."}));
    let mut raw = Raw::begin_with(&place, &["--agent", "helper"], "2026-07-28", json!({"elicitation": {}}));
    let required = raw.call("helper", json!({"request": "Help!"}));
    assert_eq!(required["resultType"], "input_required", "{required}");
}

/// Creates a place whose rules ask about every call.
fn asking(more: &str) -> Place {
    Place::new().with_tools(&[good::ECHO]).with_config(&format!("[permissions]\nask = [\"*\"]\n{more}"))
}

#[test]
fn z12_a_client_cannot_have_its_answer_remembered() {
    let always = json!({"remember": "always", "for": "tool"});
    let answers = [
        json!({"answer": always.to_string()}),
        json!({"answer": &always}),
        always,
        json!({"answer": "false"}),
    ];
    let place = asking("");
    let config = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    let mut raw = Raw::begin(&place, "2025-11-25", json!({"elicitation": {"form": {}}}));
    let call = json!({"name": "echo", "arguments": {"path": "/etc/passwd"}});
    raw.begin_asking(1, "tools/call", call.clone());
    for answer in &answers[..3] {
        let asked = raw.told("elicitation/create");
        assert_eq!(asked["params"]["requestedSchema"]["properties"], json!({}), "yes or no: {asked}");
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(message.contains("/etc/passwd"), "z22: its arguments are shown: {message}");
        let more = json!({"action": "accept", "content": answer});
        raw.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": more}));
    }
    // It stays suspended, and is asked about again when it is repeated.
    assert_eq!(raw.answer(1)["result"]["structuredContent"]["status"], "approval_required");
    raw.begin_asking(2, "tools/call", call.clone());
    let asked = raw.told("elicitation/create");
    raw.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {}}}));
    assert_eq!(raw.answer(2)["result"]["isError"], false);
    // So does a client that repeats its call with the answer.
    let mut raw = Raw::begin(&place, "2026-07-28", json!({"elicitation": {"form": {}}}));
    let mut required = raw.ask("tools/call", call.clone())["result"].clone();
    for answer in &answers {
        let id = required["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let mut again = call.clone();
        again["requestState"] = required["requestState"].clone();
        again["inputResponses"] = json!({id: {"action": "accept", "content": answer}});
        required = raw.ask("tools/call", again)["result"].clone();
        assert_eq!(required["resultType"], "input_required", "{answer}: {required}");
    }
    let after = std::fs::read_to_string(place.path().join("tollgate.toml")).unwrap();
    assert_eq!(after, config, "nothing was written");
}

#[test]
fn z12_an_operator_can_let_clients_have_answers_remembered() {
    let place = asking("clients_may_remember = true\n");
    let mut raw = Raw::begin(&place, "2025-11-25", json!({"elicitation": {"form": {}}}));
    let call = json!({"name": "echo", "arguments": {"a": 1}});
    raw.begin_asking(1, "tools/call", call.clone());
    let asked = raw.told("elicitation/create");
    let answer = json!({"remember": "thread"}).to_string();
    let content = json!({"action": "accept", "content": {"answer": answer}});
    raw.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": content}));
    assert_eq!(raw.answer(1)["result"]["isError"], false);
    assert_eq!(raw.ask("tools/call", call)["result"]["isError"], false, "no one is asked again");
}

#[test]
fn z22_a_question_that_does_not_fit_into_a_form_is_not_asked_by_one() {
    let place = asking("");
    for version in ["2025-11-25", "2026-07-28"] {
        let mut raw = Raw::begin(&place, version, json!({"elicitation": {"form": {}}}));
        let told = raw.call("echo", json!({"path": "x".repeat(20_000), "then": "/etc/passwd"}));
        assert_eq!(told["structuredContent"]["status"], "approval_required", "{version}");
        decide_elsewhere(&place, &told["structuredContent"]["approve"]);
    }
}

#[test]
fn z22_a_tools_words_do_not_look_like_the_hosts() {
    let place = Place::new().with_tools(&[tollgate_artifacts::hostile::QUESTION_LIKE_THE_HOSTS]);
    let name = tollgate_artifacts::hostile::QUESTION_LIKE_THE_HOSTS.name;
    let mut raw = Raw::begin(&place, "2025-11-25", json!({"elicitation": {"form": {}}}));
    raw.begin_asking(1, "tools/call", json!({"name": name, "arguments": {"a": 1}}));
    let asked = raw.told("elicitation/create");
    raw.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "cancel"}}));
    let told = raw.answer(1)["result"].clone();
    let form = asked["params"]["message"].as_str().unwrap();
    let words = told["content"][0]["text"].as_str().unwrap();
    for shown in [form, words] {
        let bare: Vec<&str> = shown.lines().filter(|line| !line.starts_with("| ")).collect();
        for imitated in ["call call-9", "The gate `permissions`", "the gate x", "To approve: rm"] {
            assert!(!bare.iter().any(|line| line.starts_with(imitated)), "{imitated}: {shown}");
        }
        assert!(shown.contains("\n| The gate `permissions` asks about `read`"), "{shown}");
    }
    let said = place.type_in(&["call", name, r#"{"a": 1}"#]).ends_with(3).stderr;
    assert!(said.contains("\n| call call-9\n") && !said.contains("\ncall call-9\n"), "{said}");
    assert!(said.contains("\narguments\n| {\n|   \"a\": 1\n| }\n"), "{said}");
}
