//! The two ways in which this crate says no: a component that is refused, and a
//! host that cannot make a sandbox. What a call comes to is neither; see
//! [`Outcome`](tollgate_agent::outcome::Outcome).

/// Why a component is not loaded: a sentence for the operator that says what
/// happened, why, and where possible what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Refusal {
    sentence: String,
    /// Whether there is only no room for it now.
    for_want_of_room: bool,
}

impl Refusal {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), for_want_of_room: false }
    }

    /// Refuses a component that may be loaded as soon as there is room for it.
    pub(crate) fn for_want_of_room(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), for_want_of_room: true }
    }

    pub(crate) fn is_for_want_of_room(&self) -> bool {
        self.for_want_of_room
    }
}

/// Why there is no sandbox, or why a grant cannot be given: the host's own fault
/// or its configuration's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SandboxError(String);

impl SandboxError {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}
