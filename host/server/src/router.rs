//! The routes of the server and their order: the guard of names and origins, authentication, and then
//! the parts.

use crate::auth::{authenticate, sign_in};
use crate::console;
use crate::http_guard::{GuardState, guard_public};
use crate::parts::{Part, Parts};
use crate::problem::Problem;
use crate::state::Shared;
use crate::{a2a, ag_ui, ai_sdk, api, mcp, openai};
use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::Redirect;
use axum::routing::get;
use std::sync::Arc;

/// Returns the routes of the server.
pub fn router(state: Shared, parts: &Parts) -> Router {
    let mut public = sign_in::router().merge(console::assets_router()).merge(api::public_router());
    if parts.has(Part::A2a) {
        public = public.merge(a2a::public_router());
    }
    if parts.has(Part::Console) {
        let to_console = || get(async || Redirect::to("/console"));
        public = public.route("/", to_console()).route("/console/", to_console());
    }
    let guard: GuardState = (Shared::clone(&state), Arc::new(parts.clone()));
    let public = public.layer(from_fn_with_state(guard.clone(), guard_public));
    let mut own =
        api::router(protocols(&state, parts), parts, &state.cookie_name()).merge(sign_in::sign_out_router());
    if parts.has(Part::Console) {
        own = own.nest("/console", console::router());
    }
    let own = own
        .fallback(async || Problem::not_found("path; /openapi.json lists them"))
        .method_not_allowed_fallback(async || {
            let detail = "this path does not take this method; /openapi.json lists the methods";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
        })
        .layer(from_fn_with_state(guard, authenticate));
    public.merge(own).with_state(state)
}

/// Returns the routes of the protocols that the server offers.
fn protocols(state: &Shared, parts: &Parts) -> Router<Shared> {
    let routers = [
        (Part::OpenAi, openai::router()),
        (Part::AiSdk, ai_sdk::router()),
        (Part::AgUi, ag_ui::router()),
        (Part::A2a, a2a::router()),
        (Part::Mcp, mcp::router(state)),
    ];
    let offered = routers.into_iter().filter(|(part, _)| parts.has(*part));
    offered.fold(Router::new(), |routes, (_, router)| routes.merge(router))
}
