//! `GET /v1/models`: the agents that the key may use.

use super::OpenAiError;
use crate::Shared;
use crate::agent_runs::{AgentRuns, Caller};
use crate::parameters::PathParameters;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use tollgate::Agent;

/// Lists the agents.
pub(super) async fn list(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
) -> Result<Json<Value>, OpenAiError> {
    let principal = principal?;
    let models: Vec<Value> = AgentRuns::new(&state, &principal).agents().map(model).collect();
    Ok(Json(json!({"object": "list", "data": models})))
}

/// Returns one agent.
pub(super) async fn one(
    State(state): State<Shared>,
    principal: Result<Caller, Problem>,
    PathParameters(id): PathParameters<String>,
) -> Result<Json<Value>, OpenAiError> {
    let principal = principal?;
    let agent = AgentRuns::new(&state, &principal).agent(&id).map_err(unknown_model)?;
    Ok(Json(model(agent)))
}

/// Returns the error for an agent that does not exist for this key.
pub(super) fn unknown_model(problem: Problem) -> OpenAiError {
    let code = if problem.code == "not_found" { "model_not_found" } else { problem.code };
    OpenAiError::from(problem).with_code(code)
}

fn model(agent: &Agent) -> Value {
    // An agent has no date; clients require one.
    json!({"id": agent.spec.view.id, "object": "model", "created": 0, "owned_by": "tollgate"})
}
