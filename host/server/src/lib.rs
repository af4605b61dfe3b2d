//! Tollgate over HTTP: one server on one port. It offers the native API under `/api/v1`, agent
//! protocols for existing clients, and a console for the browser.
//!
//! Every request carries the key of a principal or the cookie of a session; access is never
//! anonymous.

pub mod a2a;
pub mod access;
pub mod access_audit;
pub mod ag_ui;
mod agent_runs;
pub mod ai_sdk;
pub mod api;
mod auth;
pub mod body;
pub mod console;
mod console_data;
mod event_stream;
mod http_guard;
mod idempotency;
mod load;
mod mcp;
pub mod openai;
pub mod operations;
mod operator;
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
mod scope;
mod server;
mod sign_in_rate;
mod sse;
mod state;
mod tool_limits;
mod waiting_runs;
mod written_events;

pub use access::{AccessDatabase, Principal};
pub use operator::OperatorData;
pub use parts::{Part, Parts};
pub use problem::Problem;
pub use router::router;
pub use scope::Scope;
pub use server::Server;
pub use state::{ServerOptions, ServerState, Shared};
