//! Faults of providers, whether a retry can help, and the limits of replies.

use super::secret::MAX_KEY_BYTES;
use std::time::Duration;
use tollgate_agent::text;

/// The maximum number of calls in one reply. By default a run makes at most 256 in all.
pub const MAX_REPLY_CALLS: usize = 1_024;
/// The maximum number of bytes read of one streamed reply.
pub const MAX_REPLY_BYTES: usize = 32 * 1024 * 1024;
/// The maximum number of bytes read of one event of a stream, or of one line of a stream without
/// events. Whole replies are shorter.
pub const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;
/// The maximum number of bytes that the parsed form of one event may take. Each event is parsed as a
/// whole, and small values take up to a hundred times as much memory as text.
pub const MAX_EVENT_PARSED_BYTES: u64 = 32 * 1024 * 1024;
/// The maximum number of bytes shown of a provider's message.
const MAX_MESSAGE_BYTES: usize = 2_000;
/// The number of bytes read before secrets are removed. If the message were cut to its final
/// length first, half a key could remain that is no longer recognized as one.
const MAX_RAW_BYTES: usize = MAX_MESSAGE_BYTES + MAX_KEY_BYTES;

/// The reason why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelFault {
    kind: FaultKind,
    message: String,
}

/// The kind of a fault, by whether the same request may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A rate limit, an overload, a timeout, or a broken stream.
    Transient {
        /// How long the provider asked to wait, if it did.
        retry_after: Option<Duration>,
    },
    /// A refusal, such as for a wrong key, an unknown model, or an invalid request.
    Permanent,
}

impl ModelFault {
    /// Creates a transient fault. The message is sanitized and truncated.
    #[must_use]
    pub fn transient(message: &str, retry_after: Option<Duration>) -> Self {
        Self { kind: FaultKind::Transient { retry_after }, message: text::clean(message, MAX_RAW_BYTES) }
    }

    /// Creates a permanent fault. The message is sanitized and truncated.
    #[must_use]
    pub fn permanent(message: &str) -> Self {
        Self { kind: FaultKind::Permanent, message: text::clean(message, MAX_RAW_BYTES) }
    }

    /// Returns the fault of a reply with more than [`MAX_REPLY_CALLS`].
    pub(super) fn too_many_calls() -> Self {
        Self::permanent(&format!("The reply asks for more than {MAX_REPLY_CALLS} calls, which is the limit."))
    }

    /// Returns the kind, which states whether a retry can help.
    #[must_use]
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// Returns the message, which quotes the provider's words if it sent any.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the fault with a prefix before its message.
    #[must_use]
    pub fn prefixed(self, prefix: &str) -> Self {
        Self { kind: self.kind, message: text::clean(&format!("{prefix}{}", self.message), MAX_RAW_BYTES) }
    }

    /// Returns the fault with another message.
    #[cfg(feature = "providers")]
    pub(super) fn reworded(self, reword: impl FnOnce(&str) -> String) -> Self {
        Self { kind: self.kind, message: text::clean(&reword(&self.message), MAX_MESSAGE_BYTES) }
    }
}
