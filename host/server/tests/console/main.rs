//! The console over HTTP: a real server, host and store; only the model is scripted.

#![allow(clippy::unwrap_used, clippy::panic)]

mod access;
mod decisions;
mod inbox;
mod pages;
mod server;
