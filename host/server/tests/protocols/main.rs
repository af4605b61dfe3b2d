//! Clients of other protocols over HTTP: OpenAI, the AI SDK, AG-UI and A2A.
#![allow(clippy::unwrap_used, clippy::panic)]

/// Makes a test with each binding of A2A, by its name in cards, of every function that is named.
macro_rules! by_both_bindings {
    ($($name:ident),* $(,)?) => {
        mod json_rpc {
            $(#[tokio::test] async fn $name() { super::$name("JSONRPC").await; })*
        }
        mod http_json {
            $(#[tokio::test] async fn $name() { super::$name("HTTP+JSON").await; })*
        }
    };
}

mod a2a;
mod ag_ui;
mod ai_sdk;
mod client;
mod costs;
mod delegate;
mod delegate_hostile;
mod errors;
mod misbehaving;
mod openai;
mod responses;
#[allow(unreachable_pub, dead_code)]
mod server;
