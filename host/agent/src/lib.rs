//! What happens next in an agent run, and may it?
//!
//! This crate is the pure half of Tollgate: words and decisions, without clocks,
//! files, threads or wasm. Everything that it needs from the world is an
//! argument, and everything that it wants from the world is a value.
//!
//! A call goes from type to type as it is checked: [`message::ModelCall`] is what
//! a model wrote, [`proposal::Proposal`] is a known tool with arguments that fit
//! its schema, [`gate::Permit`] is what the gates let through, and
//! [`outcome::Outcome`] is what came of it.

/// The text of ids and names, which every event repeats: to clone one is cheap.
pub use smol_str::{SmolStr, format_smolstr};

pub mod backend;
pub mod catalog;
pub mod child;
pub mod code;
pub mod composition;
pub mod context;
pub mod descriptor;
pub mod egress;
pub mod gate;
pub mod health;
pub mod history;
pub mod hook;
pub mod json;
pub mod message;
pub mod name;
pub mod outcome;
pub mod prompt;
pub mod proposal;
pub mod question;
pub mod recorded_inputs;
pub mod redact;
pub mod run;
pub mod schema;
pub mod state;
pub mod surface;
pub mod text;
pub mod text_calls;
