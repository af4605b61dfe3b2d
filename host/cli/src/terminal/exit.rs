//! The exit codes of the program, and its failures.

use crate::terminal::remedy::{program, with_command};
use crate::terminal::text::shown_marked;
use tollgate::HostError;
use tollgate::config::{ConfigError, EditError};
use tollgate::gates::GatesRefusal;
use tollgate::grants::{ApprovalsError, ChangeableSource};
use tollgate::run::RunError;
use tollgate::store::{StoreError, StoreErrorKind};
use tollgate::tools::directory::DirectoryError;
use tollgate_agent::name::did_you_mean;
use tollgate_agent::text::quoted;
use tollgate_sandbox::{Refusal, SandboxError};

/// The exit codes, which scripts rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// The tool or the run failed and reported it.
    Failed,
    /// Usage or configuration error.
    Usage,
    /// Suspended, waiting for a decision.
    Waiting,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Waiting => 3,
        }
    }
}

/// The reason why a command failed: a sentence, the exit code, and a code for programs if there is
/// one.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct Failure {
    exit: Exit,
    words: String,
    code: Option<&'static str>,
}

impl Failure {
    /// Creates a usage failure: the command line or the configuration is invalid.
    pub(crate) fn usage(words: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, words: words.into(), code: None }
    }

    /// Creates a failure of something that was tried and did not work.
    pub(crate) fn failed(words: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, words: words.into(), code: None }
    }

    /// Creates a failure because a person has to decide and there is no terminal.
    pub(crate) fn undecided(words: impl Into<String>) -> Self {
        Self { exit: Exit::Waiting, words: words.into(), code: None }
    }

    /// Adds a code for programs.
    pub(crate) fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn code(&self) -> Option<&'static str> {
        self.code
    }
}

impl From<GatesRefusal> for Failure {
    fn from(error: GatesRefusal) -> Self {
        Self::usage(crate::terminal::text::shown(&error.to_string()))
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let remedy = if error.is_missing() { "; name one that exists with --config FILE" } else { "" };
        Self::usage(format!("{error}{remedy}"))
    }
}

impl From<EditError> for Failure {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Invalid(error) => error.into(),
            EditError::NotChanged(error) => Self::usage(error.to_string()),
        }
    }
}

impl From<ApprovalsError> for Failure {
    fn from(error: ApprovalsError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<ChangeableSource> for Failure {
    fn from(error: ChangeableSource) -> Self {
        let (program, id, guest) = (program(), &error.component_id, quoted(&error.guest));
        Self::usage(format!("{error}: {program} revoke {id} --files {guest}"))
    }
}

impl From<DirectoryError> for Failure {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Lock(error) => error.into(),
            error => Self::usage(error.to_string()),
        }
    }
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        Self::failed(error.to_string())
    }
}

/// A refusal quotes the component's names and texts, whose lines are marked.
impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::failed(shown_marked(&refusal.to_string()))
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        let words = || with_command(&error, error.remedy());
        match &error {
            HostError::Setup(_)
            | HostError::Refused(_)
            | HostError::UnknownAgent { .. }
            | HostError::UnknownRun(_)
            | HostError::UnknownQuestion(_)
            | HostError::AlreadyDecided { .. }
            | HostError::AlreadyEnded(_)
            | HostError::DoesNotFit { .. } => Self::usage(words()),
            HostError::UnknownTool { name, known } => {
                let lists = match did_you_mean(name, known.iter().map(String::as_str)) {
                    Some(_) => String::new(),
                    None => format!("; `{} tools` lists them", program()),
                };
                Self::usage(format!("{error}{lists}"))
            }
            HostError::Busy(_) => Self::failed(format!("{error}: --queue")),
            HostError::OwnedElsewhere(_)
            | HostError::StoreFull(_)
            | HostError::Overloaded { .. }
            | HostError::Store(_)
            | HostError::Run(_)
            | HostError::Waiting(_) => Self::failed(words()),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self::failed(with_command(&error, error.remedy()))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let words = with_command(&error, error.remedy());
        match error.kind() {
            StoreErrorKind::UnknownRun => Self::usage(words),
            _ => Self::failed(words),
        }
    }
}
