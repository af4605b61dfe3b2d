//! The native API over the real server: requests go through its listener, its keys and its store.
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, missing_docs)]

mod access;
mod changes;
mod connections;
mod declining;
mod disconnects;
mod every_route;
mod fixture;
mod hostile;
mod idempotency;
mod mcp;
mod routes;
mod streams;
mod tenancy;
#[allow(dead_code, reason = "writes are not counted here")]
#[path = "../../../tests/watched/mod.rs"]
mod watched;
