//! Agents.

use crate::access::Principal;
use crate::parameters::PathParameters;
use crate::problem::Problem;
use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use tollgate::{Agent, DIRECT_AGENT};
use utoipa::ToSchema;

/// An agent.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AgentDocument {
    /// The agent's id.
    id: String,
    /// Its purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The names of its tools; `*` stands for all.
    tools: Vec<String>,
    /// The agents to which it may hand the conversation.
    delegates: Vec<String>,
    /// The JSON Schema of its answer; absent if it answers in free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output: Option<Value>,
    /// The limits of its runs.
    limits: AgentLimits,
    /// Whether it has a model, so that it can answer.
    answers: bool,
}

/// The limits of an agent's runs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AgentLimits {
    /// The maximum number of model turns.
    model_turns: u32,
    /// The maximum number of calls.
    tool_calls: u32,
    /// The maximum number of tokens; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    /// The maximum wall time in milliseconds.
    wall_ms: u64,
}

/// A list of agents.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AgentList {
    /// The agents that the credential may use.
    items: Vec<AgentDocument>,
}

fn described(agent: &Agent) -> AgentDocument {
    AgentDocument {
        id: agent.spec.view.id.clone(),
        description: agent.spec.view.description.clone(),
        tools: agent.spec.tools.clone(),
        delegates: agent.spec.view.delegates.clone(),
        output: agent.spec.output.as_deref().cloned(),
        limits: AgentLimits {
            model_turns: agent.limits.model_turns,
            tool_calls: agent.limits.tool_calls,
            tokens: agent.limits.tokens,
            wall_ms: agent.limits.wall_ms,
        },
        answers: agent.model.is_some(),
    }
}

fn may_see(agent: &Agent, principal: &Principal) -> bool {
    agent.spec.view.id != DIRECT_AGENT && principal.may_use_agent(&agent.spec.view.id)
}

/// List the agents that the credential may use
#[utoipa::path(get, path = "/api/v1/agents", tag = "agents", security(("key" = ["use"]), ("key" = ["read"])),
    responses((status = 200, description = "The agents", body = AgentList)))]
pub(super) async fn list(State(state): State<Shared>, principal: Principal) -> Json<AgentList> {
    let seen = state.host.agents().filter(|agent| may_see(agent, &principal));
    Json(AgentList { items: seen.map(described).collect() })
}

/// Show an agent
#[utoipa::path(get, path = "/api/v1/agents/{id}", tag = "agents", security(("key" = ["use"]), ("key" = ["read"])),
    params(("id" = String, Path, description = "The agent's id")),
    responses((status = 200, description = "The agent", body = AgentDocument)))]
pub(super) async fn one(
    State(state): State<Shared>,
    principal: Principal,
    PathParameters(id): PathParameters<String>,
) -> Result<Json<AgentDocument>, Problem> {
    state.check_agent(&principal, &id)?;
    let found = state.host.agents().find(|agent| agent.spec.view.id == id);
    found.map(|agent| Json(described(agent))).ok_or_else(|| Problem::not_found("agent"))
}
