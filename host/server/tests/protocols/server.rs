//! The server with a scripted model, for tests and for real clients.

use axum::Router;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tollgate::config::ServeConfig;
use tollgate::models::{Delta, DeltaSink, ModelFault};
use tollgate::{Agent, Gate, Host, HostBuilder, Model, ProposedCall, Ticket, Verdict, async_trait};
use tollgate_agent::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest, TokenUsage};
use tollgate_agent::outcome::ResumeMode;
use tollgate_server::access::KeyRequest;
use tollgate_server::{AccessDatabase, Parts, Principal, Scope, Server, ServerOptions, ServerState, router};

/// A reply of these is several megabytes long.
const HUGE_WORD: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde ";
const HUGE_WORDS: usize = 60_000;

/// A model whose replies depend on the last message of the user alone, so that any number of
/// clients can talk to it.
pub struct StoryModel;

impl StoryModel {
    fn calls(prompt: &str) -> Vec<(&'static str, Value)> {
        let report = |parts: u32, pause_ms: u32| json!({"text": "One is here. Two is here. Three is here.", "parts": parts, "pause_ms": pause_ms});
        let approval = ("request_approval", json!({"question": "Publish it?"}));
        let guarded = ("echo", json!({"text": "guarded"}));
        match prompt {
            "report" => vec![("slow_report", report(3, 20))],
            "steady" => vec![("slow_report", report(3, 300))],
            "slow" => vec![("slow_report", report(3, 10_000))],
            "approve" => vec![approval],
            "guarded" => vec![guarded],
            "ask" => vec![approval, guarded],
            // Another agent works, whose calls have the same ids as those of this one.
            "delegate" => vec![("ask_other", json!({"request": "report"}))],
            "consult" => vec![("ask_other", json!({"request": "guarded"}))],
            _ => Vec::new(),
        }
    }
}

#[async_trait]
impl Model for StoryModel {
    fn name(&self) -> &str {
        "story"
    }

    async fn reply(
        &self,
        request: ModelRequest,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelFault> {
        let prompt = request.messages.iter().rev().find_map(|message| match message {
            Message::User(text) => Some(text.as_str()),
            _ => None,
        });
        let prompt = prompt.unwrap_or_default();
        let is_answered = matches!(request.messages.last(), Some(Message::Answer(_)));
        let calls = if is_answered { Vec::new() } else { Self::calls(prompt) };
        let text = match (prompt, is_answered, calls.is_empty()) {
            ("fail", ..) => return Err(ModelFault::permanent("The quota is used up.")),
            (_, true, _) => "It is done.".to_owned(),
            (_, false, false) => "One moment.".to_owned(),
            ("huge", ..) => HUGE_WORD.repeat(HUGE_WORDS),
            ("hello", ..) => "Hello there, my friend.".to_owned(),
            ("history", ..) => format!("There are {} messages.", request.messages.len()),
            (prompt, ..) => format!("You said: {prompt}"),
        };
        for words in text.split_inclusive(' ').collect::<Vec<_>>().chunks(1.max(text.len() / 4_000)) {
            tokio::time::sleep(Duration::from_millis(2)).await;
            deltas(Delta::Text(words.concat()));
        }
        let call = |(name, arguments): (&str, Value)| ModelCall {
            id: String::new(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
            provider_data: None,
        };
        let calls = Arc::new(calls.into_iter().map(call).collect());
        let message = AssistantMessage { text, calls, ..AssistantMessage::default() };
        let usage = TokenUsage { input_tokens: 10, output_tokens: 5 };
        Ok(ModelReply { message, usage, ..ModelReply::default() })
    }
}

/// Asks a person about `echo`.
struct Guard;

#[async_trait]
impl Gate for Guard {
    fn id(&self) -> &str {
        "guard"
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        if call.tool.descriptor.name != "echo" {
            return Verdict::Allow;
        }
        Verdict::Suspend(Box::new(Ticket {
            action: "permit".to_owned(),
            message: "May it echo this?".to_owned(),
            parameters: call.arguments.value().clone(),
            response_schema: Some(json!({"type": "boolean"})),
            resume_mode: ResumeMode::ReplayToolCall,
        }))
    }
}

/// Adds the agent of the stories and its gate to a host with the tools `slow_report`,
/// `request_approval` and `echo`.
pub fn with_story(builder: HostBuilder) -> HostBuilder {
    let assistant =
        Agent::new("assistant", StoryModel).with_description("Answers questions.").with_tools(["*"]);
    let other = Agent::new("other", StoryModel).offered_as("ask_other").with_tools(["slow_report", "echo"]);
    builder.gate(Guard).agent(assistant).agent(other)
}

/// A server under test, and the secrets of its keys.
pub struct StoryServer {
    pub address: SocketAddr,
    /// The keys, by the names of their principals.
    pub keys: BTreeMap<&'static str, String>,
    /// Ends when the server does.
    pub serving: JoinHandle<std::io::Result<()>>,
}

/// Starts a server with this host and keys at a free port of loopback.
pub async fn serve(host: Host, data: &Path) -> Result<StoryServer, Box<dyn std::error::Error>> {
    serve_with(host, data, ServeConfig::default(), |routes| routes).await
}

/// Starts a server as [`serve`] does, with this configuration and its routes changed.
pub async fn serve_with(
    host: Host,
    data: &Path,
    config: ServeConfig,
    change: impl FnOnce(Router) -> Router,
) -> Result<StoryServer, Box<dyn std::error::Error>> {
    let server = Server::bind("127.0.0.1:0".parse()?).await?;
    let address = server.address()?;
    let access = AccessDatabase::open(data)?;
    let options = ServerOptions { address, ..ServerOptions::default() };
    let state = ServerState::new(host, access, config, options);
    let mut keys = BTreeMap::new();
    let whole = [Scope::Use, Scope::Decide];
    for (name, scopes, agents) in [
        ("ada", &whole[..], Vec::new()),
        ("eve", &whole[..], Vec::new()),
        ("agent", &whole[..1], vec!["assistant".to_owned()]),
        ("operator", &Scope::ALL[..], Vec::new()),
    ] {
        let principal = Principal { agents, ..Principal::new(name, scopes.iter().copied()) };
        let (_, secret) = state.access.add_key(&KeyRequest { principal, expires_at_ms: None })?;
        keys.insert(name, secret);
    }
    let routes = change(router(Arc::clone(&state), &Parts::all()));
    let serving = tokio::spawn(async move { server.serve(state, routes).await });
    Ok(StoryServer { address, keys, serving })
}
