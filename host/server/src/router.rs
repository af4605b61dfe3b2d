//! The routes of the server and their order: preflight requests, the guard of names and origins,
//! authentication, and then the parts.

use crate::auth::{authenticate, sign_in};
use crate::console;
use crate::http_guard::{guard_public, preflight};
use crate::problem::Problem;
use crate::protocol_errors::in_own_form;
use crate::state::Shared;
use crate::{a2a, ag_ui, ai_sdk, api, mcp, openai};
use axum::Router;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use std::collections::BTreeSet;
use std::str::FromStr;

/// A part of the server that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The console for the browser.
    Console,
    /// The endpoints of OpenAI's clients.
    OpenAi,
    /// The stream of the AI SDK.
    AiSdk,
    /// The Agent-User Interaction protocol.
    AgUi,
    /// The Agent2Agent protocol.
    A2a,
    /// The Model Context Protocol.
    Mcp,
}

impl Part {
    /// Every part.
    pub const ALL: [Part; 6] = [Part::Console, Part::OpenAi, Part::AiSdk, Part::AgUi, Part::A2a, Part::Mcp];

    /// Returns the part's name on the command line and in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Console => "console",
            Part::OpenAi => "openai",
            Part::AiSdk => "ai-sdk",
            Part::AgUi => "ag-ui",
            Part::A2a => "a2a",
            Part::Mcp => "mcp",
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        Part::ALL.into_iter().find(|part| part.as_str() == typed).ok_or_else(|| {
            format!("there is no part `{typed}`; known: {}", Part::ALL.map(Part::as_str).join(", "))
        })
    }
}

/// The parts that a server offers in addition to the native API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts(BTreeSet<Part>);

impl Parts {
    /// All parts.
    #[must_use]
    pub fn all() -> Self {
        Self(Part::ALL.into_iter().collect())
    }

    /// Leaves out some of them.
    #[must_use]
    pub fn without(mut self, parts: impl IntoIterator<Item = Part>) -> Self {
        for part in parts {
            self.0.remove(&part);
        }
        self
    }

    /// Returns whether the server offers a part.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        self.0.contains(&part)
    }
}

/// Returns the routes of the server.
pub fn router(state: Shared, parts: &Parts) -> Router {
    let mut public = sign_in::router().merge(console::assets_router()).merge(api::public_router());
    if parts.has(Part::A2a) {
        public = public.merge(a2a::public_router());
    }
    let public = public.layer(from_fn_with_state(state.clone(), guard_public));
    let own = mount(api::router(), &state, parts);
    let own = own
        .merge(sign_in::sign_out_router())
        .fallback(async || Problem::not_found("path; /openapi.json lists them"))
        .method_not_allowed_fallback(async || {
            let detail = "this path does not take this method; /openapi.json lists the methods";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
        })
        .layer(from_fn_with_state(state.clone(), authenticate));
    let routes = public.merge(own).layer(from_fn(in_own_form));
    routes.layer(from_fn_with_state(state.clone(), preflight)).with_state(state)
}

/// Mounts the parts that the server offers.
fn mount(routes: Router<Shared>, state: &Shared, parts: &Parts) -> Router<Shared> {
    let routers = [
        (Part::Console, Router::new().nest("/console", console::router())),
        (Part::OpenAi, openai::router()),
        (Part::AiSdk, ai_sdk::router()),
        (Part::AgUi, ag_ui::router()),
        (Part::A2a, a2a::router()),
        (Part::Mcp, mcp::router(state)),
    ];
    let offered = routers.into_iter().filter(|(part, _)| parts.has(*part));
    offered.fold(routes, |routes, (_, router)| routes.merge(router))
}
