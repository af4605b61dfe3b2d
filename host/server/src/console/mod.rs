//! The console: pages for a browser, rendered on the server and complete without JavaScript.
//!
//! All text of models, tools, components and other people is shown as text: no markup, no links,
//! no images. A strict content security policy on every answer enforces the same in the browser.

mod access;
mod agents;
mod assets;
mod audit;
mod cache;
mod chart;
mod codes;
mod conversation;
mod data;
mod decide;
mod document;
mod failure;
mod filters;
mod form;
mod form_fields;
mod fragment;
mod layout;
mod live;
mod nav;
mod open_questions;
mod overview;
mod playground;
mod question;
mod run;
mod run_facts;
mod run_parts;
mod runs;
mod sign_in;
mod text;
mod threads;
mod timeline;
mod tools;
mod usage;
mod viewer;
mod waiting;

pub use crate::operator::{CallLimits, ComponentFacts, HostFacts};
pub use crate::pricing::Price;
pub use data::{ConsoleData, KeyRow, SessionRow};
pub(crate) use form::Entries;
pub use sign_in::{SIGN_IN_PATH, session_ended_page, sign_in_page};
pub(crate) use text::href;

use crate::Shared;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router, middleware};
use std::sync::Arc;

/// The path to which the console sends the request to sign out, as a POST.
pub const SIGN_OUT_PATH: &str = "/sign-out";

/// The content security policy of every answer of the console.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The maximum size of a form's entries, in bytes.
const MAX_FORM_BYTES: usize = 256 * 1024;

/// Returns the routes of the console, to be mounted at `/console` behind the middleware that puts
/// a [`Principal`](crate::Principal) into each request, and optionally an `Arc<dyn ConsoleData>`.
pub fn router() -> Router<Shared> {
    Router::new()
        .route("/", get(overview::page))
        .route("/waiting", get(waiting::list))
        .route("/waiting/{run}", get(waiting::one))
        .route("/runs", get(runs::list))
        .route("/runs/{run}", get(run::page))
        .route("/runs/{run}/events/{number}", get(run::event))
        .route("/runs/{run}/decide", post(decide::decide))
        .route("/runs/{run}/cancel", post(decide::cancel))
        .route("/threads", get(threads::list))
        .route("/thread", get(threads::one))
        .route("/tools", get(tools::list))
        .route("/tools/{tool}", get(tools::one).post(tools::call))
        .route("/tools/{tool}/enable", post(tools::enable))
        .route("/agents", get(agents::list))
        .route("/usage", get(usage::page))
        .route("/audit", get(audit::page))
        .route("/playground", get(playground::page).post(playground::send))
        .route("/access", get(access::page))
        .route("/access/sessions/{id}/end", post(access::end_session))
        .route("/codes/{code}", get(codes::page))
        .route("/live", get(live::stream))
        .fallback(|| async { failure::Failure::missing("page") })
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
        .layer(Extension(Arc::new(cache::Cache::default())))
        .layer(middleware::map_response(protect))
}

/// Returns the routes of the stylesheet, the script and the icon, with their whole paths. They need
/// no principal: the page to sign in on loads them.
pub fn assets_router() -> Router<Shared> {
    Router::new()
        .route("/console/assets/{digest}/{name}", get(assets::serve))
        .layer(middleware::map_response(protect))
}

/// Adds the headers that protect every answer; the page to sign in on needs them as well.
pub async fn protect(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::REFERRER_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
