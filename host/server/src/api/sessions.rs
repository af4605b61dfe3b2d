//! Sessions and keys, without their secrets.

use crate::access::{KeySummary, Principal, SessionSummary};
use crate::access_audit::end_session;
use crate::parameters::PathParameters;
use crate::problem::Problem;
use crate::scope::Scope;
use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

/// A list of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionList {
    /// The sessions, oldest first.
    items: Vec<SessionSummary>,
}

/// A list of keys.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyList {
    /// The keys, oldest first.
    items: Vec<KeySummary>,
}

/// Returns the sessions that the principal may see.
async fn sessions(state: &Shared, principal: &Principal) -> Result<Vec<SessionSummary>, Problem> {
    let shared = Shared::clone(state);
    let found = tokio::task::spawn_blocking(move || shared.access.sessions()).await;
    let mut found = found.map_err(|e| Problem::internal(&e))?.map_err(|e| Problem::internal(&e))?;
    found.retain(|session| session.name == principal.name || principal.has(Scope::Operate));
    Ok(found)
}

/// List one's own sessions, or all with the scope `operate`
#[utoipa::path(get, path = "/api/v1/sessions", tag = "access", security(("key" = [])),
    responses((status = 200, description = "The sessions", body = SessionList)))]
pub(super) async fn list(
    State(state): State<Shared>,
    principal: Principal,
) -> Result<Json<SessionList>, Problem> {
    Ok(Json(SessionList { items: sessions(&state, &principal).await? }))
}

/// End a session of one's own, or any with the scope `operate`
#[utoipa::path(delete, path = "/api/v1/sessions/{id}", tag = "access", security(("key" = [])),
    params(("id" = String, Path, description = "The session's public id")),
    responses((status = 204, description = "The session has ended")))]
pub(super) async fn end(
    State(state): State<Shared>,
    principal: Principal,
    PathParameters(id): PathParameters<String>,
) -> Result<StatusCode, Problem> {
    let visible = sessions(&state, &principal).await?;
    let found = visible.iter().find(|session| session.id == id);
    let session = found.ok_or_else(|| Problem::not_found("session"))?;
    end_session(&state, &principal.name, &session.id, &session.name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the keys, without their secrets
#[utoipa::path(get, path = "/api/v1/keys", tag = "access", security(("key" = ["operate"])),
    responses((status = 200, description = "The keys", body = KeyList)))]
pub(super) async fn keys(State(state): State<Shared>) -> Result<Json<KeyList>, Problem> {
    let shared = Shared::clone(&state);
    let found = tokio::task::spawn_blocking(move || shared.access.keys()).await;
    let items = found.map_err(|e| Problem::internal(&e))?.map_err(|e| Problem::internal(&e))?;
    Ok(Json(KeyList { items }))
}
