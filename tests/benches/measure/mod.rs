//! The two sides of every comparison: the whole governed call, as a user of the
//! library makes it, and the raw floor, which is wasmtime alone on the same bytes.

#![allow(dead_code, reason = "each bench uses its part of it")]

pub(crate) mod durable;
pub(crate) mod floor;
pub(crate) mod governed;
pub(crate) mod guests;
pub(crate) mod languages;
pub(crate) mod rounds;
pub(crate) mod waiting;

use std::path::PathBuf;

/// The program as it is installed where every microsecond counts.
pub(crate) fn program() -> PathBuf {
    let bench = std::env::current_exe().unwrap();
    let program = bench.ancestors().nth(3).unwrap().join("dist/tollgate");
    assert!(program.exists(), "build it first: cargo build --profile dist");
    program
}
