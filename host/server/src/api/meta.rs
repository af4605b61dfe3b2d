//! The server itself: who asks, metrics, and the meanings of problems.

use crate::access::Principal;
use crate::parameters::PathParameters;
use crate::parts::{Part, Parts};
use crate::problem::{CODES, Problem};
use crate::state::Shared;
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate::metrics::CONTENT_TYPE;
use utoipa::ToSchema;

/// The server and the credential of the request.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Me {
    /// The version of the server.
    version: &'static str,
    /// The principal.
    principal: String,
    /// The scopes of the credential.
    scopes: Vec<String>,
    /// The agents that it may use, as patterns with `*`; all if empty.
    agents: Vec<String>,
    /// The tools that it may call, as patterns with `*`; all if empty.
    tools: Vec<String>,
    /// The parts that the server offers beside this API: `console`, and protocols such as `openai`.
    protocols: Vec<&'static str>,
}

fn answer(principal: Principal, parts: &Parts) -> Json<Me> {
    Json(Me {
        protocols: Part::ALL.into_iter().filter(|part| parts.has(*part)).map(Part::as_str).collect(),
        version: env!("CARGO_PKG_VERSION"),
        scopes: principal.scopes.iter().map(ToString::to_string).collect(),
        principal: principal.name,
        agents: principal.agents,
        tools: principal.tools,
    })
}

/// Show the server and the credential
#[utoipa::path(get, path = "/api/v1", tag = "server", security(("key" = [])),
    responses((status = 200, description = "The server's version and the credential", body = Me)))]
pub(super) async fn root(principal: Principal, Extension(parts): Extension<Parts>) -> Json<Me> {
    answer(principal, &parts)
}

/// Show the credential's principal and scopes
#[utoipa::path(get, path = "/api/v1/me", tag = "server", security(("key" = [])),
    responses((status = 200, description = "The principal and what it may do", body = Me)))]
pub(super) async fn me(principal: Principal, Extension(parts): Extension<Parts>) -> Json<Me> {
    answer(principal, &parts)
}

/// Show the metrics of the process in the OpenMetrics format
#[utoipa::path(get, path = "/metrics", tag = "server", security(("key" = ["metrics"])),
    responses((status = 200, description = "The metrics", body = String, content_type = "application/openmetrics-text")))]
pub(super) async fn metrics(State(state): State<Shared>) -> Result<Response, Problem> {
    let Some(metrics) = &state.metrics else {
        return Err(Problem::not_found("path; this process has no metrics"));
    };
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], metrics.text(&state.host)).into_response())
}

/// The meaning of a problem's code.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Meaning {
    /// The code.
    code: &'static str,
    /// Its meaning and the remedy.
    meaning: &'static str,
}

/// Explain the code of a problem
#[utoipa::path(get, path = "/problems/{code}", tag = "server", security(("key" = [])),
    params(("code" = String, Path, description = "The code of a problem")),
    responses((status = 200, description = "The meaning of the code", body = Meaning)))]
pub(super) async fn problem(PathParameters(code): PathParameters<String>) -> Result<Json<Meaning>, Problem> {
    let known = CODES.iter().find(|(known, _)| *known == code);
    known.map(|&(code, meaning)| Json(Meaning { code, meaning })).ok_or_else(|| Problem::not_found("code"))
}
