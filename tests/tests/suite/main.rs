//! The whole of Tollgate, from the outside.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub)]

mod gates;
mod hostile;
mod plain;
mod powers;
mod rig;
mod soak;
