//! The two sides of every comparison: the whole governed call as a user of the library makes it,
//! and the raw floor, which is wasmtime alone on the same bytes.

#![allow(dead_code, reason = "each bench uses its part of it")]

pub(crate) mod accounting;
pub(crate) mod durable;
pub(crate) mod floor;
pub(crate) mod governed;
pub(crate) mod guests;
pub(crate) mod languages;
pub(crate) mod rounds;
pub(crate) mod waiting;

use std::path::PathBuf;

/// Returns the path of the program built with this profile, in the target directory of this
/// bench.
pub(crate) fn program(profile: &str) -> PathBuf {
    let bench = std::env::current_exe().unwrap();
    let mut places = bench.ancestors().map(|dir| dir.join(profile).join("tollgate"));
    places.find(|program| program.is_file()).expect("scripts/bench builds it first")
}
