//! Tests of one streamed call from each provider with its own protocol, and of the data that must
//! be sent back.

use crate::server::{Reply, Server};
use crate::{KEY, answer, ask, hello, model, request, text_of, with_tools};
use serde_json::{Value, json};
use tollgate_agent::message::{Finish, Message, ModelReply, ModelRequest, TokenUsage};
use tollgate_models::{Delta, FaultKind};

const QUICK: &str = "[retry]\nmax_attempts = 1";

/// Returns the conversation after the single call of a reply was answered.
fn answered(reply: ModelReply) -> ModelRequest {
    let result = answer(&reply.message.calls[0], "{\"words\":3}", false);
    request(vec![Message::User("Hello".to_owned()), Message::Assistant(reply.message), result])
}

fn anthropic(events: &[Value]) -> Reply {
    events.iter().fold(Reply::ok(), |reply, event| {
        reply.bytes(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
    })
}

fn anthropic_call() -> Reply {
    anthropic(&[
        json!({"type": "message_start", "message": {"model": "claude-4-20260101", "usage": {"input_tokens": 11, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "I should count."}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "SIG"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Counting."}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "tu_1", "name": "count", "input": {}}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ""}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{\"n\": 1.10"}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "}"}}),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ])
}

#[tokio::test]
async fn anthropic_calls_come_with_their_thinking_and_take_it_back() {
    let server = Server::new(vec![anthropic_call(), anthropic_call(), anthropic_call()]).await;
    let model = model("anthropic", &server, QUICK);
    let (reply, deltas) = ask(&*model, hello()).await;
    let reply = reply.unwrap();
    assert_eq!(deltas[0], Delta::Reasoning("I should count.".into()));
    assert_eq!(reply.message.text, "Counting.");
    assert_eq!(reply.message.reasoning.as_deref(), Some("I should count."));
    assert_eq!(reply.usage, TokenUsage { input_tokens: 11, output_tokens: 9 });
    assert_eq!(reply.model.as_deref(), Some("claude-4-20260101"));
    let call = &reply.message.calls[0];
    assert_eq!((call.id.as_str(), call.name.as_str()), ("tu_1", "count"));
    assert_eq!(call.arguments, "{\"n\": 1.10}");

    // A reply may have been stored and read again in between.
    let stored: ModelReply = serde_json::from_str(&serde_json::to_string(&reply).unwrap()).unwrap();
    ask(&*model, answered(stored)).await.0.unwrap();
    let seen = &server.seen()[1];
    assert_eq!(seen.path, "/v1/messages");
    assert_eq!(seen.headers["x-api-key"], KEY);
    assert_eq!(
        seen.body["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": "I should count.", "signature": "SIG"},
            {"type": "text", "text": "Counting."},
            {"type": "tool_use", "id": "tu_1", "name": "count", "input": {"n": 1.10}},
        ])
    );
}

#[tokio::test]
async fn what_one_provider_wants_to_see_again_is_not_shown_to_another() {
    let server = Server::new(vec![anthropic_call(), crate::openai::saying("ok")]).await;
    let (reply, _) = ask(&*model("anthropic", &server, QUICK), hello()).await;
    ask(&*model("openai", &server, QUICK), answered(reply.unwrap())).await.0.unwrap();
    assert!(!server.seen()[1].body.to_string().contains("SIG"));
}

#[tokio::test]
async fn a_tools_name_never_switches_on_a_tool_of_the_providers_own() {
    let server = Server::new(vec![Reply::status(400), Reply::status(400)]).await;
    let request = with_tools(hello(), &["googleSearch", "web_search"]);
    ask(&*model("anthropic", &server, QUICK), request.clone()).await.0.unwrap_err();
    ask(&*model("gemini", &server, QUICK), request).await.0.unwrap_err();
    let seen = server.seen();
    assert_eq!(
        seen[0].body["tools"][1],
        json!({"name": "web_search", "description": "Does web_search.", "input_schema": {"type": "object"}})
    );
    let tools = seen[1].body["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0]["functionDeclarations"][0]["name"], "googleSearch");
}

#[tokio::test]
async fn a6_anthropic_overload_in_mid_stream_may_pass() {
    let overloaded = anthropic(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}}),
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    ]);
    let server = Server::new(vec![overloaded]).await;
    let fault = ask(&*model("anthropic", &server, QUICK), hello()).await.0.unwrap_err();
    assert_eq!(fault.kind(), FaultKind::Transient { retry_after: None });
    assert_eq!(fault.message(), "The provider aborted the reply: Overloaded");
}

fn gemini(parts: &Value, finish: Option<&str>) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 4, "thoughtsTokenCount": 2, "totalTokenCount": 11},
    })
}

#[tokio::test]
async fn gemini_calls_come_with_their_signatures_and_take_them_back() {
    let calls = json!([
        {"functionCall": {"name": "count", "args": {"a": 2, "b": 1}}, "thoughtSignature": "SIG"},
        {"functionCall": {"id": "g2", "name": "outline"}},
    ]);
    let reply = || {
        Reply::ok()
            .event(gemini(&json!([{"text": "Counting"}]), None))
            .event(gemini(&calls, None))
            .event(gemini(&json!([{"text": "."}]), Some("STOP")))
    };
    let server = Server::new(vec![reply(), reply()]).await;
    let model = model("gemini", &server, QUICK);
    let (first, deltas) = ask(&*model, hello()).await;
    let first = first.unwrap();
    assert_eq!(text_of(&deltas), "Counting.");
    assert_eq!(first.usage, TokenUsage { input_tokens: 5, output_tokens: 6 });
    let calls = &first.message.calls;
    assert_eq!((calls[0].id.as_str(), calls[0].arguments.as_str()), ("", "{\"a\":2,\"b\":1}"));
    assert_eq!((calls[1].id.as_str(), calls[1].arguments.as_str()), ("g2", ""));

    ask(&*model, answered(first)).await.0.unwrap();
    let seen = &server.seen()[1];
    assert_eq!(seen.path, "/v1/models/test-model:streamGenerateContent?alt=sse");
    assert_eq!(seen.headers["x-goog-api-key"], KEY);
    let parts = &seen.body["contents"][1]["parts"];
    assert_eq!(parts[1]["functionCall"]["name"], "count");
    assert_eq!(parts[1]["thoughtSignature"], "SIG");
    assert_eq!(parts[2]["functionCall"]["args"], json!({}));
    assert_eq!(seen.body["contents"][2]["parts"][0]["functionResponse"]["name"], "count");
}

#[tokio::test]
async fn a6_gemini_streams_that_are_cut_or_hold_a_broken_call_are_not_replies() {
    let cut = Reply::ok().event(gemini(&json!([{"text": "Half"}]), None));
    let broken = Reply::ok().event(gemini(&json!([]), Some("MALFORMED_FUNCTION_CALL")));
    let server = Server::new(vec![cut, broken]).await;
    let model = model("gemini", &server, QUICK);
    for expected in ["ended before the reply did", "MALFORMED_FUNCTION_CALL"] {
        let fault = ask(&*model, hello()).await.0.unwrap_err();
        assert!(fault.message().contains(expected), "{fault}");
        assert_eq!(fault.kind(), FaultKind::Transient { retry_after: None });
    }
}

#[tokio::test]
async fn gemini_withholding_an_answer_is_a_reply_that_says_so() {
    let blocked = Reply::ok().event(json!({"promptFeedback": {"blockReason": "SAFETY"}}));
    let server = Server::new(vec![blocked]).await;
    let reply = ask(&*model("gemini", &server, QUICK), hello()).await.0.unwrap();
    assert_eq!(reply.finish, Finish::Filtered);
}

#[tokio::test]
async fn ollama_calls_arrive_and_are_answered() {
    let reply = || {
        Reply::ok()
            .line(json!({"model": "qwen3:8b", "message": {"role": "assistant", "content": "", "thinking": "Count."}, "done": false}))
            .line(json!({"message": {"role": "assistant", "content": "Counting."}, "done": false}))
            .line(json!({"message": {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "count", "arguments": {"path": "a"}}},
                {"function": {"name": "count", "arguments": {"path": "b"}}},
            ]}, "done": false}))
            .line(json!({"message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 8, "eval_count": 2}))
    };
    let server = Server::new(vec![reply(), reply()]).await;
    let model = model("ollama", &server, QUICK);
    let (first, deltas) = ask(&*model, with_tools(hello(), &["count"])).await;
    let first = first.unwrap();
    assert_eq!(deltas[0], Delta::Reasoning("Count.".into()));
    assert_eq!(first.message.text, "Counting.");
    assert_eq!((first.usage.total(), first.model.as_deref()), (10, Some("qwen3:8b")));
    let calls: Vec<_> =
        first.message.calls.iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("", "{\"path\":\"a\"}"), ("", "{\"path\":\"b\"}")]);

    ask(&*model, answered(first)).await.0.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].path, "/v1/api/chat");
    assert_eq!(seen[0].body["tools"][0]["function"]["name"], "count");
    assert_eq!(seen[1].body["messages"][2]["content"], "{\"words\":3}");
}

#[tokio::test]
async fn a6_ollama_errors_in_mid_stream_and_cut_streams_are_not_replies() {
    let said = json!({"message": {"role": "assistant", "content": "Half"}, "done": false});
    let failed = Reply::ok().line(&said).line(json!({"error": "the model runner stopped"}));
    let cut = Reply::ok().line(&said);
    let server = Server::new(vec![failed, cut]).await;
    let model = model("ollama", &server, QUICK);
    for expected in ["the model runner stopped", "ended before the reply did"] {
        let fault = ask(&*model, hello()).await.0.unwrap_err();
        assert!(fault.message().contains(expected), "{fault}");
        assert_eq!(fault.kind(), FaultKind::Transient { retry_after: None });
    }
}
