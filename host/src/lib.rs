//! Tollgate runs agent tools that nobody has to trust.

pub mod model;
pub mod tools;
