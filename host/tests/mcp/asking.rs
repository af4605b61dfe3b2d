//! Calls that wait for a person, with clients that can ask one and clients that
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
    // The state is good for this call and once.
    let spent = raw.ask("tools/call", again.clone());
    assert_eq!(spent["error"]["code"], -32602, "{spent}");
    again["requestState"] = json!("0123456789abcdef0123456789abcdef");
    assert_eq!(raw.ask("tools/call", again)["error"]["code"], -32602);
}

#[test]
fn w2_any_other_client_is_told_how_to_decide_and_the_call_goes_on_when_it_is_repeated() {
    let place = place();
    for version in ["2025-11-25", "2026-07-28"] {
        let mut raw = Raw::begin(&place, version, json!({}));
        let required = raw.call("suspends", json!({}));
        assert_eq!(required["isError"], true);
        let told = &required["structuredContent"];
        assert_eq!(told["status"], "approval_required", "{required}");
        assert!(told["approve"].as_str().unwrap().contains(" decide "), "{told}");
        let again = raw.call("suspends", json!({}));
        assert_eq!(again["structuredContent"]["run_id"], told["run_id"], "it is the same call");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (run, call) = (text(&told["run_id"]), text(&told["call_id"]));
        place.type_in(&["decide", &run, &call, "--resume", r#"{"approved": true}"#]).ends_with(0);
        let result = raw.call("suspends", json!({}));
        assert_eq!(result["structuredContent"], json!({"approved": true}), "{result}");
        // That call is done with: the next one asks anew.
        let next = raw.call("suspends", json!({}));
        assert_ne!(next["structuredContent"]["run_id"], told["run_id"], "{next}");
    }
}
