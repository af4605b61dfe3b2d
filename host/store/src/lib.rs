//! Storage of events, and of what is derived from them.
//!
//! A [`Store`] appends events to the log of a run. For each thread, it keeps the state and the
//! conversation. A commit is atomic: it is stored as a whole or not at all. Clients receive only
//! what was committed before. A commit is `Durable` or `Deferred`; see [`Durability`].

mod audit;
mod charges;
mod checksum;
mod clock;
mod commands;
mod commit;
mod component;
mod error;
mod limits;
pub mod memory;
mod rebase;
pub mod rules;
mod runs;
mod upkeep;

pub use audit::{AuditFilter, AuditKind, AuditRecord, ToolHealth};
pub use clock::now_ms;
pub use commands::{Claimed, Hint, HintSender, Hints, RunCommand, SentCommand};
pub use commit::{Commit, Committed, Durability};
pub use component::{ComponentFile, ComponentSource};
pub use error::{CommitError, StoreError, StoreErrorKind};
pub use limits::StoreLimits;
pub use memory::MemoryStore;
pub use runs::{
    MAX_THREAD_RUNS, RunFilter, RunSummary, SHORT_ID_CHARS, ThreadFilter, ThreadSummary, short_id,
};
pub use upkeep::{CopySource, DamagedRun, HoldsBack, Pruned, Pruning, Record, Verified};

use runs::THREAD_RUNS_AT_ONCE;

use async_trait::async_trait;
use std::sync::Arc;
use tollgate_agent::run::{Event, RunSpec, StoredEvent, Thread};
use tollgate_agent::state::{KeyUpdate, State, StateChange};

/// A store of runs and threads.
///
/// A [`MemoryStore`] ends with the process. A custom store may keep everything elsewhere, or wrap
/// another store and add to it. Before a commit returns, its effects do not start and no client
/// receives its events.
#[async_trait]
pub trait Store: Send + Sync {
    /// Appends events to a run, and folds their changes into the thread's state. Changes that
    /// were built on an older revision are moved behind the ones they missed, unless both write
    /// the same key and do not commute, or both together may exceed a limit on the size of state.
    ///
    /// # Errors
    /// Returns [`CommitError::Conflict`] if the changes cannot be moved,
    /// [`CommitError::Advanced`] if other events were appended to this run,
    /// [`CommitError::Fenced`] if another driver acquired the run, [`CommitError::Behind`] if the
    /// store lost events of the run, and [`CommitError::Busy`] if the run of another prompt is
    /// active on the thread. Nothing was stored in these cases.
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError>;

    /// Returns the current thread, which is empty if the id is unknown.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError>;

    /// Returns the events of a run after this number, in order. The list is empty if the run is
    /// unknown.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<StoredEvent>>, StoreError>;

    /// Returns how a run began; `None` if it is not known.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn run_spec(&self, run_id: &str) -> Result<Option<Arc<RunSpec>>, StoreError> {
        let record = self.events(run_id, 0).await?;
        Ok(record.first().and_then(|first| match &first.event {
            Event::RunStarted { spec } => Some(Arc::clone(spec)),
            _ => None,
        }))
    }

    /// Returns threads with their last run, the one that was used last first. Reads at most
    /// [`MAX_THREAD_RUNS`] runs to find them.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn threads(&self, filter: ThreadFilter) -> Result<Vec<ThreadSummary>, StoreError> {
        let mut found: Vec<ThreadSummary> = Vec::new();
        let mut runs = RunFilter {
            thread_prefix: filter.prefix.clone(),
            before: filter.before.clone(),
            limit: THREAD_RUNS_AT_ONCE,
            ..RunFilter::default()
        };
        for _ in 0..MAX_THREAD_RUNS / THREAD_RUNS_AT_ONCE {
            let page = self.runs(runs.clone()).await?;
            for run in &page {
                // A child has a thread of its own, which no client continues.
                if run.kind == "child" || filter.skip.contains(&run.thread_id) {
                    continue;
                }
                let known = found.iter().position(|thread| thread.thread_id == run.thread_id);
                match known {
                    Some(known) => found[known].began(run),
                    None if found.len() < filter.limit => found.push(ThreadSummary::of(run)),
                    None => return Ok(found),
                }
            }
            match page.last() {
                Some(last) if page.len() == THREAD_RUNS_AT_ONCE => runs.before = Some(last.run_id.clone()),
                _ => break,
            }
        }
        Ok(found)
    }

    /// Returns runs and direct calls, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError>;

    /// Adds audit records that are not part of a run's commit. A record of a file is skipped if
    /// it repeats the file's last record.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn note(&self, records: Vec<AuditRecord>) -> Result<(), StoreError>;

    /// Returns audit records, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError>;

    /// Returns the tools whose last calls trapped.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError>;

    /// Returns up to `limit` changes of a thread's state after a revision, oldest first. For keys
    /// that do not persist, they contain what the store kept.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn changes(
        &self,
        thread_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>, StoreError>;

    /// Returns the bytes of a component that a run called, by their digest; `None` if they are
    /// not stored.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns whether the store keeps components. If so, commits list the components that a run
    /// refers to.
    fn archives(&self) -> bool {
        true
    }

    /// Commits a change of a thread's state outside of any run, such as imported values or ones
    /// that were set aside.
    ///
    /// # Errors
    /// Returns [`CommitError::Conflict`] as for [`Store::commit`]; nothing was stored then.
    async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError>;

    /// Takes over the driving of a recorded run that no other living process drives, and returns
    /// its new epoch. From then on, commits of earlier epochs are [fenced](CommitError::Fenced).
    ///
    /// # Errors
    /// Returns [`CommitError::Advanced`] if another process drives the run, and
    /// [`CommitError::Failed`] if there is no such run or the store failed.
    async fn acquire(&self, run_id: &str) -> Result<u64, CommitError>;

    /// Records that this process stopped driving a run in this epoch before the run came to rest,
    /// because the host failed. Another process may then resume it. A later commit of the same
    /// epoch takes it up again. The release may be stored later; [`flush`](Self::flush) waits for
    /// it.
    fn release(&self, run_id: &str, epoch: u64);

    /// Acquires up to `limit` runs that no living process drives and that can go on: queued and
    /// interrupted ones, and waiting ones to which a command was sent. Runs of prompts are claimed
    /// only for these agents, and of each thread only the oldest open one; child runs are left to
    /// their parents.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn claim(&self, agents: &[String], limit: usize) -> Result<Vec<Claimed>, StoreError>;

    /// Stores a command to a run, until a commit [carries it out](Commit::carries_out). A command
    /// with the id of an earlier one is ignored. Returns `false` and stores nothing if the run has
    /// ended.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be written.
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
    async fn commanded(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError>;

    /// Removes a command that cannot be carried out.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn take_back(&self, run_id: &str, id: &str) -> Result<(), StoreError>;

    /// Returns hints of changes from now on, in this process and in others; see [`Hints`].
    fn watch(&self) -> Hints;

    /// Checks that there is room for the records of another call on this thread or of this
    /// component.
    ///
    /// # Errors
    /// There is no room: a sentence that names the limit. No new call may begin then, but those
    /// in flight can still be stored.
    async fn admit(&self, thread_id: Option<&str>, component_id: Option<&str>) -> Result<(), StoreError> {
        let _ = (thread_id, component_id);
        Ok(())
    }

    /// Returns the record of a run as far as it can be read, and a description of its damage.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn record(&self, run_id: &str) -> Result<Record, StoreError> {
        Ok(Record { events: self.events(run_id, 0).await?, ..Record::default() })
    }

    /// Waits for the caller's turn in the thread's queue, across processes: first come, first
    /// served. The turn ends when the result is dropped.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn queue(&self, _thread_id: &str) -> Result<QueueTurn, StoreError> {
        Ok(Box::new(()))
    }

    /// Waits until everything that was reported to a caller is stored.
    ///
    /// # Errors
    /// [Deferred](Durability::Deferred) commits were lost since the last flush.
    async fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Ends this process's part in the store, after everything that was reported is stored: runs
    /// that it drives are free for other processes at once. Nothing is written afterwards.
    ///
    /// # Errors
    /// Same as [`flush`](Self::flush).
    async fn close(&self) -> Result<(), StoreError>;

    /// Sets keys of a thread to these values, as one change of its own. Returns the thread's new
    /// revision.
    ///
    /// # Errors
    /// The store cannot be read or written.
    async fn restore(&self, thread_id: &str, state: &State) -> Result<u64, StoreError> {
        loop {
            let revision = self.thread(thread_id).await?.state.revision() + 1;
            let updates = state.iter().map(|(key, value)| KeyUpdate::restored(key, value.clone()));
            match self.change(thread_id, StateChange { revision, updates: updates.collect() }).await {
                Ok(()) => return Ok(revision),
                // Another commit came first; its changes stay, except for these keys.
                Err(CommitError::Conflict(_)) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// A turn in the queue of a thread, held until it is dropped.
pub type QueueTurn = Box<dyn std::any::Any + Send + Sync>;
