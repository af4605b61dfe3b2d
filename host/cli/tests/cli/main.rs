//! Tests of the program as a person or a script uses it: its output, the streams it uses, and its
//! exit codes.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod accepting;
mod asking;
mod at_work;
mod auditing;
mod calling;
mod cancelling;
mod committing;
mod configuring;
mod delegating;
#[path = "../docker_registry/mod.rs"]
mod docker_registry;
mod first_hour;
mod full_disk;
mod gating;
mod granting;
mod imitating;
mod inspecting;
mod irregular;
mod keeping;
mod killing;
mod limits;
mod listing;
mod making;
mod owning;
mod permitting;
mod person;
mod place;
mod plain;
mod provenance;
mod publishing;
mod recovering;
mod registering;
mod registry;
mod registry_costs;
mod replaying;
mod running;
mod serving;
#[path = "../terminal/mod.rs"]
mod terminal;
mod typing;
mod waiting;
