//! Why a request to the host, or a run, failed.

use crate::store::{CommitError, StoreError, StoreErrorKind};
use tollgate_agent::schema::Violation;

/// The reason why a request to the host failed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The parts do not fit together.
    #[error("{0}")]
    Setup(String),
    /// The request names something that does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The question was answered before.
    #[error("{0}")]
    AlreadyDecided(String),
    /// The answer does not fit the question's schema.
    #[error("{message}")]
    DoesNotFit {
        /// The problem, as text.
        message: String,
        /// The places that do not fit.
        violations: Vec<Violation>,
    },
    /// The run has ended.
    #[error("the run {0} has ended; start another one")]
    AlreadyEnded(String),
    /// Another process drives the run.
    #[error("another process carries the run {0}; send the request there, or wait")]
    OwnedElsewhere(String),
    /// The request cannot be accepted for another reason.
    #[error("{0}")]
    Refused(String),
    /// Another run of the thread is active.
    #[error("the thread {0} is busy with another run; wait for it, or queue (--queue)")]
    Busy(String),
    /// A run of the thread was interrupted. It was recovered and now waits for a person. The
    /// message that was to follow it was not sent.
    #[error(
        "the run {0} of this thread was interrupted; it now waits for a decision, and the message was not sent"
    )]
    Waiting(String),
    /// There is no room for more records: a limit of the store, or the disk.
    #[error("the store is full: {0}")]
    StoreFull(String),
    /// There is no memory for the request now. It may be sent again later.
    #[error("{0}")]
    Overloaded(String),
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// A run could not be continued.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl HostError {
    /// Returns the error for a run or call that the store does not admit.
    pub(crate) fn not_admitted(why: StoreError) -> Self {
        match why.kind() {
            StoreErrorKind::Full => Self::StoreFull(why.to_string()),
            _ => why.into(),
        }
    }
}

impl From<StoreError> for HostError {
    fn from(error: StoreError) -> Self {
        match error.kind() {
            StoreErrorKind::UnknownRun => Self::NotFound(error.to_string()),
            _ => Self::Store(error),
        }
    }
}

impl From<CommitError> for HostError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Failed(error) => error.into(),
            rejected => RunError::new(rejected.to_string()).into(),
        }
    }
}

/// An error that keeps the host from continuing a run, as a sentence for the operator.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{words}")]
pub struct RunError {
    words: String,
    kind: StoreErrorKind,
    effect: UnrecordedEffect,
}

/// The effect of the tools of a run that could not be continued, as far as it has no record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnrecordedEffect {
    /// No tool is affected, or this is not known.
    #[default]
    Unknown,
    /// No tool has run, because its start could not be recorded.
    NothingRan,
    /// A tool that may not run twice has run, and the record of it is lost.
    Ran,
}

impl RunError {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), kind: StoreErrorKind::Other, effect: UnrecordedEffect::Unknown }
    }

    /// Creates the error of a run whose events the store did not take.
    pub(crate) fn not_stored(why: &StoreError, effect: UnrecordedEffect) -> Self {
        Self { words: why.to_string(), kind: why.kind(), effect }
    }

    /// Returns the kind of the store's failure; [`StoreErrorKind::Other`] if the store did not fail.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns the unrecorded effect of the run's tools.
    #[must_use]
    pub fn effect(&self) -> UnrecordedEffect {
        self.effect
    }
}
