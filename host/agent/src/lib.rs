//! Decides what happens next in an agent run, and whether it may happen.
//!
//! This crate is the pure half of Tollgate: types and decisions, without clocks, files, threads or
//! wasm. All input arrives as arguments, and every requested effect is a returned value.
//!
//! A call passes through a type for each stage: [`message::ModelCall`] is the call as the model
//! wrote it, [`proposal::Proposal`] a known tool with arguments that fit its schema,
//! [`gate::Permit`] a call that the gates allowed, and [`outcome::Outcome`] its result.

/// The type of ids and names. Every event repeats them, and cloning one is cheap.
pub use smol_str::{SmolStr, format_smolstr};

pub mod agents;
pub mod backend;
pub mod catalog;
pub mod child;
pub mod code;
pub mod composition;
pub mod content;
pub mod context;
pub mod descriptor;
pub mod digest;
pub mod egress;
pub mod gate;
pub mod health;
pub mod history;
pub mod hook;
pub mod json;
pub mod limit_places;
pub mod message;
pub mod name;
pub mod outcome;
pub mod prompt;
pub mod proposal;
pub mod question;
pub mod recorded_inputs;
pub mod redact;
pub mod remote;
pub mod run;
pub mod schema;
pub mod state;
pub mod surface;
pub mod text;
pub mod text_calls;
