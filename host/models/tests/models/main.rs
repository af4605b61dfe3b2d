//! Tests of models against a local server that speaks the providers' protocols, and misbehaves as
//! they do.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub)]

mod conversation;
mod faults;
mod openai;
mod others;
mod probe;
mod server;

use server::Server;
use std::path::Path;
use std::sync::Arc;
use tollgate_agent::message::{Answer, Message, ModelCall, ModelReply, ModelRequest, ToolSpec};
use tollgate_models::{Delta, Model, ModelConfig, ModelFault};

const KEY: &str = "sk-very-secret";

/// Creates a model at a local server, with quick retries unless `lines` configures otherwise.
fn model(provider: &str, server: &Server, lines: &str) -> Arc<dyn Model> {
    let retry = match lines.contains("[retry]") {
        true => "",
        false => "[retry]\nfirst_pause_ms = 10\nmax_attempts = 2",
    };
    let text = format!(
        "provider = \"{provider}\"\nbase_url = \"{}\"\napi_key_env = \"KEY\"\n{}\n{lines}\n{retry}",
        server.url,
        if lines.contains("model =") { "" } else { "model = \"test-model\"" },
    );
    let config: ModelConfig = toml::from_str(&text).unwrap();
    config.build(Path::new("."), |name| (name == "KEY").then(|| KEY.to_owned())).unwrap()
}

async fn ask(model: &dyn Model, request: ModelRequest) -> (Result<ModelReply, ModelFault>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let reply = model.reply(request, &mut |delta| deltas.push(delta)).await;
    (reply, deltas)
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest { messages: Arc::new(messages), ..ModelRequest::default() }
}

fn hello() -> ModelRequest {
    request(vec![Message::User("Hello".to_owned())])
}

fn with_tools(mut request: ModelRequest, names: &[&str]) -> ModelRequest {
    let tools = names.iter().map(|name| ToolSpec {
        name: (*name).to_owned(),
        description: format!("Does {name}."),
        parameters: serde_json::json!({"type": "object"}),
    });
    request.tools = Arc::new(tools.collect());
    request
}

fn answer(call: &ModelCall, content: &str, is_error: bool) -> Message {
    Message::Answer(Answer {
        call_id: call.id.clone().into(),
        tool_name: call.name.clone().into(),
        content: content.into(),
        is_error,
        images: Vec::new(),
    })
}

fn text_of(deltas: &[Delta]) -> String {
    deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}
