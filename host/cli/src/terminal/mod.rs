//! Terminal output: answers, errors and exit codes.

pub(crate) mod exit;
pub(crate) mod output;
pub(crate) mod quantity;
pub(crate) mod remedy;
pub(crate) mod table;
pub(crate) mod text;

pub(crate) use exit::{Exit, Failure};
pub(crate) use output::Output;
pub(crate) use remedy::program;
