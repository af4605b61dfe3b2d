//! The errors of this crate: a component is refused, or a sandbox cannot be created. The result
//! of a call is neither; see [`Outcome`](tollgate_agent::outcome::Outcome).

/// The reason why a component is not loaded: a sentence for the operator that states what happened, why, and
/// if possible what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Refusal {
    sentence: String,
    /// Whether the only reason is a temporary lack of room.
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

/// The reason why a sandbox cannot be created or a grant cannot be given: a fault of the host or its
/// configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SandboxError(String);

impl SandboxError {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

/// The reason why a component could not be compiled.
#[derive(Debug)]
pub(crate) struct CompileFailure {
    /// Continues a sentence that begins with the component's name.
    pub(crate) why: String,
    pub(crate) lasts: FailureLifetime,
}

/// The time for which a failure applies to the same component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureLifetime {
    /// As long as the limits are the same.
    Always,
    /// For a while: a busy machine may have contributed.
    ForNow,
    /// The component did not cause it.
    No,
}

impl CompileFailure {
    pub(crate) fn new(why: impl Into<String>, lasts: FailureLifetime) -> Self {
        Self { why: why.into(), lasts }
    }
}
