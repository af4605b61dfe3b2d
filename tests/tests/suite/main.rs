//! Tests of the whole of Tollgate, from the outside.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub)]

mod covered;
mod gates;
mod hostile;
mod parsing;
mod plain;
mod powers;
mod promises;
mod rig;
mod soak;
