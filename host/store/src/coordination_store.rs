//! The cooperation of the processes that use a store: who drives a run, and commands to it.

use super::{ClaimedRun, CommitError, Hints, RunCommand, SentCommand, StoreError};
use async_trait::async_trait;
use std::sync::Arc;

/// The cooperation of the processes that use a store: who drives which run, who is next on a
/// thread, commands to runs, and hints of changes.
#[async_trait]
pub trait CoordinationStore: Send + Sync {
    /// Takes over the driving of a recorded run that no other living process drives, and returns
    /// its new epoch. From then on, commits of earlier epochs are
    /// [fenced](CommitError::Fenced). `known` is the number of the run's events that the caller has
    /// read. If the run has others, nothing changes: the process that committed them keeps the run.
    ///
    /// # Errors
    /// Returns [`CommitError::Advanced`] if another process drives the run, or has continued or ended it,
    /// [`CommitError::Behind`] if the run has fewer events, and [`CommitError::Failed`] if there is
    /// no such run or the store failed.
    async fn acquire(&self, run_id: &str, known: u64) -> Result<u64, CommitError>;

    /// Records that this process stopped driving a run in this epoch before the run came to rest,
    /// because the host failed. Another process may then resume it. A later commit of the same
    /// epoch takes it up again. The release may be stored after
    /// this returns; [`flush`](super::RunStore::flush) waits for it.
    async fn release(&self, run_id: &str, epoch: u64);

    /// Acquires up to `limit` runs that no living process drives and that can go on: queued and
    /// interrupted ones, and waiting ones to which a command was sent. Runs of prompts are claimed
    /// only for these agents, and of each thread only the oldest open one; child runs are left to
    /// their parents.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn claim(&self, agents: &[String], limit: usize) -> Result<Vec<ClaimedRun>, StoreError>;

    /// Waits for the caller's turn in the thread's queue, across processes: first come, first
    /// served. The turn ends when the result is dropped.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn queue(&self, thread_id: &str) -> Result<QueueTurn, StoreError>;

    /// Stores a command to a run, until a commit
    /// [carries it out](super::Commit::carries_out). A command with the id of an earlier one is
    /// ignored. Returns `false` and stores nothing if the run has ended.
    ///
    /// # Errors
    /// There is no such run ([`StoreErrorKind::UnknownRun`](super::StoreErrorKind)), or the store
    /// cannot be written.
    async fn send(&self, run_id: &str, id: &str, command: RunCommand) -> Result<bool, StoreError>;

    /// Returns the commands to a run that were not carried out, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn commands(&self, run_id: &str) -> Result<Vec<SentCommand>, StoreError>;

    /// Returns those of the runs to which a command was sent that was not carried out.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn runs_with_commands(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError>;

    /// Removes a command that cannot be carried out.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn withdraw(&self, run_id: &str, id: &str) -> Result<(), StoreError>;

    /// Returns hints of changes from now on, in this process and in others; see [`Hints`].
    fn watch(&self) -> Hints;

    /// Ends this process's part in the store, after everything that was reported is stored: runs
    /// that it drives are free for other processes at once. Nothing is written afterwards.
    ///
    /// # Errors
    /// Same as [`flush`](super::RunStore::flush).
    async fn close(&self) -> Result<(), StoreError>;
}

/// A turn in the queue of a thread, held until it is dropped.
pub type QueueTurn = Box<dyn std::any::Any + Send + Sync>;
