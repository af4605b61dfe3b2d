//! Chat completions and the list of models.

use crate::client::Client;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tollgate::config::{OpenAiConfig, SystemMessages};

fn chat(prompt: &str) -> Value {
    json!({"model": "assistant", "messages": [{"role": "user", "content": prompt}]})
}

fn streamed(prompt: &str) -> Value {
    let mut body = chat(prompt);
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    body
}

fn text_of(chunks: &[Value], member: &str) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][member].as_str()).collect()
}

#[tokio::test]
async fn models_are_the_agents_of_the_key() {
    let client = Client::start().await;
    let (status, models) = client.get("/v1/models").await;
    let ids: Vec<&Value> = models["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!((status, ids), (StatusCode::OK, vec![&json!("assistant"), &json!("other")]));
    let (_, models) = client.with_key("agent").get("/v1/models").await;
    assert_eq!(models["data"].as_array().unwrap().len(), 1);
    assert_eq!(client.get("/v1/models/assistant").await.1["owned_by"], "tollgate");
    let (status, error) = client.with_key("agent").get("/v1/models/other").await;
    assert_eq!((status, &error["error"]["code"]), (StatusCode::NOT_FOUND, &json!("model_not_found")));
}

#[tokio::test]
async fn a_completion_has_text_and_usage_and_names_what_was_not_applied() {
    let client = Client::start().await;
    let mut body = chat("hello");
    body["temperature"] = json!(0.5);
    let answer = client.send("/v1/chat/completions", &body).await;
    assert_eq!(answer.headers()["tollgate-ignored"], "temperature");
    let completion: Value = answer.json().await.unwrap();
    let choice = &completion["choices"][0];
    assert_eq!(choice["message"]["content"], "Hello there, my friend.");
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(completion["usage"]["total_tokens"], 15);
}

#[tokio::test]
async fn history_is_the_clients_or_the_threads() {
    let client = Client::start().await;
    let history = |thread: Option<&str>| {
        json!({
            "model": "assistant",
            "metadata": {"thread_id": thread},
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi."},
                {"role": "assistant", "content": "Hi!"},
                {"role": "user", "content": "history"},
            ],
        })
    };
    let content = |completion: Value| completion["choices"][0]["message"]["content"].clone();
    let (_, stateless) = client.post("/v1/chat/completions", &history(None)).await;
    assert_eq!(content(stateless), "There are 4 messages.");
    let (_, first) = client.post("/v1/chat/completions", &history(Some("t"))).await;
    assert_eq!(content(first), "There are 1 messages.", "only the last message counts");
    let (_, second) = client.post("/v1/chat/completions", &history(Some("t"))).await;
    assert_eq!(content(second), "There are 3 messages.", "the server has the others");
    let (_, others) = client.with_key("eve").post("/v1/chat/completions", &history(Some("t"))).await;
    assert_eq!(content(others), "There are 1 messages.", "a thread belongs to its principal");
}

#[tokio::test]
async fn a_stream_has_text_progress_and_usage() {
    let client = Client::start().await;
    let chunks = client.stream("/v1/chat/completions", &streamed("report")).await.rest().await;
    assert_eq!(text_of(&chunks, "content"), "One moment.\n\nIt is done.");
    let progress = text_of(&chunks, "reasoning_content");
    assert!(progress.contains("slow_report runs") && progress.contains("part 2"), "{progress}");
    assert_eq!(chunks.last().unwrap(), "[DONE]");
    let usage = &chunks[chunks.len() - 2];
    assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &json!(30)));
    assert!(!json!(chunks).to_string().contains("tool_calls"));
}

#[tokio::test]
async fn a_question_holds_the_stream_open_until_it_is_decided_elsewhere() {
    let client = Client::start().await;
    let mut stream = client.stream("/v1/chat/completions", &streamed("guarded")).await;
    let chunks = stream.until(|chunk| chunk["tollgate"]["waiting"].is_array()).await;
    let asked = &chunks.last().unwrap()["tollgate"]["waiting"][0];
    assert!(text_of(&chunks, "content").contains("/console/waiting"), "{chunks:?}");
    let (run, id) = (asked["run_id"].as_str().unwrap(), asked["suspension_id"].as_str().unwrap());
    assert_eq!(client.decide(run, id, &json!({"resume": true})).await, StatusCode::ACCEPTED);
    let rest = stream.rest().await;
    assert_eq!(text_of(&rest, "content"), "It is done.");
    assert_eq!(rest.last().unwrap(), "[DONE]");
}

#[tokio::test]
async fn a_question_ends_an_answer_without_a_stream() {
    let client = Client::start().await;
    let (status, completion) = client.post("/v1/chat/completions", &chat("ask")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(completion["choices"][0]["finish_reason"], "stop");
    assert_eq!(completion["tollgate"]["waiting"].as_array().unwrap().len(), 2);
    let content = completion["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(
        content.starts_with("One moment.\n\n[waiting] ") && content.contains("/console/waiting"),
        "{content}"
    );
}

#[tokio::test]
async fn errors_have_openais_format() {
    let client = Client::start().await;
    for (body, status, code) in [
        (json!({"model": "nobody", "messages": [{"role": "user", "content": "a"}]}), 404, "model_not_found"),
        (json!({"model": "assistant", "messages": []}), 400, "invalid_request"),
        (
            json!({"model": "assistant", "messages": [{"role": "user", "content": "a"}], "n": 2}),
            400,
            "unsupported",
        ),
        (
            json!({"model": "assistant", "messages": [{"role": "user", "content": "a"}], "store": false}),
            400,
            "unsupported",
        ),
        (chat("fail"), 502, "failed"),
        (streamed("fail"), 502, "failed"),
    ] {
        let answer = client.send("/v1/chat/completions", &body).await;
        let retries = answer.headers().get("x-should-retry").cloned();
        assert_eq!(answer.status().as_u16(), status, "{body}");
        let error: Value = answer.json().await.unwrap();
        assert_eq!(error["error"]["code"], code);
        assert_eq!(retries.is_some(), status == 502, "OpenAI's libraries repeat requests after 5xx");
    }
}

#[tokio::test]
async fn a_client_that_never_reads_or_leaves_costs_others_nothing() {
    let client = Client::start().await;
    let body = streamed("report").to_string();
    let mut stuck = Vec::new();
    for _ in 0..8 {
        let mut stream = tokio::net::TcpStream::connect(client.address()).await.unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n{body}",
            client.address(),
            client.with_key("eve").key(),
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stuck.push(stream);
    }
    stuck.truncate(4);
    let (status, completion) = client.post("/v1/chat/completions", &chat("hello")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(completion["choices"][0]["message"]["content"], "Hello there, my friend.");
}

#[tokio::test]
async fn nothing_is_answered_without_a_key() {
    let client = Client::start().await.with_key("nobody");
    for path in ["/v1/models", "/v1/responses/resp_a_1", "/ai-sdk/assistant/c/stream", "/a2a/assistant/tasks"]
    {
        assert_eq!(client.get(path).await.0, StatusCode::UNAUTHORIZED, "{path}");
    }
    let card = client.request(Method::GET, "/.well-known/agent-card.json").send().await.unwrap();
    assert_eq!(card.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_operator_sets_how_chats_are_treated() {
    let set = OpenAiConfig {
        system: SystemMessages::Refuse,
        progress: false,
        holds: false,
        thread_header: Some("x-chat".to_owned()),
        ..OpenAiConfig::default()
    };
    let client = Client::with_openai(set).await;
    let mut system = chat("hello");
    system["messages"] =
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]);
    let (status, refused) = client.post("/v1/chat/completions", &system).await;
    assert_eq!((status, &refused["error"]["param"]), (StatusCode::BAD_REQUEST, &json!("messages[0]")));
    // Without progress, nothing is said about calls.
    let chunks = client.stream("/v1/chat/completions", &streamed("report")).await.rest().await;
    let all = json!(chunks).to_string();
    assert!(!all.contains("reasoning_content") && !all.contains("slow_report"), "{all}");
    // A stream ends with its question.
    let chunks = client.stream("/v1/chat/completions", &streamed("guarded")).await.rest().await;
    assert!(json!(chunks).to_string().contains("\"waiting\":[{"), "{chunks:#?}");
    // The header names the thread, whose messages the server has.
    for (prompt, text) in [("hello", "Hello there, my friend."), ("history", "There are 3 messages.")] {
        let request = client.request(Method::POST, "/v1/chat/completions").header("X-Chat", "c1");
        let answer: Value = request.json(&chat(prompt)).send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["choices"][0]["message"]["content"], text);
        assert_eq!(answer["tollgate"]["thread_id"], "c1");
    }
    // A stream is held open as long as the operator says.
    let brief = OpenAiConfig { hold: Duration::from_millis(50), ..OpenAiConfig::default() };
    let client = Client::with_openai(brief).await;
    let chunks = client.stream("/v1/chat/completions", &streamed("guarded")).await.rest().await;
    assert_eq!(chunks.last().unwrap(), "[DONE]");
    assert!(json!(chunks).to_string().contains("\"finish_reason\":\"stop\""), "{chunks:#?}");
}
