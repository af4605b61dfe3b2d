//! Runs, calls, gates, grants and limits as text for a person.

pub(crate) mod attachments;
pub(crate) mod example;
pub(crate) mod gates;
pub(crate) mod limits;
pub(crate) mod narrate;
pub(crate) mod powers;
pub(crate) mod provenance;
mod run_lines;
pub(crate) mod timeline;
