//! Clients of other protocols over HTTP: OpenAI, the AI SDK, AG-UI and A2A.
#![allow(clippy::unwrap_used, clippy::panic)]

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
