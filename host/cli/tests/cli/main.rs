//! The program as a person or a script meets it: what it prints, where, and the
//! code with which it ends.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod at_work;
mod auditing;
mod calling;
mod cancelling;
mod committing;
mod configuring;
mod delegating;
mod gating;
mod granting;
mod imitating;
mod inspecting;
mod irregular;
mod keeping;
mod limits;
mod making;
mod owning;
mod permitting;
mod place;
mod plain;
mod recovering;
mod registering;
mod replaying;
mod running;
mod serving;
mod typing;
mod waiting;
