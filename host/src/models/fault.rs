//! What a provider does wrong, and whether asking again can help.

use super::secret::MAX_KEY_BYTES;
use std::time::Duration;
use tollgate_agent::text;

/// Bytes of a provider's words that are shown.
const MAX_MESSAGE_BYTES: usize = 2_000;
/// Bytes that are read before a secret is taken out: were the words cut first,
/// the cut could leave half of a key that is then no longer known as one.
const MAX_RAW_BYTES: usize = MAX_MESSAGE_BYTES + MAX_KEY_BYTES;

/// A reply that did not come.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelFault {
    kind: FaultKind,
    message: String,
}

/// The most calls of one reply. By default a run makes at most 256 in all.
pub const MAX_REPLY_CALLS: usize = 1_024;

/// Whether the same request may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A rate limit, an overload, a time-out, a broken stream.
    Transient {
        /// How long the provider asked to wait, where it did.
        retry_after: Option<Duration>,
    },
    /// A refusal: a wrong key, an unknown model, a request that does not fit.
    Permanent,
}

impl ModelFault {
    /// A fault that may pass. The words are cleaned and bounded.
    #[must_use]
    pub fn transient(message: &str, retry_after: Option<Duration>) -> Self {
        Self { kind: FaultKind::Transient { retry_after }, message: text::clean(message, MAX_RAW_BYTES) }
    }

    /// A fault that stays. The words are cleaned and bounded.
    #[must_use]
    pub fn permanent(message: &str) -> Self {
        Self { kind: FaultKind::Permanent, message: text::clean(message, MAX_RAW_BYTES) }
    }

    /// The fault of a reply with more than [`MAX_REPLY_CALLS`].
    pub(super) fn too_many_calls() -> Self {
        Self::permanent(&format!(
            "The reply asks for more than {MAX_REPLY_CALLS} calls, which is more than is read."
        ))
    }

    /// Whether asking again can help.
    #[must_use]
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// What happened, in the provider's words where it had any.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same fault with something said before its words.
    #[must_use]
    pub fn prefixed(self, prefix: &str) -> Self {
        Self { kind: self.kind, message: text::clean(&format!("{prefix}{}", self.message), MAX_RAW_BYTES) }
    }

    /// The same fault in other words.
    pub(super) fn reworded(self, reword: impl FnOnce(&str) -> String) -> Self {
        Self { kind: self.kind, message: text::clean(&reword(&self.message), MAX_MESSAGE_BYTES) }
    }
}
