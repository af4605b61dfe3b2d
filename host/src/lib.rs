//! Tollgate runs agent tools that nobody has to trust.

mod builtin;
pub mod config;
pub mod gates;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod model;
pub mod plugin;
pub mod powers;
pub mod tools;

mod host;
pub mod replay;
pub mod run;
pub mod store;

pub use host::{Agent, Busy, CallRequest, DIRECT_AGENT, Host, HostBuilder, HostError, RunRequest};
