//! The routes of the server and their order: the guard of names and origins, authentication, and then
//! the parts.

use crate::auth::{authenticate, sign_in};
use crate::console;
use crate::http_guard::{GuardState, cross_origin, guard};
use crate::parts::{Part, Parts};
use crate::problem::Problem;
use crate::state::Shared;
use crate::{a2a, ag_ui, ai_sdk, api, mcp, openai};
use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use std::any::Any;
use std::sync::Arc;
use tower_http::catch_panic::CatchPanicLayer;

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
        .layer(from_fn_with_state(Shared::clone(&state), authenticate));
    let mut routes = public.merge(own).layer(CatchPanicLayer::custom(panicked));
    if let Some(cross_origin) = cross_origin(&state.config.origins) {
        routes = routes.layer(cross_origin);
    }
    let guard_state: GuardState = (Shared::clone(&state), Arc::new(parts.clone()));
    routes.layer(from_fn_with_state(guard_state, guard)).with_state(state)
}

/// Returns the answer to a request during which the server panicked. The panic's words are in the log.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    Problem::internal(&"it panicked").into_response()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::panicked;
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;
    use tokio::net::TcpListener;
    use tower_http::catch_panic::CatchPanicLayer;

    #[tokio::test]
    async fn a_panic_is_answered() {
        #[allow(clippy::panic, reason = "it is what the layer catches")]
        async fn broken() {
            panic!("a defect")
        }
        let routes: Router = Router::new().route("/", get(broken)).layer(CatchPanicLayer::custom(panicked));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, routes).await });
        let _ = rustls::crypto::ring::default_provider().install_default();
        let answer = reqwest::get(url).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
    }
}
