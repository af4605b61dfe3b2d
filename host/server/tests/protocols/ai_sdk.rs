//! Chats of the AI SDK.

use crate::client::{Client, Events};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

fn say(chat: &str, text: &str) -> Value {
    let message = json!({"id": "m", "role": "user", "parts": [{"type": "text", "text": text}]});
    json!({"id": chat, "trigger": "submit-message", "messages": [message]})
}

/// Answers approvals as `useChat` does: in the assistant's message.
fn answer(chat: &str, message: &Value, approvals: &[(&Value, bool)]) -> Value {
    let parts: Vec<Value> = approvals
        .iter()
        .map(|(id, approved)| {
            json!({"type": "dynamic-tool", "state": "approval-responded", "approval": {"id": id, "approved": approved}})
        })
        .collect();
    let message = json!({"id": message, "role": "assistant", "parts": parts});
    json!({"id": chat, "trigger": "submit-message", "messages": [message]})
}

fn text_of(chunks: &[Value]) -> String {
    chunks.iter().filter(|chunk| chunk["type"] == "text-delta").filter_map(|c| c["delta"].as_str()).collect()
}

fn of_type<'a>(chunks: &'a [Value], kind: &str) -> Vec<&'a Value> {
    chunks.iter().filter(|chunk| chunk["type"] == kind).collect()
}

#[tokio::test]
async fn a_message_is_streamed() {
    let client = Client::start().await;
    let response = client.send("/ai-sdk/assistant", &say("c", "report")).await;
    assert_eq!(response.headers()["x-vercel-ai-ui-message-stream"], "v1");
    let chunks = Events::of(response).rest().await;
    assert_eq!(chunks[0]["type"], "start");
    assert_eq!(text_of(&chunks), "One moment.It is done.");
    assert!(of_type(&chunks, "data-progress").iter().all(|chunk| chunk["transient"] == true));
    assert_eq!(of_type(&chunks, "tool-output-available").len(), 1);
    assert_eq!(of_type(&chunks, "finish")[0]["messageMetadata"]["usage"]["totalTokens"], 30);
    assert_eq!(chunks.last().unwrap(), "[DONE]");
}

#[tokio::test]
async fn approvals_of_one_request_continue_the_message() {
    let client = Client::start().await;
    let chunks = client.stream("/ai-sdk/assistant", &say("c", "ask")).await.rest().await;
    let message = &chunks[0]["messageId"];
    let asked: Vec<&Value> =
        of_type(&chunks, "tool-approval-request").iter().map(|chunk| &chunk["approvalId"]).collect();
    assert_eq!(asked.len(), 2);
    let both = answer("c", message, &[(asked[0], true), (asked[1], true)]);
    let foreign = client.with_key("eve").post("/ai-sdk/assistant", &both).await;
    assert_eq!(foreign.0, StatusCode::NOT_FOUND);
    let guessed = json!("call-9/1");
    let wrong = answer("c", message, &[(asked[0], true), (&guessed, true)]);
    assert_eq!(client.post("/ai-sdk/assistant", &wrong).await.0, StatusCode::NOT_FOUND);
    let chunks = client.stream("/ai-sdk/assistant", &both).await.rest().await;
    assert_eq!(&chunks[0]["messageId"], message);
    assert_eq!(of_type(&chunks, "tool-output-available").len(), 2);
    assert_eq!(text_of(&chunks), "It is done.");
    let again = client.stream("/ai-sdk/assistant", &both).await.rest().await;
    assert_eq!(text_of(&again), "It is done.", "the same answers continue the message in the same way");
}

#[tokio::test]
async fn approvals_may_be_decided_elsewhere() {
    let client = Client::start().await;
    for (chat, elsewhere) in [("one", 1), ("both", 2)] {
        let chunks = client.stream("/ai-sdk/assistant", &say(chat, "ask")).await.rest().await;
        let (message, run) = (&chunks[0]["messageId"], &chunks[0]["messageMetadata"]["runId"]);
        let asked: Vec<&Value> =
            of_type(&chunks, "tool-approval-request").iter().map(|chunk| &chunk["approvalId"]).collect();
        for (id, answer) in asked.iter().zip([json!({"approved": true}), json!(true)]).take(elsewhere) {
            let (run, id, answer) = (run.as_str().unwrap(), id.as_str().unwrap(), json!({"resume": answer}));
            while client.decide(run, id, &answer).await == StatusCode::CONFLICT {}
        }
        let body = answer(chat, message, &[(asked[0], false), (asked[1], true)]);
        let response = client.send("/ai-sdk/assistant", &body).await;
        let ignored = response.headers()["tollgate-ignored"].to_str().unwrap().to_owned();
        assert!(ignored.contains(&format!("approval {}", asked[0].as_str().unwrap())), "{ignored}");
        let chunks = Events::of(response).rest().await;
        assert_eq!(&chunks[0]["messageId"], message);
        assert_eq!(of_type(&chunks, "tool-output-available").len(), 2, "{chunks:#?}");
        assert_eq!(text_of(&chunks), "It is done.");
    }
}

#[tokio::test]
async fn a_new_message_ends_the_questions_and_is_a_message_of_its_own() {
    let client = Client::start().await;
    let chunks = client.stream("/ai-sdk/assistant", &say("c", "guarded")).await.rest().await;
    let first = chunks[0]["messageId"].clone();
    let chunks = client.stream("/ai-sdk/assistant", &say("c", "hello")).await.rest().await;
    assert_ne!(chunks[0]["messageId"], first);
    assert_eq!(text_of(&chunks), "Hello there, my friend.");
    assert!(of_type(&chunks, "tool-output-error").is_empty(), "the client has no such call in this message");
}

#[tokio::test]
async fn a_stream_is_resumed_and_stopped() {
    let client = Client::start().await;
    let (status, _) = client.get("/ai-sdk/assistant/c/stream").await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let mut stream = client.stream("/ai-sdk/assistant", &say("c", "slow")).await;
    let begun = stream.until(|chunk| chunk["type"] == "data-progress").await;
    drop(stream);
    let resumed = client.request(Method::GET, "/ai-sdk/assistant/c/stream").send().await.unwrap();
    let mut resumed = Events::of(resumed);
    let again = resumed.until(|chunk| chunk["type"] == "tool-input-available").await;
    assert_eq!(again[0]["messageId"], begun[0]["messageId"]);
    assert_eq!(text_of(&again), "One moment.");
    let other =
        client.with_key("eve").request(Method::POST, "/ai-sdk/assistant/c/stop").send().await.unwrap();
    assert_eq!(other.status(), StatusCode::NO_CONTENT, "it has no such chat");
    let stopped = client.request(Method::POST, "/ai-sdk/assistant/c/stop").send().await.unwrap();
    assert_eq!(stopped.status(), StatusCode::NO_CONTENT);
    assert_eq!(of_type(&resumed.rest().await, "abort").len(), 1);
    assert_eq!(client.get("/ai-sdk/assistant/c/stream").await.0, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn wrong_requests_are_refused() {
    let client = Client::start().await;
    let regenerate = json!({"id": "c", "trigger": "regenerate-message", "messages": []});
    for (path, body, status) in [
        ("/ai-sdk/nobody", say("c", "hello"), 404),
        ("/ai-sdk/assistant?v=5", say("c", "hello"), 400),
        ("/ai-sdk/assistant", regenerate, 422),
        ("/ai-sdk/assistant", say("", "hello"), 422),
        ("/ai-sdk/assistant", json!([]), 400),
    ] {
        assert_eq!(client.post(path, &body).await.0.as_u16(), status, "{path} {body}");
    }
}

#[tokio::test]
async fn a_new_chat_has_its_earlier_messages() {
    let client = Client::start().await;
    let mut body = say("c", "history");
    let earlier =
        |role: &str, text: &str| json!({"id": text, "role": role, "parts": [{"type": "text", "text": text}]});
    let last = body["messages"][0].clone();
    body["messages"] = json!([earlier("user", "Hi"), earlier("assistant", "Hi!"), last]);
    let chunks = client.stream("/ai-sdk/assistant", &body).await.rest().await;
    assert_eq!(text_of(&chunks), "There are 3 messages.");
    // The server has the messages of a chat that it knows.
    let chunks = client.stream("/ai-sdk/assistant", &body).await.rest().await;
    assert_eq!(text_of(&chunks), "There are 5 messages.");
}

#[tokio::test]
async fn a_message_with_a_key_is_answered_once() {
    let client = Client::start().await;
    let send = async |body: &Value| {
        let request = client.request(Method::POST, "/ai-sdk/assistant").header("Idempotency-Key", "k");
        request.json(body).send().await.unwrap()
    };
    let first = Events::of(send(&say("c", "report")).await).rest().await;
    let again = send(&say("c", "report")).await;
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    let again = Events::of(again).rest().await;
    assert_eq!((&again[0], text_of(&again)), (&first[0], text_of(&first)));
    assert_eq!(send(&say("c", "hello")).await.status(), StatusCode::UNPROCESSABLE_ENTITY);
}
