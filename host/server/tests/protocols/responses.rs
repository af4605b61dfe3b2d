//! Responses with requests for approval.

use crate::client::Client;
use reqwest::StatusCode;
use serde_json::{Value, json};

fn create(input: Value) -> Value {
    json!({"model": "assistant", "input": input})
}

fn of_type<'a>(response: &'a Value, kind: &str) -> Vec<&'a Value> {
    response["output"].as_array().unwrap().iter().filter(|item| item["type"] == kind).collect()
}

fn approve(previous: &Value, requests: &[&Value], approve: bool) -> Value {
    let answers: Vec<Value> = requests
        .iter()
        .map(|request| json!({"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve}))
        .collect();
    json!({"model": "assistant", "previous_response_id": previous["id"], "input": answers})
}

#[tokio::test]
async fn a_response_is_created_retrieved_and_continued() {
    let client = Client::start().await;
    let (status, response) = client.post("/v1/responses", &create(json!("report"))).await;
    assert_eq!((status, &response["status"]), (StatusCode::OK, &json!("completed")));
    let call = of_type(&response, "mcp_call")[0];
    assert_eq!((&call["status"], &call["server_label"]), (&json!("completed"), &json!("slow-report")));
    let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
    assert_eq!(client.get(&path).await.1["output"], response["output"]);
    let (_, inputs) = client.get(&format!("{path}/input_items")).await;
    assert_eq!(inputs["data"][0]["content"][0]["text"], "report");
    let mut next = create(json!("history"));
    next["previous_response_id"] = response["id"].clone();
    let (_, second) = client.post("/v1/responses", &next).await;
    assert_eq!(of_type(&second, "message")[0]["content"][0]["text"], "There are 5 messages.");
    let (status, error) = client.post("/v1/responses", &next).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(error["error"]["code"], "previous_response_not_last");
    assert_eq!(client.with_key("eve").get(&path).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_stream_ends_with_the_response() {
    let client = Client::start().await;
    let mut body = create(json!("report"));
    body["stream"] = json!(true);
    let events = client.stream("/v1/responses", &body).await.rest().await;
    assert_eq!(events[0]["type"], "response.created");
    let completed = &events[events.len() - 2];
    assert_eq!(completed["type"], "response.completed");
    let pieces = |kind: &str| -> String {
        let of_kind = events.iter().filter(|event| event["type"] == kind);
        of_kind.filter_map(|event| event["delta"].as_str()).collect()
    };
    assert_eq!(pieces("response.output_text.delta"), "One moment.It is done.");
    let added = events.iter().find(|event| event["item"]["type"] == "mcp_call").unwrap();
    let arguments = added["item"]["arguments"].as_str().unwrap().to_owned();
    let sent = arguments + &pieces("response.mcp_call_arguments.delta");
    assert!(serde_json::from_str::<Value>(&sent).unwrap()["parts"].is_number(), "{sent}");
    let path = format!("/v1/responses/{}", completed["response"]["id"].as_str().unwrap());
    assert_eq!(client.get(&path).await.1["output"], completed["response"]["output"]);
}

#[tokio::test]
async fn requests_for_approval_are_answered_together_and_once() {
    let client = Client::start().await;
    let (_, asked) = client.post("/v1/responses", &create(json!("ask"))).await;
    assert_eq!(asked["status"], "completed");
    let requests = of_type(&asked, "mcp_approval_request");
    assert_eq!(requests.len(), 2);
    let foreign = client.with_key("eve").post("/v1/responses", &approve(&asked, &requests, true)).await;
    assert_eq!(foreign.0, StatusCode::NOT_FOUND);
    let forbidden = client.with_key("agent");
    let (_, own) = forbidden.post("/v1/responses", &create(json!("guarded"))).await;
    let own_requests = of_type(&own, "mcp_approval_request");
    let (status, error) = forbidden.post("/v1/responses", &approve(&own, &own_requests, true)).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{error}");
    let guessed = json!({"id": "call-9/1"});
    let (status, _) = client.post("/v1/responses", &approve(&asked, &[requests[0], &guessed], true)).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "and nothing is decided");
    let (status, done) = client.post("/v1/responses", &approve(&asked, &requests, true)).await;
    assert_eq!((status, &done["status"]), (StatusCode::OK, &json!("completed")), "{done}");
    let calls = of_type(&done, "mcp_call");
    assert_eq!(calls.len(), 2);
    assert!(
        calls.iter().all(|call| call["status"] == "completed" && call["approval_request_id"].is_string())
    );
    let (status, again) = client.post("/v1/responses", &approve(&asked, &requests, true)).await;
    assert_eq!(
        (status, &again["id"]),
        (StatusCode::OK, &done["id"]),
        "the same answers give the same response"
    );
    let mut branch = create(json!("hello"));
    branch["previous_response_id"] = asked["id"].clone();
    let (status, error) = client.post("/v1/responses", &branch).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (StatusCode::BAD_REQUEST, &json!("previous_response_not_last"))
    );
    assert!(error["error"]["message"].as_str().unwrap().contains(done["id"].as_str().unwrap()), "{error}");
}

/// Decides a request for approval as a person does in the console.
async fn decide_elsewhere(client: &Client, asked: &Value, request: &Value) {
    let run = asked["tollgate"]["run_id"].as_str().unwrap();
    let accepted = match request["name"].as_str() {
        Some("echo") => json!({"resume": true}),
        _ => json!({"resume": {"approved": true}}),
    };
    assert_eq!(client.decide(run, request["id"].as_str().unwrap(), &accepted).await, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_client_learns_what_became_of_a_request_that_was_decided_elsewhere() {
    let client = Client::start().await;
    let (_, asked) = client.post("/v1/responses", &create(json!("guarded"))).await;
    let requests = of_type(&asked, "mcp_approval_request");
    decide_elsewhere(&client, &asked, requests[0]).await;

    // Its own answer comes too late: it gets the response that followed.
    let response = client.send("/v1/responses", &approve(&asked, &requests, false)).await;
    let ignored = response.headers()["tollgate-ignored"].to_str().unwrap().to_owned();
    assert_eq!(ignored, format!("mcp_approval_response {}", requests[0]["id"].as_str().unwrap()));
    let next: Value = response.json().await.unwrap();
    assert_eq!(of_type(&next, "mcp_call")[0]["status"], "completed");
    assert_eq!(of_type(&next, "message")[0]["content"][0]["text"], "It is done.");
    let (_, known) = client.get(&format!("/v1/responses/{}", asked["id"].as_str().unwrap())).await;
    assert_eq!(known["tollgate"]["next_response_id"], next["id"]);
    assert_eq!(
        client.get(&format!("/v1/responses/{}", next["id"].as_str().unwrap())).await.1["output"],
        next["output"]
    );
    let mut body = approve(&asked, &requests, true);
    body["stream"] = json!(true);
    let events = client.stream("/v1/responses", &body).await.rest().await;
    assert_eq!(events[events.len() - 2]["response"]["output"], next["output"]);

    // A message continues the thread after the response that the client knows.
    let mut message = create(json!("history"));
    message["previous_response_id"] = asked["id"].clone();
    let (status, second) = client.post("/v1/responses", &message).await;
    assert_eq!(status, StatusCode::OK, "{second}");
    assert_eq!(of_type(&second, "message")[0]["content"][0]["text"], "There are 5 messages.");
}

#[tokio::test]
async fn one_of_two_requests_may_be_decided_elsewhere() {
    let client = Client::start().await;
    let (_, asked) = client.post("/v1/responses", &create(json!("ask"))).await;
    let requests = of_type(&asked, "mcp_approval_request");
    decide_elsewhere(&client, &asked, requests[0]).await;
    let (status, done) = client.post("/v1/responses", &approve(&asked, &requests, true)).await;
    assert_eq!((status, &done["status"]), (StatusCode::OK, &json!("completed")), "{done}");
    assert_eq!(of_type(&done, "message")[0]["content"][0]["text"], "It is done.");
}

#[tokio::test]
async fn a_refused_call_does_not_run() {
    let client = Client::start().await;
    let (_, asked) = client.post("/v1/responses", &create(json!("guarded"))).await;
    let requests = of_type(&asked, "mcp_approval_request");
    let (_, done) = client.post("/v1/responses", &approve(&asked, &requests, false)).await;
    assert_eq!(of_type(&done, "mcp_call")[0]["status"], "failed");
    assert_eq!(done["status"], "completed");
}

#[tokio::test]
async fn a_background_response_is_cancelled() {
    let client = Client::start().await;
    let mut body = create(json!("slow"));
    body["background"] = json!(true);
    let (status, response) = client.post("/v1/responses", &body).await;
    assert_eq!((status, &response["status"]), (StatusCode::OK, &json!("in_progress")));
    let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
    assert_eq!(
        client.with_key("eve").post(&format!("{path}/cancel"), &json!({})).await.0,
        StatusCode::NOT_FOUND
    );
    let (status, cancelled) = client.post(&format!("{path}/cancel"), &json!({})).await;
    assert_eq!((status, &cancelled["status"]), (StatusCode::OK, &json!("cancelled")));
    assert_eq!(client.get(&path).await.1["status"], "cancelled");
}

#[tokio::test]
async fn a_failed_run_is_a_failed_response() {
    let client = Client::start().await;
    let (status, response) = client.post("/v1/responses", &create(json!("fail"))).await;
    assert_eq!((status, &response["status"]), (StatusCode::OK, &json!("failed")));
    assert!(response["error"]["message"].as_str().unwrap().contains("quota"));
}
