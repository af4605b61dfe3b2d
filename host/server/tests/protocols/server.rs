//! A server of the protocol routes for tests: real hosts, tools and streams, a scripted model, and
//! a table of keys in place of authentication.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tollgate::models::{Delta, DeltaSink, ModelFault};
use tollgate::tollgate_agent::message::{
    AssistantMessage, Message, ModelCall, ModelReply, ModelRequest, TokenUsage,
};
use tollgate::tollgate_agent::outcome::ResumeMode;
use tollgate::{Agent, Decision, Gate, Host, HostBuilder, Model, ProposedCall, Ticket, Verdict, async_trait};
use tollgate_server::{Principal, Problem, Scope, ServerState, Shared};

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
            "slow" => vec![("slow_report", report(3, 10_000))],
            "approve" => vec![approval],
            "guarded" => vec![guarded],
            "ask" => vec![approval, guarded],
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
            ("hello", ..) => "Hello there, my friend.".to_owned(),
            ("history", ..) => format!("There are {} messages.", request.messages.len()),
            (prompt, ..) => format!("You said: {prompt}"),
        };
        for word in text.split_inclusive(' ') {
            tokio::time::sleep(Duration::from_millis(2)).await;
            deltas(Delta::Text(word.to_owned()));
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

impl Gate for Guard {
    fn id(&self) -> &str {
        "guard"
    }

    fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
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
    builder.gate(Guard).agent(assistant).agent(Agent::new("other", StoryModel))
}

/// The keys of the tests: a name that is also the secret, and what it may do.
fn principal(key: &str) -> Option<Principal> {
    let (scopes, agents): (&[Scope], &[&str]) = match key {
        "ada" | "eve" => (&[Scope::Use, Scope::Decide], &[]),
        "agent" => (&[Scope::Use], &["assistant"]),
        _ => return None,
    };
    Some(Principal {
        name: key.to_owned(),
        scopes: scopes.iter().copied().collect(),
        agents: agents.iter().map(|agent| (*agent).to_owned()).collect(),
        tools: Vec::new(),
    })
}

async fn authenticate(mut request: Request, next: Next) -> Response {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let key = header.and_then(|header| header.strip_prefix("Bearer ")).map(str::to_owned);
    let is_public = request.uri().path() == "/.well-known/agent-card.json";
    match key.as_deref().and_then(principal) {
        Some(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        None if is_public => next.run(request).await,
        None => Problem::unauthenticated().into_response(),
    }
}

/// Decides a question, as the console does: by somebody else, elsewhere.
async fn decide(
    State(state): State<Shared>,
    Path((run, suspension)): Path<(String, String)>,
    Json(body): Json<Value>,
) -> Result<StatusCode, Problem> {
    let decision = match body["answer"].get("resume") {
        Some(value) => Decision::resume(suspension, value.clone()),
        None => Decision::cancel(suspension),
    };
    let refused = |why: tollgate::HostError| Problem::new(StatusCode::CONFLICT, "refused", why.to_string());
    let handle = state.host.decide(&run, decision).await.map_err(refused)?;
    // The run goes on, whoever follows it.
    tokio::spawn(handle.wait());
    Ok(StatusCode::ACCEPTED)
}

/// Returns the whole server.
pub fn app(host: Host) -> axum::Router {
    axum::Router::new()
        .merge(tollgate_server::openai::router())
        .merge(tollgate_server::ai_sdk::router())
        .merge(tollgate_server::ag_ui::router())
        .merge(tollgate_server::a2a::router())
        .merge(tollgate_server::a2a::public_router())
        .route("/api/v1/runs/{run}/questions/{suspension}", post(decide))
        .layer(from_fn(authenticate))
        .with_state(Arc::new(ServerState { host }))
}
