//! Tests of the program as clients of the Model Context Protocol use it: raw lines over the real
//! program's streams, requests over HTTP, and rmcp's own client.

#![cfg(feature = "mcp")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod alive;
mod asking;
#[path = "../cli/at_work.rs"]
mod at_work;
mod attacks;
mod calls;
mod host_cost;
mod http;
mod http_clients;
mod http_tour;
mod machine;
#[allow(dead_code, reason = "what these tests do not need of it, those of the command line do")]
#[path = "../cli/place.rs"]
mod place;
mod raw;
mod remote;
mod remote_bounds;
mod remote_content;
mod remote_failures;
mod remote_http;
mod remote_life;
mod remote_versions;
mod sdk;
mod shutdown;
mod versions;
