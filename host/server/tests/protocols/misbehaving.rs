//! Clients that never read, leave at any point, or decide twice at once. Others lose nothing.

use crate::client::{BACKSTOP, Client};
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Returns a streamed request of each protocol for this prompt, on a thread of its own.
fn streams(prompt: &str, name: &str) -> [(&'static str, Value); 5] {
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": prompt}]});
    [
        (
            "/v1/chat/completions",
            json!({"model": "assistant", "stream": true, "messages": [{"role": "user", "content": prompt}]}),
        ),
        ("/v1/responses", json!({"model": "assistant", "stream": true, "input": prompt})),
        (
            "/ai-sdk/assistant",
            json!({"id": format!("ai-{name}"), "trigger": "submit-message",
                "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": prompt}]}]}),
        ),
        (
            "/ag-ui/assistant",
            json!({"threadId": format!("ag-{name}"), "runId": name, "protocolVersion": "1.0", "tools": [],
                "context": [], "state": {}, "forwardedProps": {},
                "messages": [{"id": "m", "role": "user", "content": prompt}]}),
        ),
        ("/a2a/assistant/message:stream", json!({"message": message})),
    ]
}

/// Sends a request without reading its answer.
async fn send(client: &Client, path: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(client.address()).await.unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nA2A-Version: 1.0\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        client.key(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Runs a whole request of every protocol as another principal does meanwhile.
async fn others_are_served(client: &Client, name: &str) {
    let eve = client.with_key("eve");
    for (path, body) in streams("hello", name) {
        let request = eve.request(reqwest::Method::POST, path).header("A2A-Version", "1.0").json(&body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let text = response.text().await.unwrap();
        assert!(text.contains("friend."), "{path}: {text}");
    }
}

/// Waits until no run of the client is at work.
async fn all_rest(client: &Client) {
    let rested = async {
        while client.get("/api/v1/runs?status=running").await.1["items"] != json!([]) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(BACKSTOP, rested).await.unwrap();
}

#[tokio::test]
async fn a_client_that_never_reads_delays_no_one() {
    let client = Client::start().await;
    let mut unread = Vec::new();
    // No buffer between the two ends has room for these answers.
    for (path, body) in streams("huge", "unread") {
        unread.push(send(&client, path, &body).await);
    }
    others_are_served(&client, "others").await;
    all_rest(&client).await;
    drop(unread);
    others_are_served(&client, "afterwards").await;
}

#[tokio::test]
async fn a_client_may_leave_at_any_point() {
    let client = Client::start().await;
    for events in 0..24 {
        let leaving = streams("report", &events.to_string()).map(|(path, body)| {
            let client = client.clone();
            async move {
                let mut stream = send(&client, path, &body).await;
                // A shorter answer is read to its end.
                let (mut taken, mut piece) = (Vec::new(), vec![0; 4096]);
                while events > 0 && taken.windows(2).filter(|two| two == b"\n\n").count() < events {
                    match tokio::time::timeout(BACKSTOP, stream.read(&mut piece)).await.unwrap() {
                        Ok(0) | Err(_) => break,
                        Ok(read) => taken.extend_from_slice(&piece[..read]),
                    }
                    if taken.ends_with(b"0\r\n\r\n") {
                        break;
                    }
                }
            }
        });
        futures::future::join_all(leaving).await;
    }
    others_are_served(&client, "others").await;
    // Each run has ended with its work done, or because its last client left.
    all_rest(&client).await;
    let (_, runs) = client.get("/api/v1/runs?limit=200").await;
    for run in runs["items"].as_array().unwrap() {
        assert!(matches!(run["status"].as_str(), Some("completed" | "cancelled")), "{run}");
    }
}

/// Returns how often the questions of a run were decided.
async fn decided(client: &Client, run: &str) -> usize {
    let (_, events) = client.get(&format!("/api/v1/runs/{run}/events?limit=200")).await;
    events.to_string().matches("\"call_decided\"").count()
}

async fn posted(client: &Client, path: &str, body: &Value) -> (reqwest::StatusCode, String) {
    let request = client.request(reqwest::Method::POST, path).header("A2A-Version", "1.0").json(body);
    let response = request.send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

#[tokio::test]
async fn a_decision_that_is_sent_twice_at_once_is_taken_once() {
    let client = Client::start().await;
    let post = async |path: &str, body: &Value| posted(&client, path, body).await;

    // OpenAI's responses.
    let asked = parsed(&post("/v1/responses", &json!({"model": "assistant", "input": "guarded"})).await.1);
    let request =
        asked["output"].as_array().unwrap().iter().find(|item| item["type"] == "mcp_approval_request");
    let answer = json!({"model": "assistant", "previous_response_id": asked["id"], "input": [
        {"type": "mcp_approval_response", "approval_request_id": request.unwrap()["id"], "approve": true},
    ]});
    let (one, other) = tokio::join!(post("/v1/responses", &answer), post("/v1/responses", &answer));
    assert!(one.0.is_success() || other.0.is_success(), "{one:?} {other:?}");
    for (status, text) in [one, other] {
        let body = parsed(&text);
        assert!(status.is_success() || body["error"]["code"].is_string(), "{text}");
    }
    assert_eq!(decided(&client, asked["tollgate"]["run_id"].as_str().unwrap()).await, 1);

    // AG-UI.
    let [.., (path, body), _] = streams("guarded", "double");
    let (_, text) = post(path, &body).await;
    let events: Vec<Value> =
        text.lines().filter_map(|line| line.strip_prefix("data: ")).map(parsed).collect();
    let interrupt = &events.last().unwrap()["outcome"]["interrupts"][0]["id"];
    let mut answer = body.clone();
    answer["runId"] = json!("answer");
    answer["resume"] = json!([{"interruptId": interrupt, "status": "resolved", "payload": true}]);
    let (one, other) = tokio::join!(post(path, &answer), post(path, &answer));
    assert!(one.1.contains("It is done") || other.1.contains("It is done"), "{one:?} {other:?}");
    for (status, text) in [one, other] {
        assert!(
            status.is_success() && (text.contains("RUN_FINISHED") || text.contains("RUN_ERROR")),
            "{text}"
        );
    }
    let run = events.iter().find_map(|event| event["metadata"]["tollgate"]["runId"].as_str()).unwrap();
    assert_eq!(decided(&client, run).await, 1);

    // The AI SDK.
    let [.., (path, body), _, _] = streams("guarded", "double");
    let (_, text) = post(path, &body).await;
    let chunks: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: {"))
        .map(|rest| parsed(&format!("{{{rest}")))
        .collect();
    let asked = chunks.iter().find(|chunk| chunk["type"] == "tool-approval-request").unwrap();
    let mut answer = body.clone();
    answer["messages"] = json!([{"id": chunks[0]["messageId"], "role": "assistant", "parts": [
        {"type": "dynamic-tool", "state": "approval-responded", "approval": {"id": asked["approvalId"], "approved": true}},
    ]}]);
    let (one, other) = tokio::join!(post(path, &answer), post(path, &answer));
    let ran =
        |text: &str| text.contains("tool-output-available") && text.contains("\"finishReason\":\"stop\"");
    assert!(ran(&one.1) || ran(&other.1), "{one:?} {other:?}");
    for (status, text) in [one, other] {
        assert!(status.is_success() || parsed(&text)["code"].is_string(), "{text}");
    }
    assert_eq!(decided(&client, chunks[0]["messageMetadata"]["runId"].as_str().unwrap()).await, 1);
}

#[tokio::test]
async fn a_decision_that_an_agent_sends_twice_at_once_is_taken_once() {
    let client = Client::start().await;
    let post = async |path: &str, body: &Value| posted(&client, path, body).await;
    let message = |parts: Value| json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}});
    let path = "/a2a/assistant/message:send";
    let task = parsed(&post(path, &message(json!([{"text": "approve"}]))).await.1)["task"].clone();
    let question = &task["status"]["message"]["parts"][1]["data"]["questions"][0]["suspension_id"];
    let mut answer = message(json!([{"data": {"suspension_id": question, "answer": {"approved": true}}}]));
    answer["message"]["taskId"] = task["id"].clone();
    let (one, other) = tokio::join!(post(path, &answer), post(path, &answer));
    assert!(one.0.is_success() || other.0.is_success(), "{one:?} {other:?}");
    for (status, text) in [one, other] {
        assert!(status.is_success() || parsed(&text)["error"]["details"].is_array(), "{text}");
    }
    assert_eq!(decided(&client, task["id"].as_str().unwrap()).await, 1);
}

#[tokio::test]
async fn guessed_ids_and_wrong_answers_get_the_protocols_error_and_decide_nothing() {
    let client = Client::start().await;
    let (chat, responses, a2a) = ("/v1/chat/completions", "/v1/responses", "/a2a/assistant/message:send");
    // One run of each protocol that waits.
    let asked =
        parsed(&posted(&client, responses, &json!({"model": "assistant", "input": "guarded"})).await.1);
    let say = |text: &str| {
        json!({"model": "assistant", "metadata": {"thread_id": "chat"},
        "messages": [{"role": "user", "content": text}]})
    };
    let spoken = parsed(&posted(&client, chat, &say("guarded")).await.1);
    let [_, _, (ai_sdk, mut ai_body), (ag_ui, mut ag_body), _] = streams("guarded", "guess");
    posted(&client, ai_sdk, &ai_body).await;
    posted(&client, ag_ui, &ag_body).await;
    let message = |task: &Value, part: Value| json!({"message": {"messageId": "m", "role": "ROLE_USER", "taskId": task, "parts": [part]}});
    let task = parsed(&posted(&client, a2a, &message(&json!(""), json!({"text": "approve"}))).await.1);
    let task = &task["task"]["id"];
    let waiting = async || client.get("/api/v1/questions").await.1["items"].as_array().unwrap().len();
    assert_eq!(waiting().await, 5);

    let answer = |previous: &Value, id: &str| {
        json!({"model": "assistant", "previous_response_id": previous, "input": [
            {"type": "mcp_approval_response", "approval_request_id": id, "approve": true},
        ]})
    };
    let guessed = json!("resp_guessed_1");
    let approval = json!({"type": "dynamic-tool", "state": "approval-responded", "approval": {"id": "call-1-9/1", "approved": true}});
    ai_body["messages"] = json!([{"id": "guessed", "role": "assistant", "parts": [approval]}]);
    ag_body["runId"] = json!("guessed");
    ag_body["resume"] = json!([{"interruptId": "call-1-9/1", "status": "resolved", "payload": true}]);
    let data = |id: &str| json!({"data": {"suspension_id": id, "answer": {"approved": true}}});
    let mut context = message(&json!(""), json!({"text": "hello"}));
    context["message"]["contextId"] = json!("guessed");
    for (path, body, status, at, code) in [
        (responses, answer(&guessed, "call-1-1/1"), 404, "/error/code", "response_not_found"),
        (responses, answer(&asked["id"], "call-1-9/1"), 404, "/error/code", "not_found"),
        (responses, answer(&Value::Null, "call-1-1/1"), 400, "/error/param", "previous_response_id"),
        (ai_sdk, ai_body, 409, "/code", "already_decided"),
        (ag_ui, ag_body, 200, "/code", "no_such_interrupt"),
        (
            a2a,
            message(&json!("guessed"), data("call-1-1/1")),
            404,
            "/error/details/0/reason",
            "TASK_NOT_FOUND",
        ),
        (a2a, message(task, data("call-1-9/1")), 404, "/error/details/0/metadata/code", "not_found"),
        (a2a, context, 400, "/error/details/0/reason", "INVALID_PARAMS"),
    ] {
        let (got, text) = posted(&client, path, &body).await;
        // An error of AG-UI is the last event of its stream.
        let last = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
        let found = parsed(last).pointer(at).cloned();
        assert_eq!((got.as_u16(), found), (status, Some(json!(code))), "{path} {body}: {text}");
    }
    for path in
        ["/v1/responses/resp_guessed_1", "/v1/responses/guessed", "/v1/responses/resp_guessed_1/input_items"]
    {
        let (status, error) = client.get(path).await;
        assert_eq!((status.as_u16(), &error["error"]["code"]), (404, &json!("response_not_found")), "{path}");
    }
    assert_eq!(waiting().await, 5, "nothing was decided");

    // A "yes" in a chat is a message and no decision.
    let said = parsed(&posted(&client, chat, &say("yes")).await.1);
    assert_eq!(said["choices"][0]["message"]["content"], "You said: yes", "{said}");
    assert_eq!(decided(&client, spoken["tollgate"]["run_id"].as_str().unwrap()).await, 0);
}
