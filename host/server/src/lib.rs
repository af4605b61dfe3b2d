//! Tollgate over HTTP: one server on one port. It offers the native API under `/api/v1`, agent
//! protocols for existing clients, and a console for the browser.
//!
//! Every request carries the key of a principal or the cookie of a session; access is never
//! anonymous.

pub mod a2a;
pub mod ag_ui;
mod agent_runs;
pub mod ai_sdk;
pub mod api;
pub mod auth;
pub mod body;
pub mod console;
mod console_data;
mod http_guard;
mod idempotency;
mod load;
mod mcp;
pub mod openai;
pub mod operations;
mod parameters;
mod parts;
mod pricing;
pub mod problem;
mod protocol_errors;
mod pulse;
mod readiness;
mod router;
mod run_changes;
pub mod runs;
mod server;
mod sse;
mod state;
mod tool_limits;
mod written_events;

pub use auth::{AccessDatabase, Principal, Scope};
pub use console_data::OperatorData;
pub use parts::{Part, Parts};
pub use problem::Problem;
pub use router::router;
pub use server::Server;
pub use state::{ServerOptions, ServerState, Shared};
