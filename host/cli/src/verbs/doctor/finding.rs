//! The findings of `tollgate doctor`.

use serde::Serialize;

/// The state of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    /// Something is missing that some users need, or something is advised.
    Note,
    Broken,
}

/// One finding, with a remedy where there is one.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    pub(super) part: &'static str,
    pub(super) name: String,
    pub(super) state: State,
    pub(super) words: String,
}

#[derive(Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn add(&mut self, part: &'static str, name: &str, state: State, words: impl Into<String>) {
        self.0.push(Finding { part, name: name.to_owned(), state, words: words.into() });
    }
}
