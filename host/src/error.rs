//! Why a request to the host, or a run, failed.

use crate::store::{CommitError, Remedy, StoreError, StoreErrorKind};
use std::time::Duration;
use tollgate_agent::descriptor::DescriptorError;
use tollgate_agent::name::did_you_mean;
use tollgate_agent::run::{Decision, InputRefusal};
use tollgate_agent::schema::Violation;
use tollgate_agent::text::clean;

/// The reason why a request to the host failed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The parts do not fit together.
    #[error(transparent)]
    Setup(#[from] SetupError),
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
    #[error("{message}")]
    AlreadyDecided {
        /// The problem, as text.
        message: String,
        /// The id of the call or question that the late decision named.
        target: String,
        /// The decision that was made, with its time and principal; `None` if the question ended
        /// without one, or if it is not known here.
        decision: Option<Box<Decision>>,
    },
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
    #[error("another process drives the run {0}; send the request there, or wait")]
    OwnedElsewhere(String),
    /// The request cannot be accepted for another reason.
    #[error(transparent)]
    Refused(#[from] RequestRefusal),
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
    #[error("{message}")]
    Overloaded {
        /// The problem, as text.
        message: String,
        /// The limit on the memory of all calls and runs, in bytes.
        memory_budget_bytes: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// A run could not be continued.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// The reason why the parts of a host do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The id of an agent or a gate is not an id.
    #[error("the id \"{0}\" does not fit [a-z][a-z0-9-]{{0,63}}")]
    InvalidId(String),
    /// Two gates have this id.
    #[error("two gates have the id \"{0}\"")]
    DuplicateGate(String),
    /// An agent cannot be run as it is described.
    #[error("the agent \"{id}\" {problem}")]
    Agent {
        /// The agent's id.
        id: String,
        /// The problem, which continues a sentence that begins with the agent.
        problem: String,
    },
    /// The time limit of hooks is out of its bounds.
    #[error("the time limit of a hook is {0:?}; 1 ms to 5 minutes are accepted")]
    HookTimeout(Duration),
    /// The name of a plugin is not an id, or is reserved.
    #[error(
        "the plugin's name \"{}\" does not fit [a-z][a-z0-9-]{{0,63}}, or is reserved (host, tollgate)",
        clean(.0, 100)
    )]
    PluginName(String),
    /// Two plugins define the same part.
    #[error(
        "the plugins \"{}\" and \"{}\" both define the {kind} \"{name}\"{}; install one of the two",
        .plugins[0], .plugins[1], looks_like(.name, .other_name)
    )]
    PluginConflict {
        /// The names of the plugins.
        plugins: [String; 2],
        /// The kind of the part, such as `tool` or `state key`.
        kind: &'static str,
        /// The part's name in the first plugin.
        name: String,
        /// Its name in the second plugin, which may only look like the other.
        other_name: String,
    },
    /// Tools or state keys cannot be added.
    #[error(transparent)]
    Tools(#[from] DescriptorError),
}

/// The reason why a request to the host is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestRefusal {
    /// The backend of the agent lacks capabilities that the request needs.
    #[error("the backend of the agent {agent_id} does not support this request: {}", .lacking.join(", "))]
    BackendLacks {
        /// The agent's id.
        agent_id: String,
        /// The capabilities.
        lacking: Vec<String>,
    },
    /// The run is the child of a call, and is controlled through that call.
    #[error("the run belongs to the call {call_id} of the run {parent_run_id}; decide or recover that one")]
    BelongsToCall {
        /// The id of the call.
        call_id: String,
        /// The id of the run that made the call.
        parent_run_id: String,
    },
    /// A history was sent for a thread that has messages already.
    #[error("the thread has messages already; send a history only with a new thread")]
    ThreadHasMessages(String),
    /// The run with this id does not wait for a message.
    #[error("the run {0} does not wait for a message")]
    NotWaiting(String),
    /// The run does not accept the input.
    #[error(transparent)]
    Input(InputRefusal),
}

impl HostError {
    /// Returns the error for a run or call that the store does not admit.
    pub(crate) fn not_admitted(why: StoreError) -> Self {
        match why.kind() {
            StoreErrorKind::Full => Self::StoreFull(why),
            _ => why.into(),
        }
    }

    /// Returns a step by which an operator can resolve the error; `None` if the message is complete.
    #[must_use]
    pub fn remedy(&self) -> Option<&Remedy> {
        match self {
            Self::Store(why) | Self::StoreFull(why) => why.remedy(),
            Self::Run(why) => why.remedy(),
            _ => None,
        }
    }
}

/// Returns a remark about a name that is not the other, but looks like it.
fn looks_like(name: &str, other: &str) -> String {
    if name == other { String::new() } else { format!(" (\"{other}\" looks like it)") }
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

    /// Returns a step by which an operator can resolve the error; `None` if the message is complete.
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
