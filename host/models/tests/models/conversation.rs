//! Tests of how a whole conversation reaches each provider.

use crate::openai::saying;
use crate::server::{Reply, Server};
use crate::{answer, ask, model, request};
use serde_json::json;
use std::sync::Arc;
use tollgate_agent::content::ContentPart;
use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelRequest};

fn call(id: &str, name: &str, arguments: &str) -> ModelCall {
    ModelCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        provider_data: None,
    }
}

/// Returns a request with two calls, one of them with arguments that are not JSON, an error and a
/// note.
fn conversation() -> ModelRequest {
    let (good, bad) = (call("c1", "count", "{\"path\":\"a\"}"), call("c2", "outline", "{oops"));
    let messages = vec![
        Message::User("How long?".to_owned()),
        Message::Assistant(AssistantMessage {
            text: "Let me see.".to_owned(),
            reasoning: Some("Hm.".to_owned()),
            calls: vec![good.clone(), bad.clone()].into(),
        }),
        answer(&good, "{\"words\":3}", false),
        answer(&bad, "That was no JSON.", true),
        Message::Note("Be brief.".to_owned()),
        Message::Assistant(AssistantMessage::default()),
        Message::User("Well?".to_owned()),
    ];
    ModelRequest { system: Arc::from("You count."), ..request(messages) }
}

#[tokio::test]
async fn a10_openai_reads_notes_after_the_system_prompt_and_marked() {
    let server = Server::new(vec![saying("ok")]).await;
    ask(&*model("openai", &server, ""), conversation()).await.0.unwrap();
    let tool_call = |id: &str, name: &str, arguments: &str| json!({"type": "function", "id": id, "function": {"name": name, "arguments": arguments}});
    assert_eq!(
        server.seen()[0].body["messages"],
        json!([
            {"role": "system", "content": "You count."},
            {"role": "user", "content": "How long?"},
            {"role": "assistant", "content": "Let me see.", "tool_calls": [
                tool_call("c1", "count", "{\"path\":\"a\"}"),
                tool_call("c2", "outline", "{\"unreadable_arguments\":\"{oops\"}"),
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "{\"words\":3}"},
            {"role": "tool", "tool_call_id": "c2", "content": "That was no JSON."},
            {"role": "user", "content": "[Note from the host, not from the user]\nBe brief."},
            {"role": "user", "content": "Well?"},
        ])
    );
}

#[tokio::test]
async fn l6_anthropic_reads_all_answers_of_a_turn_in_one_message() {
    let server = Server::new(vec![Reply::status(400)]).await;
    ask(&*model("anthropic", &server, ""), conversation()).await.0.unwrap_err();
    let body = &server.seen()[0].body;
    assert_eq!(body["system"], "You count.");
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": "How long?"},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "c1", "name": "count", "input": {"path": "a"}},
                {"type": "tool_use", "id": "c2", "name": "outline", "input": {"unreadable_arguments": "{oops"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "{\"words\":3}"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "That was no JSON.", "is_error": true},
            ]},
            {"role": "user", "content": "[Note from the host, not from the user]\nBe brief."},
            {"role": "user", "content": "Well?"},
        ])
    );
}

#[tokio::test]
async fn l6_gemini_reads_all_answers_of_a_turn_in_one_message() {
    let server = Server::new(vec![Reply::status(400)]).await;
    ask(&*model("gemini", &server, ""), conversation()).await.0.unwrap_err();
    let body = &server.seen()[0].body;
    assert_eq!(body["systemInstruction"]["parts"][0]["text"], "You count.");
    let contents = body["contents"].as_array().unwrap();
    assert_eq!(contents[1]["parts"][1]["functionCall"]["args"], json!({"path": "a"}));
    let answers = contents[2]["parts"].as_array().unwrap();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0]["functionResponse"]["name"], "count");
    assert_eq!(answers[1]["functionResponse"]["response"]["content"], "That was no JSON.");
    assert_eq!(contents[3]["role"], "user");
}

#[tokio::test]
async fn l6_ollama_reads_each_answer_in_a_message_of_its_own() {
    let server = Server::new(vec![Reply::status(400)]).await;
    ask(&*model("ollama", &server, ""), conversation()).await.0.unwrap_err();
    let seen = &server.seen()[0];
    assert_eq!(seen.headers["authorization"], format!("Bearer {}", crate::KEY));
    let messages = seen.body["messages"].as_array().unwrap();
    let answers: Vec<_> = messages.iter().filter(|m| m["role"] == "tool").map(|m| &m["content"]).collect();
    assert_eq!(answers, ["{\"words\":3}", "That was no JSON."]);
    assert_eq!(messages[2]["tool_calls"][0]["function"]["arguments"], json!({"path": "a"}));
}

/// Returns a request whose only answer has two images, of which providers read one.
fn with_images() -> ModelRequest {
    let draw = call("c1", "draw", "{}");
    let image = |mime_type: &str| ContentPart::Image { mime_type: mime_type.to_owned(), data: "AAAA".into() };
    let Message::Answer(answered) = answer(&draw, "[an image]", false) else { panic!("it is an answer") };
    let answered = tollgate_agent::message::Answer {
        images: vec![image("image/png"), image("image/x-other")],
        ..answered
    };
    request(vec![
        Message::User("Draw.".to_owned()),
        Message::Assistant(AssistantMessage { calls: vec![draw].into(), ..AssistantMessage::default() }),
        Message::Answer(answered),
    ])
}

#[tokio::test]
async fn l6_a_model_that_sees_is_shown_images_after_the_answers_and_others_are_not() {
    for (provider, path) in [
        ("openai", "/messages/3/content/1/image_url/url"),
        ("anthropic", "/messages/3/content/1/source/data"),
        ("gemini", "/contents/3/parts/1/inlineData/data"),
        ("ollama", "/messages/3/images/0"),
    ] {
        let server = Server::new(vec![Reply::status(400), Reply::status(400)]).await;
        ask(&*model(provider, &server, "images = true"), with_images()).await.0.unwrap_err();
        ask(&*model(provider, &server, ""), with_images()).await.0.unwrap_err();
        let seen = server.seen();
        let image = seen[0]
            .body
            .pointer(path)
            .or_else(|| seen[0].body.pointer(&path.replace("inlineData", "inline_data")));
        let image = image.and_then(|image| image.as_str());
        assert!(image.is_some_and(|image| image.ends_with("AAAA")), "{provider}: {}", seen[0].body);
        let text = seen[0].body.to_string();
        assert!(
            !text.contains("image/x-other") && text.contains("in the result of the call c1 of draw"),
            "{text}"
        );
        assert!(!seen[1].body.to_string().contains("AAAA"), "{provider} does not see by default");
    }
}
