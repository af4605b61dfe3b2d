//! Tests of loading: from a file to a tool that can be called, compiled in a separate process and
//! kept for the next start.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod bounds;
mod compiling;
mod confining;
mod deciding;
mod documented;
mod foreign;
mod limits;
mod owners;
mod plain;
mod recorded;
mod reloading;
mod swapping;
mod versions;
