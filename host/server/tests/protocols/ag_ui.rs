//! Runs of AG-UI.

use crate::client::Client;
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn input(thread: &str, run: &str, prompt: &str) -> Value {
    json!({
        "threadId": thread, "runId": run, "protocolVersion": "1.0", "tools": [], "context": [],
        "state": {}, "forwardedProps": {},
        "messages": [{"id": "m1", "role": "user", "content": prompt}],
    })
}

fn resume(thread: &str, run: &str, answers: &[(&Value, Value)]) -> Value {
    let mut input = input(thread, run, "ignored");
    let entry = |(id, payload): &(&Value, Value)| json!({"interruptId": id, "status": "resolved", "payload": payload});
    input["resume"] = answers.iter().map(entry).collect();
    input
}

fn text_of(events: &[Value]) -> String {
    let content = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
    content.filter_map(|event| event["delta"].as_str()).collect()
}

fn without_ids(events: &[Value]) -> Vec<Value> {
    events.iter().filter(|event| event["type"] != "TEXT_MESSAGE_CONTENT").cloned().collect()
}

fn interrupts(events: &[Value]) -> Vec<Value> {
    events.last().unwrap()["outcome"]["interrupts"].as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_run_is_streamed_and_the_same_request_replays_it() {
    let client = Client::start().await;
    let body = input("t", "r1", "report");
    let events = client.stream("/ag-ui/assistant", &body).await.rest().await;
    assert_eq!((&events[0]["type"], &events[0]["runId"]), (&json!("RUN_STARTED"), &json!("r1")));
    assert_eq!(text_of(&events), "One moment.It is done.");
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
    let again = client.stream("/ag-ui/assistant", &body).await.rest().await;
    assert_eq!(again[0]["metadata"], events[0]["metadata"], "it is the same run");
    assert_eq!(text_of(&again), text_of(&events));
    let other = client.stream("/ag-ui/assistant", &input("t", "r1", "hello")).await.rest().await;
    assert_eq!(other.last().unwrap()["code"], "key_reused", "another message needs another `runId`");
    let other = client.with_key("eve").stream("/ag-ui/assistant", &body).await.rest().await;
    assert_ne!(other[0]["metadata"], events[0]["metadata"]);
}

#[tokio::test]
async fn every_interrupt_is_answered_together() {
    let client = Client::start().await;
    let events = client.stream("/ag-ui/assistant", &input("t", "r1", "ask")).await.rest().await;
    let open = interrupts(&events);
    assert_eq!(open.len(), 2);
    let (approval, gate) = (&open[0]["id"], &open[1]["id"]);
    assert_eq!((&open[0]["reason"], &open[1]["reason"]), (&json!("input_required"), &json!("tool_call")));

    let refused = |events: Vec<Value>| events.last().unwrap()["code"].clone();
    let no_resume = client.stream("/ag-ui/assistant", &input("t", "r2", "hello")).await.rest().await;
    assert_eq!(refused(no_resume), "pending_interrupts");
    for answers in [
        vec![(gate, json!(true))],
        vec![(gate, json!(true)), (approval, json!("maybe"))],
        vec![(gate, json!(true)), (approval, json!({"approved": true})), (&json!("call-9/1"), json!(true))],
    ] {
        let events = client.stream("/ag-ui/assistant", &resume("t", "r2", &answers)).await.rest().await;
        assert_eq!(events.last().unwrap()["type"], "RUN_ERROR", "{answers:?}");
    }
    let right = resume("t", "r2", &[(gate, json!(true)), (approval, json!({"approved": true}))]);
    let eve = client.with_key("eve").stream("/ag-ui/assistant", &right).await.rest().await;
    assert_eq!(refused(eve), "no_such_interrupt");

    let events = client.stream("/ag-ui/assistant", &right).await.rest().await;
    let results = events.iter().filter(|event| event["type"] == "TOOL_CALL_RESULT").count();
    assert_eq!((results, text_of(&events).as_str()), (2, "It is done."));
    assert!(!json!(events).to_string().contains("TOOL_CALL_START"), "the client has the calls");
    let again = client.stream("/ag-ui/assistant", &right).await.rest().await;
    assert_eq!(text_of(&again), "It is done.", "the same answers replay what followed");
    assert_eq!(without_ids(&again).last(), without_ids(&events).last());
}

#[tokio::test]
async fn interrupts_may_be_decided_elsewhere() {
    let client = Client::start().await;
    let events = client.stream("/ag-ui/assistant", &input("t", "r1", "ask")).await.rest().await;
    let run = events[0]["metadata"]["tollgate"]["runId"].as_str().unwrap().to_owned();
    let open = interrupts(&events);
    let (approval, gate) = (&open[0]["id"], &open[1]["id"]);
    let id = |id: &Value| id.as_str().unwrap().to_owned();
    let suspension = |interrupt: &Value| id(&interrupt["metadata"]["tollgate"]["suspensionId"]);
    let accepted = client.decide(&run, &suspension(&open[1]), &json!({"resume": true})).await;
    assert_eq!(accepted, StatusCode::ACCEPTED);

    // One was decided: its answer is not applied, and the other one is.
    let both = resume("t", "r2", &[(gate, json!(false)), (approval, json!({"approved": true}))]);
    let events = client.stream("/ag-ui/assistant", &both).await.rest().await;
    let results = events.iter().filter(|event| event["type"] == "TOOL_CALL_RESULT").count();
    assert_eq!((results, text_of(&events).as_str()), (2, "It is done."), "{events:#?}");
    let note = events.iter().find(|event| event["name"] == "tollgate.not_applied").unwrap();
    assert_eq!(note["value"]["members"], json!([format!("resume {}", id(gate))]));

    // All were decided: the stream has what followed.
    let events = client.stream("/ag-ui/assistant", &input("u", "r1", "guarded")).await.rest().await;
    let run = events[0]["metadata"]["tollgate"]["runId"].as_str().unwrap().to_owned();
    let open = interrupts(&events);
    assert_eq!(client.decide(&run, &suspension(&open[0]), &json!("cancel")).await, StatusCode::ACCEPTED);
    let answer = resume("u", "r2", &[(&open[0]["id"], json!(true))]);
    let events = client.stream("/ag-ui/assistant", &answer).await.rest().await;
    assert_eq!((&events[0]["runId"], text_of(&events).as_str()), (&json!("r2"), "It is done."));
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
}

#[tokio::test]
async fn an_answer_that_is_sent_again_never_answers_a_later_run() {
    let client = Client::start().await;
    let events = client.stream("/ag-ui/assistant", &input("t", "r1", "guarded")).await.rest().await;
    let yes = resume("t", "r2", &[(&interrupts(&events)[0]["id"], json!(true))]);
    let first = client.stream("/ag-ui/assistant", &yes).await.rest().await;
    let second = client.stream("/ag-ui/assistant", &input("t", "r3", "guarded")).await.rest().await;
    let asked = interrupts(&second);
    assert_ne!(asked[0]["id"], interrupts(&events)[0]["id"]);
    let again = client.stream("/ag-ui/assistant", &yes).await.rest().await;
    assert_eq!(again[0]["metadata"], first[0]["metadata"], "it is the answer to the first run");
    let waiting = client.get("/api/v1/questions").await.1;
    assert_eq!(waiting["items"].as_array().unwrap().len(), 1, "the second run waits: {waiting}");
    // An interrupt of a run on another thread is not one of this thread.
    let elsewhere = resume("u", "r4", &[(&asked[0]["id"], json!(true))]);
    let elsewhere = client.stream("/ag-ui/assistant", &elsewhere).await.rest().await;
    assert_eq!(elsewhere.last().unwrap()["code"], "no_such_interrupt");
}

#[tokio::test]
async fn calls_of_children_and_of_other_runs_have_ids_of_their_own() {
    let client = Client::start().await;
    let mut ids = BTreeSet::new();
    for run in ["r1", "r2"] {
        let events = client.stream("/ag-ui/assistant", &input("t", run, "delegate")).await.rest().await;
        assert_eq!(events.last().unwrap()["outcome"]["type"], "success", "{events:#?}");
        let starts: Vec<&Value> = events.iter().filter(|event| event["type"] == "TOOL_CALL_START").collect();
        assert_eq!(starts.len(), 2);
        for start in starts {
            let id = start["toolCallId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} is used twice");
            let of = |event: &&Value| event["toolCallId"] == id && event["type"] == "TOOL_CALL_RESULT";
            let result = events.iter().find(of).unwrap();
            assert_eq!(result.get("subagentRunId"), start.get("subagentRunId"));
        }
        let child = events.iter().find(|event| event["type"] == "SUBAGENT_STARTED").unwrap();
        assert!(ids.contains(child["parentToolCallId"].as_str().unwrap()));
    }
    // A question of a child is an interrupt of the call above it.
    let events = client.stream("/ag-ui/assistant", &input("u", "r1", "consult")).await.rest().await;
    let asked = interrupts(&events);
    let suspended = events.iter().find(|event| event["type"] == "SUBAGENT_FINISHED").unwrap();
    assert_eq!(suspended["outcome"]["interruptIds"], json!([asked[0]["id"]]));
    let yes = resume("u", "r2", &[(&asked[0]["id"], json!(true))]);
    let events = client.stream("/ag-ui/assistant", &yes).await.rest().await;
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success", "{events:#?}");
}

#[tokio::test]
async fn a_no_cancels_the_call() {
    let client = Client::start().await;
    let events = client.stream("/ag-ui/assistant", &input("t", "r1", "guarded")).await.rest().await;
    let open = interrupts(&events);
    let mut body = resume("t", "r2", &[]);
    body["resume"] = json!([{"interruptId": open[0]["id"], "status": "cancelled"}]);
    let events = client.stream("/ag-ui/assistant", &body).await.rest().await;
    let result = events.iter().find(|event| event["type"] == "TOOL_CALL_RESULT").unwrap();
    assert!(result["content"].as_str().unwrap().contains("cancelled"), "{result}");
}

#[tokio::test]
async fn clients_of_version_0_get_nothing_that_they_reject() {
    let client = Client::start().await;
    let mut body = input("t", "r1", "report");
    body.as_object_mut().unwrap().remove("protocolVersion");
    let events = client.stream("/ag-ui/assistant", &body).await.rest().await;
    assert_eq!(events[0].get("protocolVersion"), None);
    assert_eq!(events.last().unwrap().get("usage"), None);
}

#[tokio::test]
async fn errors_are_events_of_the_run() {
    let client = Client::start().await;
    let events = client.stream("/ag-ui/assistant", &input("t", "r1", "fail")).await.rest().await;
    assert_eq!(
        (&events[0]["type"], &events.last().unwrap()["code"]),
        (&json!("RUN_STARTED"), &json!("failed"))
    );
    assert_eq!(client.post("/ag-ui/nobody", &input("t", "r1", "a")).await.0, StatusCode::NOT_FOUND);
    assert_eq!(client.post("/ag-ui/assistant", &json!({"threadId": "t"})).await.0, StatusCode::BAD_REQUEST);
}
