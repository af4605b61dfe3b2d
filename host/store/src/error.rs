//! The errors of a store.

use tollgate_agent::text::clean;

/// The meaning of an error for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The store cannot be used at the moment: the database is not reachable, or others keep it
    /// locked. The same request may succeed later.
    Unavailable,
    /// There is no room: a limit of the store, a quota or the disk. The same request succeeds once
    /// an operator has made room.
    Full,
    /// Something that is stored cannot be read, or fails its check.
    Damaged,
    /// There is no such run.
    UnknownRun,
    /// The store cannot be used as it is configured: its place, its permissions, its version or its
    /// credentials. An operator has to change something.
    Unusable,
    /// Any other failure.
    Other,
}

/// A step by which an operator can resolve an error. A program with an interface for operators
/// says how that step is taken there, such as by a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// Use another data directory.
    OtherDirectory,
    /// Copy the data directory to a place that can be written, and use the copy.
    CopyDirectory,
    /// Check the records of all runs.
    Verify,
    /// Change the limit that is reached, or remove old runs.
    MakeRoom,
    /// Read what is left of the record of this run.
    ShowRun(String),
    /// Read what is left of the run's record, and continue the run from there.
    Resume,
    /// Create the schema of the database.
    CreateSchema,
    /// Migrate the schema of the database.
    MigrateSchema,
    /// Grant the role the privileges that hosts need.
    GrantPrivileges,
    /// Remove old runs as the role that owns the tables of the database.
    PruneAsOwner,
    /// Copy the data directory into the database again.
    RepeatCopy,
}

/// An error of a store: its kind, a sentence for the operator, and a step that resolves it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    remedy: Option<Remedy>,
    unknown_run_id: Option<Box<str>>,
}

impl StoreError {
    /// Creates an error of this kind.
    #[must_use]
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), remedy: None, unknown_run_id: None }
    }

    /// Creates the error of a store that cannot be used at the moment.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Unavailable, message)
    }

    /// Creates the error of a store without room.
    #[must_use]
    pub fn full(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Full, message)
    }

    /// Creates the error of a record that cannot be read.
    #[must_use]
    pub fn damaged(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Damaged, message)
    }

    /// Creates the error of a run that is not stored.
    #[must_use]
    pub fn unknown_run(run_id: &str) -> Self {
        let error = Self::new(StoreErrorKind::UnknownRun, format!("there is no run {}", clean(run_id, 100)));
        Self { unknown_run_id: Some(run_id.into()), ..error }
    }

    /// Creates the error of a store that cannot be used as it is configured.
    #[must_use]
    pub fn unusable(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Unusable, message)
    }

    /// Creates an error of no particular kind.
    #[must_use]
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Other, message)
    }

    /// Sets the step that resolves the error; `None` removes it.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<Option<Remedy>>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }

    /// Returns the same error with another sentence.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// Returns the meaning of the error for the caller.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns the run that is not stored; `None` if the error is another one.
    #[must_use]
    pub fn unknown_run_id(&self) -> Option<&str> {
        self.unknown_run_id.as_deref()
    }

    /// Returns a step by which an operator can resolve the error; `None` if the message is complete.
    #[must_use]
    pub fn remedy(&self) -> Option<&Remedy> {
        self.remedy.as_ref()
    }
}

/// The reason why nothing was committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The thread's state has moved on to this revision;
    /// [`changes`](super::StateStore::changes) returns the changes in between.
    #[error("the thread's state was changed by another run or call")]
    Conflict(u64),
    /// The run's log has events that the caller does not know.
    #[error("another process continued the run")]
    Advanced,
    /// Another driver acquired the run. The caller must stop and report nothing more of it.
    #[error("another process took over the run")]
    Fenced,
    /// The store lost events of the run that the caller knows, such as in the failover of a
    /// database that replicates asynchronously. The run cannot be continued from here.
    #[error("the store has lost events of the run that were reported")]
    Behind,
    /// Another run of the thread is active.
    #[error("the thread is busy with the run {0}; wait for it, or queue")]
    Busy(String),
    /// The commit is stored, but its sender cannot continue from it.
    #[error("the events are recorded, but the run could not continue: {0}")]
    Recorded(StoreError),
    /// The store failed.
    #[error(transparent)]
    Failed(#[from] StoreError),
}

impl From<CommitError> for StoreError {
    /// Returns the error of the store, or one of no particular kind if the commit was rejected.
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Failed(failed) => failed,
            CommitError::Behind | CommitError::Recorded(_) => {
                Self::other(error.to_string()).with_remedy(Remedy::Resume)
            }
            rejected => Self::other(rejected.to_string()),
        }
    }
}
