//! Tollgate over HTTP: one server on one port. It offers the native API under `/api/v1`, agent
//! protocols for existing clients, and a console for the browser.
//!
//! Every request carries the key of a principal or the cookie of a session; access is never
//! anonymous.

pub mod auth;
pub mod problem;

use std::sync::Arc;
use tollgate::Host;

pub use auth::{Principal, Scope};
pub use problem::Problem;

/// The state that every route uses.
pub struct ServerState {
    /// Runs agents and calls tools.
    pub host: Host,
}

/// The state, shared by the routes.
pub type Shared = Arc<ServerState>;
