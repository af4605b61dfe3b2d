//! Why a request to the host, or a run, failed.

use crate::store::{CommitError, Remedy, StoreError, StoreErrorKind};
use tollgate_agent::name::did_you_mean;
use tollgate_agent::schema::Violation;
use tollgate_agent::text::clean;

/// The reason why a request to the host failed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The parts do not fit together.
    #[error("{0}")]
    Setup(String),
    /// There is no such agent.
    #[error("there is no agent \"{}\"; known: {}", clean(.id, 100), .known.join(", "))]
    UnknownAgent {
        /// The id that was given.
        id: String,
        /// The ids of the agents that exist.
        known: Vec<String>,
    },
    /// No tool of this name is served.
    #[error("there is no tool \"{}\"{}", clean(.name, 100), hint(.name, .known))]
    UnknownTool {
        /// The name that was given.
        name: String,
        /// The names of the tools that are served.
        known: Vec<String>,
    },
    /// There is no run of this id.
    #[error("there is no run {}", clean(.0, 100))]
    UnknownRun(String),
    /// No call or question of this id ever waited for a decision in the run.
    #[error("no call or suspension {} of this run waits for a decision", clean(.0, 100))]
    UnknownQuestion(String),
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
    /// Another run of the thread is active. [`Busy::Queue`](crate::Busy) waits for it.
    #[error("the thread {0} is busy with another run; wait for it, or queue")]
    Busy(String),
    /// A run of the thread was interrupted. It was recovered and now waits for a person. The
    /// message that was to follow it was not sent.
    #[error(
        "the run {0} of this thread was interrupted; it now waits for a decision, and the message was not sent"
    )]
    Waiting(String),
    /// There is no room for more records: a limit of the store, or the disk.
    #[error("the store is full: {0}")]
    StoreFull(StoreError),
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
            StoreErrorKind::Full => Self::StoreFull(why),
            _ => why.into(),
        }
    }

    /// Returns a step by which an operator can resolve the error; `None` if the message says all.
    #[must_use]
    pub fn remedy(&self) -> Option<&Remedy> {
        match self {
            Self::Store(why) | Self::StoreFull(why) => why.remedy(),
            Self::Run(why) => why.remedy(),
            _ => None,
        }
    }
}

/// Returns the suggestion of a known tool whose name is near.
fn hint(name: &str, known: &[String]) -> String {
    did_you_mean(name, known.iter().map(String::as_str)).unwrap_or_default()
}

impl From<StoreError> for HostError {
    fn from(error: StoreError) -> Self {
        match error.unknown_run_id() {
            Some(run_id) => Self::UnknownRun(run_id.to_owned()),
            None => Self::Store(error),
        }
    }
}

impl From<CommitError> for HostError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Failed(error) => error.into(),
            rejected => RunError::not_stored(&rejected.into(), UnrecordedEffect::Unknown).into(),
        }
    }
}

impl From<HostError> for RunError {
    fn from(error: HostError) -> Self {
        let effect = UnrecordedEffect::Unknown;
        match error {
            HostError::Run(error) => error,
            HostError::Store(why) => Self::not_stored(&why, effect),
            HostError::StoreFull(ref why) => {
                Self { words: error.to_string(), ..Self::not_stored(why, effect) }
            }
            error => Self::new(error.to_string()),
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
    remedy: Option<Remedy>,
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
        let (kind, effect) = (StoreErrorKind::Other, UnrecordedEffect::Unknown);
        Self { words: words.into(), kind, effect, remedy: None }
    }

    /// Creates the error of a run whose record cannot be followed.
    pub(crate) fn of_record(run_id: &str, why: &dyn std::fmt::Display) -> Self {
        Self::new(why.to_string()).with_remedy(Remedy::ShowRun(run_id.to_owned()))
    }

    /// Adds a step that resolves the error.
    pub(crate) fn with_remedy(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Creates the error of a run whose events the store did not take.
    pub(crate) fn not_stored(why: &StoreError, effect: UnrecordedEffect) -> Self {
        Self { words: why.to_string(), kind: why.kind(), effect, remedy: why.remedy().cloned() }
    }

    /// Returns the kind of the store's failure; [`StoreErrorKind::Other`] if the store did not fail.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns a step by which an operator can resolve the error; `None` if the message says all.
    #[must_use]
    pub fn remedy(&self) -> Option<&Remedy> {
        self.remedy.as_ref()
    }

    /// Returns the unrecorded effect of the run's tools.
    #[must_use]
    pub fn effect(&self) -> UnrecordedEffect {
        self.effect
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_run_keeps_the_remedy_of_its_cause() {
        let full = StoreError::full("the disk is full").with_remedy(Remedy::MakeRoom);
        for error in [HostError::StoreFull(full.clone()), HostError::Store(full.clone())] {
            let (words, error) = (error.to_string(), RunError::from(error));
            assert_eq!((error.to_string(), error.remedy()), (words, Some(&Remedy::MakeRoom)));
            assert_eq!(error.kind(), StoreErrorKind::Full);
            assert_eq!(HostError::from(error).remedy(), Some(&Remedy::MakeRoom));
        }
    }
}
