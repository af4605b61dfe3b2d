//! The reason why a request to another server has no result.

use crate::models::causes;
use tollgate_agent::text::one_line;

/// The most bytes that are shown of the server's words.
pub(super) const MAX_SHOWN_BYTES: usize = 500;

/// The reason why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RemoteError {
    /// The server did not answer, or not with what the protocol requires.
    #[error("{0}")]
    Failed(String),
    /// The connection failed. The same request may succeed later.
    #[error("it could not be reached: {0}")]
    Broken(String),
    /// The server refused the request, with an error of the protocol. `is_unsupported` is true if it
    /// does not have the method, or not for the task in its present state.
    #[error("it refused: {words}")]
    Refused { words: String, is_unsupported: bool },
}

impl RemoteError {
    pub(super) fn malformed(why: impl AsRef<str>) -> Self {
        Self::Failed(one_line(why.as_ref(), MAX_SHOWN_BYTES))
    }

    /// The host has no memory for this part of the server's answers.
    pub(super) fn no_memory(what: &str) -> Self {
        Self::Failed(format!("there is no memory to read {what}; try again later"))
    }

    pub(super) fn broken(why: reqwest::Error) -> Self {
        Self::Broken(one_line(&causes(why), MAX_SHOWN_BYTES))
    }
}
