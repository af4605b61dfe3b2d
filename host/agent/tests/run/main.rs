//! Tests of the state machine of runs, driven in a scripted world as a host drives it.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod calls;
mod cancelling;
mod children;
mod counting;
mod deciding;
mod gates;
mod handing;
mod hooks;
mod invariants;
mod pairs;
mod random;
mod replay;
mod restart;
mod state;
mod time;
mod tools;
mod turns;
mod world;
