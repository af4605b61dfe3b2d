//! Tests of well-formed chat-completions streams.

use crate::server::{Reply, Server};
use crate::{KEY, ask, hello, model, text_of, with_tools};
use serde_json::{Value, json};
use tollgate_agent::message::{Finish, TokenUsage};
use tollgate_models::Delta;

pub fn delta(delta: &Value) -> Value {
    json!({"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

pub fn said(text: &str) -> Value {
    delta(&json!({ "content": text }))
}

pub fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// Returns a whole reply with this text.
pub fn saying(text: &str) -> Reply {
    Reply::ok().event(said(text)).event(finish("stop")).event("[DONE]")
}

fn calling(deltas: &[Value]) -> Reply {
    let events = deltas.iter().map(|call| delta(&json!({ "tool_calls": [call] })));
    events.fold(Reply::ok(), Reply::event).event(finish("tool_calls")).event("[DONE]")
}

/// It would be written to the audit for each call of the reply.
#[tokio::test]
async fn z3_a_long_name_of_a_model_is_not_kept() {
    for (name, is_kept) in [("m".repeat(200), true), ("m".repeat(201), false)] {
        let named = json!({"model": name, "choices": []});
        let reply = Reply::ok().event(said("Hi")).event(named).event(finish("stop")).event("[DONE]");
        let server = Server::new(vec![reply]).await;
        let (reply, _) = ask(&*model("openai", &server, ""), hello()).await;
        assert_eq!(reply.unwrap().model, is_kept.then(|| name.into()));
    }
}

#[tokio::test]
async fn a_reply_is_told_while_it_is_written_and_whole_at_its_end() {
    let reply = Reply::ok()
        .event(delta(&json!({"role": "assistant", "content": ""})))
        .event(delta(&json!({"reasoning_content": "Greet."})))
        .event(said("Good "))
        .event(said("day"))
        .event(finish("stop"))
        .event(
            json!({"model": "gpt-5-mini-2026-01-01", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}),
        )
        .event("[DONE]");
    let server = Server::new(vec![reply]).await;
    let (reply, deltas) = ask(&*model("openai", &server, ""), hello()).await;
    let reply = reply.unwrap();
    assert_eq!(reply.message.text, "Good day");
    assert_eq!(reply.message.reasoning.as_deref(), Some("Greet."));
    assert_eq!(reply.finish, Finish::Stop);
    assert_eq!(reply.usage, TokenUsage { input_tokens: 7, output_tokens: 3 });
    assert_eq!(reply.model.as_deref(), Some("gpt-5-mini-2026-01-01"));
    assert_eq!(
        deltas,
        [Delta::Reasoning("Greet.".into()), Delta::Text("Good ".into()), Delta::Text("day".into())]
    );
}

#[tokio::test]
async fn a_request_says_what_was_configured_and_nothing_else() {
    let server = Server::new(vec![saying("ok")]).await;
    let lines = "model = \"qwen-max\"\nmax_output_tokens = 99\ntemperature = 0.5";
    ask(&*model("openai", &server, lines), hello()).await.0.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/chat/completions");
    assert_eq!(seen.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(
        seen.body,
        json!({
            "model": "qwen-max",
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": 99,
            "temperature": 0.5,
            "messages": [{"role": "user", "content": "Hello"}],
        })
    );
}

#[tokio::test]
async fn a_server_of_ones_own_needs_no_key() {
    let server = Server::new(vec![saying("ok")]).await;
    let text = format!("provider = \"openai\"\nmodel = \"m\"\nbase_url = \"{}/?version=1\"", server.url);
    let config: tollgate_models::ModelConfig = toml::from_str(&text).unwrap();
    let model = config.build(std::path::Path::new("."), |_| None).unwrap();
    ask(&*model, hello()).await.0.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/chat/completions?version=1");
    assert!(!seen.headers.contains_key("authorization"));
}

#[tokio::test]
async fn r4_tools_are_offered_by_name_description_and_parameters() {
    let server = Server::new(vec![saying("ok")]).await;
    let request = with_tools(hello(), &["a", "b"]);
    ask(&*model("openai", &server, ""), request).await.0.unwrap();
    let tools = server.seen()[0].body["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 2);
    assert_eq!(tools[1]["function"]["name"], "b");
    assert_eq!(tools[1]["function"]["description"], "Does b.");
    assert_eq!(tools[1]["function"]["parameters"], json!({"type": "object"}));
}

#[tokio::test]
async fn calls_are_put_together_from_their_chunks_word_for_word() {
    let server = Server::new(vec![calling(&[
        json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "count", "arguments": ""}}),
        json!({"index": 0, "function": {"arguments": "{\"b\": 1.10,"}}),
        json!({"index": 1, "id": "c2", "type": "function", "function": {"name": "outline", "arguments": "{}"}}),
        json!({"index": 0, "function": {"arguments": " \"a\": \"ü\"}"}}),
    ])])
    .await;
    let (reply, _) = ask(&*model("openai", &server, ""), hello()).await;
    let calls = reply.unwrap().message.calls;
    assert_eq!(calls.len(), 2);
    assert_eq!((calls[0].id.as_str(), calls[0].name.as_str()), ("c1", "count"));
    assert_eq!(calls[0].arguments, "{\"b\": 1.10, \"a\": \"ü\"}");
    assert_eq!((calls[1].id.as_str(), calls[1].arguments.as_str()), ("c2", "{}"));
}

#[tokio::test]
async fn l8_missing_and_repeated_ids_are_handed_on_as_they_came() {
    let server = Server::new(vec![calling(&[
        json!({"index": 0, "function": {"name": "a", "arguments": "{}"}}),
        json!({"index": 1, "id": "same", "function": {"name": "b", "arguments": "{}"}}),
        json!({"index": 2, "id": "same", "function": {"name": "c", "arguments": "{}"}}),
    ])])
    .await;
    let (reply, _) = ask(&*model("openai", &server, ""), hello()).await;
    let calls = reply.unwrap().message.calls;
    let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["", "same", "same"]);
}

#[tokio::test]
async fn a4_malformed_arguments_are_text_and_never_a_fault() {
    let server = Server::new(vec![calling(&[
        json!({"index": 0, "id": "c1", "function": {"name": "a", "arguments": "{\"x\": nope"}}),
        json!({"index": 1, "id": "c2", "function": {"name": "b", "arguments": "{\"x\":1,\"x\":2}"}}),
    ])])
    .await;
    let (reply, _) = ask(&*model("openai", &server, ""), hello()).await;
    let calls = reply.unwrap().message.calls;
    assert_eq!(calls[0].arguments, "{\"x\": nope");
    assert_eq!(calls[1].arguments, "{\"x\":1,\"x\":2}");
}

#[tokio::test]
async fn a3_a_reply_cut_off_by_its_length_says_so() {
    for (word, expected) in [("length", Finish::Length), ("content_filter", Finish::Filtered)] {
        let reply = Reply::ok().event(said("Once upon")).event(finish(word)).event("[DONE]");
        let server = Server::new(vec![reply]).await;
        let (reply, _) = ask(&*model("openai", &server, ""), hello()).await;
        assert_eq!(reply.unwrap().finish, expected);
    }
}

#[tokio::test]
async fn a_reply_is_whole_once_it_says_why_it_stopped() {
    let no_done = Reply::ok().event(said("ok")).event(finish("stop"));
    let broken_after = Reply::ok().event(said("ok")).event(finish("stop")).cut();
    let server = Server::new(vec![no_done, broken_after]).await;
    let model = model("openai", &server, "");
    for _ in 0..2 {
        let (reply, deltas) = ask(&*model, hello()).await;
        assert_eq!(reply.unwrap().message.text, "ok");
        assert_eq!(text_of(&deltas), "ok");
    }
}

#[tokio::test]
async fn characters_and_events_may_be_split_anywhere() {
    let whole = format!(
        "data: {}\r\n\r\ndata: {}\r\n\r\n: note\r\n\r\ndata: [DONE]\r\n\r\n",
        said("näïve"),
        finish("stop")
    );
    let bytes = whole.as_bytes().chunks(3);
    let reply = bytes.fold(Reply::ok(), |reply, piece| reply.bytes(piece.to_vec()).pause(0));
    let server = Server::new(vec![reply]).await;
    let (reply, _) = ask(&*model("openai", &server, ""), hello()).await;
    assert_eq!(reply.unwrap().message.text, "näïve");
}

#[tokio::test]
async fn chunks_that_say_that_there_is_no_error_are_chunks() {
    let chunk =
        |text: &str| json!({"error": null, "choices": [{"delta": {"content": text}, "finish_reason": null}]});
    let reply = Reply::ok().event(chunk("Good ")).event(chunk("day")).event(finish("stop")).event("[DONE]");
    let server = Server::new(vec![reply]).await;
    let (reply, deltas) = ask(&*model("openai", &server, ""), hello()).await;
    assert_eq!(reply.unwrap().message.text, "Good day");
    assert_eq!(text_of(&deltas), "Good day");
}
