//! Tollgate over HTTP: one server on one port. It offers the native API under `/api/v1`, agent
//! protocols for clients that exist already, and a console for the browser.
//!
//! Every request carries the key of a principal or the cookie of a session; access is never
//! anonymous.

pub mod a2a;
pub mod ag_ui;
mod agent_runs;
pub mod ai_sdk;
pub mod auth;
pub mod openai;
pub mod problem;

use std::sync::Arc;
use tollgate::Host;

pub use auth::{Principal, Scope};
pub use problem::Problem;

/// What every route of the server works with.
pub struct ServerState {
    /// Runs agents and calls tools.
    pub host: Host,
}

/// The state as the routes share it.
pub type Shared = Arc<ServerState>;
