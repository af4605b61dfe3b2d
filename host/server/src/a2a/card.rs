//! Agent cards: how a client reaches an agent, and what it offers. Cards name no tools.

use crate::Shared;
use crate::agent_runs::{AgentRuns, Caller, base_url};
use crate::parameters::PathParameters;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tollgate::{Agent, DIRECT_AGENT};

/// The version of the protocol.
pub(super) const PROTOCOL_VERSION: &str = "1.0";

/// Answers with the card of the server: of its first agent, with every agent as a skill. It needs
/// no credential.
pub(super) async fn server(State(state): State<Shared>, headers: HeaderMap) -> Result<Response, Problem> {
    let agents: Vec<&Agent> =
        state.host.agents().filter(|agent| agent.spec.view.id != DIRECT_AGENT).collect();
    let first = agents.first().ok_or_else(|| Problem::not_found("agent"))?;
    Ok(answer(&headers, &card(first, &agents, &headers)))
}

/// Answers with the card of one agent.
pub(super) async fn agent(
    State(state): State<Shared>,
    principal: Caller,
    PathParameters(agent): PathParameters<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let agent = AgentRuns::new(&state, &principal).agent(&agent)?;
    Ok(answer(&headers, &card(agent, &[agent], &headers)))
}

fn card(agent: &Agent, skills: &[&Agent], headers: &HeaderMap) -> Value {
    let id = &agent.spec.view.id;
    let url = format!("{}/a2a/{id}", base_url(headers));
    let interface =
        |binding| json!({"url": url, "protocolBinding": binding, "protocolVersion": PROTOCOL_VERSION});
    json!({
        "name": id,
        "description": description(agent),
        "version": env!("CARGO_PKG_VERSION"),
        "supportedInterfaces": [interface("JSONRPC"), interface("HTTP+JSON")],
        "capabilities": {"streaming": true, "pushNotifications": false, "extendedAgentCard": false},
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": skills.iter().map(|agent| skill(agent)).collect::<Vec<_>>(),
    })
}

fn skill(agent: &Agent) -> Value {
    let id = &agent.spec.view.id;
    json!({"id": id, "name": id, "description": description(agent), "tags": ["agent"]})
}

fn description(agent: &Agent) -> String {
    let view = &agent.spec.view;
    view.description.clone().unwrap_or_else(|| format!("The agent {}.", view.id))
}

/// Answers with a card, or with 304 if the client has it.
fn answer(headers: &HeaderMap, card: &Value) -> Response {
    let body = card.to_string();
    let digest: String = Sha256::digest(&body).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let etag = format!("\"{digest}\"");
    let known = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let fixed = [
        (header::ETAG, etag.clone()),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::CONTENT_TYPE, "application/json".to_owned()),
    ];
    match known.is_some_and(|known| known.split(',').any(|known| known.trim() == etag)) {
        true => (StatusCode::NOT_MODIFIED, fixed).into_response(),
        false => (fixed, body).into_response(),
    }
}
