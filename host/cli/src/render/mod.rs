//! Runs, calls, gates, grants and limits as text for a person.

pub(crate) mod attachments;
mod event_words;
pub(crate) mod example;
pub(crate) mod gates;
pub(crate) mod limits;
pub(crate) mod narrate;
pub(crate) mod powers;
pub(crate) mod provenance;
pub(crate) mod timeline;
pub(crate) mod usage;
