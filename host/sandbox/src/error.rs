//! The two ways in which this crate says no: a component that is refused, and a
//! host that cannot make a sandbox. What a call comes to is neither; see
//! [`Outcome`](tollgate_agent::outcome::Outcome).

/// Why a component is not loaded: a sentence for the operator that says what
/// happened, why, and where possible what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Refusal {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
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
