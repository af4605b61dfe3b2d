//! The Model Context Protocol at `/mcp`: the service of `tollgate-mcp`, with the keys, scopes and
//! limits of this server.

use crate::access::Principal;
use crate::agent_runs::decide_url;
use crate::load::{self, ClientShare};
use crate::problem::Problem;
use crate::scope::Scope;
use crate::state::Shared;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures::future::{BoxFuture, FutureExt as _, TryFutureExt as _};
use std::sync::Arc;
use tollgate::config::DecisionMakers;
use tollgate::store::Store;
use tollgate_mcp::{ClientAccess, MountedClient};

/// The maximum length of a refusal that is read to become a problem document, in bytes.
const MAX_REFUSAL_BYTES: usize = 16 * 1024;

/// Returns the route of the protocol.
pub(crate) fn router(state: &Shared) -> Router<Shared> {
    let service = state.mcp.router().layer(from_fn(with_problems));
    service.layer(from_fn_with_state(Shared::clone(state), admit))
}

/// The rights of a credential.
struct CredentialAccess {
    store: Arc<dyn Store>,
    share: ClientShare,
    principal: Principal,
    may_decide: bool,
}

impl ClientAccess for CredentialAccess {
    fn may_call(&self, tool_name: &str) -> bool {
        self.principal.may_use_tool(tool_name)
    }

    fn may_run(&self, agent_id: &str) -> bool {
        self.principal.may_use_agent(agent_id)
    }

    fn may_decide(&self) -> bool {
        self.may_decide
    }

    fn admit(&self) -> BoxFuture<'_, Result<(), String>> {
        let checked = self.share.waiting().check(&*self.store, &self.principal.name);
        checked.map_err(|problem| problem.detail).boxed()
    }
}

/// Describes the client to the service.
async fn admit(
    State(state): State<Shared>,
    principal: Principal,
    Extension(share): Extension<ClientShare>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    // A GET request opens a stream that stays open.
    let stream = if request.method() == Method::GET { Some(share.stream()?) } else { None };
    let has_scope = principal.has(Scope::Decide) || principal.has(Scope::DecideAny);
    let may_decide = has_scope && state.config.decides != DecisionMakers::Others;
    let client = MountedClient {
        principal: Arc::from(principal.name.as_str()),
        calls: share.calls(),
        declined: share.declined(),
        runs: share.runs(),
        streams: share.streams(),
        bodies: share.bodies(),
        decide_url: Arc::from(decide_url(request.headers())),
        access: Arc::new(CredentialAccess { store: Arc::clone(state.store()), share, principal, may_decide }),
    };
    request.extensions_mut().insert(client);
    Ok(load::held_by(next.run(request).await, stream))
}

/// Turns refusals in plain text into problem documents. Errors of JSON-RPC stay.
async fn with_problems(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if is_json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let mut problem = problem_of(status, body).await.into_response();
    if let Some(allow) = parts.headers.get(header::ALLOW) {
        problem.headers_mut().insert(header::ALLOW, allow.clone());
    }
    problem
}

async fn problem_of(status: StatusCode, body: Body) -> Problem {
    let text = to_bytes(body, MAX_REFUSAL_BYTES).await.unwrap_or_default();
    let text = tollgate_agent::text::clean(&String::from_utf8_lossy(&text), 500);
    if status == StatusCode::INTERNAL_SERVER_ERROR {
        return Problem::internal(&text);
    }
    if status == StatusCode::FORBIDDEN {
        // The service refuses an answer to a question with it, and nothing else.
        let scope = Scope::Decide.as_str();
        return Problem::new(status, "missing_scope", text).with("scope", scope);
    }
    let code = match status {
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        StatusCode::REQUEST_TIMEOUT => "too_slow",
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported_media_type",
        StatusCode::TOO_MANY_REQUESTS => "too_many_requests",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded",
        _ => "bad_request",
    };
    let detail = if text.is_empty() { "the protocol does not allow this request".to_owned() } else { text };
    Problem::new(status, code, detail)
}
