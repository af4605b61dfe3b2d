//! The exit codes of the program, and its failures.

use crate::terminal::output::shown_marked;
use tollgate::HostError;
use tollgate::config::ConfigError;
use tollgate::gates::GatesRefused;
use tollgate::tools::directory::DirectoryError;
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

impl From<GatesRefused> for Failure {
    fn from(error: GatesRefused) -> Self {
        Self::usage(crate::terminal::output::shown(&error.to_string()))
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<DirectoryError> for Failure {
    fn from(error: DirectoryError) -> Self {
        Self::usage(error.to_string())
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
        match &error {
            HostError::Setup(_)
            | HostError::Refused(_)
            | HostError::NotFound(_)
            | HostError::AlreadyDecided(_)
            | HostError::AlreadyEnded(_)
            | HostError::DoesNotFit { .. } => Self::usage(error.to_string()),
            HostError::Busy(_)
            | HostError::OwnedElsewhere(_)
            | HostError::StoreFull(_)
            | HostError::Overloaded(_)
            | HostError::Store(_)
            | HostError::Run(_)
            | HostError::Waiting(_) => Self::failed(error.to_string()),
        }
    }
}
