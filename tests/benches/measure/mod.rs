//! The two sides of every comparison: the whole governed call, as a user of the
//! library makes it, and the raw floor, which is wasmtime alone on the same bytes.

#![allow(dead_code, reason = "each bench uses its part of it")]

pub(crate) mod durable;
pub(crate) mod floor;
pub(crate) mod governed;
pub(crate) mod guests;
pub(crate) mod rounds;
pub(crate) mod waiting;
