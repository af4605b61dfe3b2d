//! The native API. Every route, and every route of a protocol, is described in the OpenAPI document
//! with the scopes that it needs, and the middleware enforces the scopes of that document, so the
//! two cannot differ.

mod agents;
mod audit;
mod calls;
mod changes;
mod document;
mod events;
mod meta;
mod pages;
mod protocol_schemas;
mod protocols;
mod questions;
mod runs;
mod scopes;
mod sessions;
mod threads;
mod tools;
mod usage;

use crate::parts::Parts;
use crate::state::Shared;
use axum::Router;
use axum::extract::{Extension, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use scopes::{RouteScopes, require_scopes};
use serde_json::Value;
use std::sync::Arc;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt as _};
use utoipa_axum::routes;

/// Returns the OpenAPI document of a server that offers these parts and whose sessions have this
/// cookie.
#[must_use]
pub fn document(parts: &Parts, cookie: &str) -> Value {
    document::completed(described(parts).into_openapi(), parts, cookie)
}

/// Returns the routes with their descriptions for the OpenAPI document.
fn described(parts: &Parts) -> OpenApiRouter<Shared> {
    let parts = Extension(parts.clone());
    OpenApiRouter::with_openapi(document::base())
        .routes(routes!(meta::root).layer(parts.clone()))
        .routes(routes!(meta::me).layer(parts))
        .routes(routes!(meta::metrics))
        .routes(routes!(meta::problem))
        .routes(routes!(agents::list))
        .routes(routes!(agents::one))
        .routes(routes!(tools::list))
        .routes(routes!(tools::one))
        .routes(routes!(tools::enable))
        .routes(routes!(calls::call))
        .routes(routes!(runs::list, runs::start))
        .routes(routes!(runs::one))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::recover))
        .routes(routes!(events::events))
        .routes(routes!(changes::changes))
        .routes(routes!(questions::list))
        .routes(routes!(questions::decide_all))
        .routes(routes!(questions::decide))
        .routes(routes!(threads::list))
        .routes(routes!(threads::one))
        .routes(routes!(threads::messages))
        .routes(routes!(threads::runs))
        .routes(routes!(threads::state))
        .routes(routes!(audit::audit))
        .routes(routes!(usage::usage))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::end))
        .routes(routes!(sessions::keys))
}

/// Returns the routes of the native API and those of the protocols, and enforces their scopes.
/// `cookie` is the name of the cookie of sessions.
pub fn router(protocols: Router<Shared>, parts: &Parts, cookie: &str) -> Router<Shared> {
    let document = document(parts, cookie);
    let scopes = Arc::new(RouteScopes::of(&document));
    let text: Arc<str> = document.to_string().into();
    let show = async move || ([(header::CONTENT_TYPE, "application/json")], text.to_string());
    let (routes, _) = described(parts).split_for_parts();
    let routes = routes.route("/openapi.json", get(show)).merge(protocols);
    routes.layer(from_fn_with_state(scopes, require_scopes))
}

/// Returns the public routes of health checks: `/healthz` answers while the process is alive, and
/// `/readyz` while it can use its store.
pub(crate) fn public_router() -> Router<Shared> {
    const TEXT: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "text/plain")];
    let ready = async |State(state): State<Shared>| match state
        .readiness
        .of(state.store(), || state.access.check().map_err(|e| e.to_string()))
        .await
    {
        true => (StatusCode::OK, TEXT, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, TEXT, "the store cannot be used\n"),
    };
    Router::new().route("/healthz", get(async || (TEXT, "ok\n"))).route("/readyz", get(ready))
}
