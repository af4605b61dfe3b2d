//! Where events are kept, and what is derived from them.
//!
//! A [`Store`] appends events to the log of a run and keeps, for each thread, its
//! state and its conversation. One commit is one unit: all of it is there
//! afterwards, or nothing. What a client is told was committed before, save for calls
//! whose record [may follow](Commit::may_follow).

mod audit;
mod component;
mod limits;
pub mod memory;
mod rebase;
mod runs;
pub mod sqlite;
mod upkeep;

pub use audit::{AuditFilter, AuditKind, AuditRecord, ToolHealth};
pub use component::ComponentFile;
pub use limits::StoreLimits;
pub use memory::MemoryStore;
pub use runs::{RunFilter, RunSummary};
pub use sqlite::{ReadOnlyStore, SqliteStore};
pub use upkeep::{DamagedRun, HoldsBack, Pruned, Pruning, Record, Verified};

pub(crate) use rebase::moved;

use async_trait::async_trait;
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::message::Message;
use tollgate_agent::run::{Event, StoredEvent, Thread};
use tollgate_agent::state::{KeyUpdate, State, StateChange};

/// A store of runs and threads.
///
/// [`MemoryStore`] ends with the process, [`SqliteStore`] does not, and several
/// processes may share its directory. A host writes to it; to read it needs no host:
///
/// ```
/// use std::sync::Arc;
/// use tollgate::store::RunFilter;
/// use tollgate::{Agent, Event, Host, ScriptedModel, RunRequest, SqliteStore, Store, ScriptedTurn};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let data = tempfile::tempdir()?;
/// let agent = Agent::new("scribe", ScriptedModel::new(vec![ScriptedTurn::text("Noted.")]));
/// let host = Host::builder().agent(agent).store(Arc::new(SqliteStore::open(data.path())?)).build()?;
/// host.run(RunRequest::new("scribe", "Remember the milk.")).await?.wait().await?;
/// drop(host);
///
/// let store = SqliteStore::open(data.path())?;
/// let runs = store.runs(RunFilter::default()).await?;
/// let events = store.events(&runs[0].run_id, 0).await?;
/// assert_eq!(runs[0].status, "completed");
/// assert!(matches!(&events.last().unwrap().event, Event::RunFinished { text, .. } if text == "Noted."));
/// # Ok(())
/// # }
/// ```
///
/// One of your own may keep everything elsewhere, or wrap another and add to it. What
/// begins a commit is not done, and nobody is told, before the commit returns:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use tollgate::store::{AuditFilter, AuditRecord, Commit, CommitError, Committed, RunFilter};
/// use tollgate::store::{RunSummary, StoreError, ToolHealth};
/// use tollgate::tollgate_agent::run::{Numbered, Thread};
/// use tollgate::tollgate_agent::state::StateChange;
/// use tollgate::{Agent, Host, MemoryStore, ScriptedModel, RunRequest, Store, ScriptedTurn, async_trait};
///
/// /// Counts the events, and hands everything on.
/// #[derive(Default)]
/// struct Counted {
///     store: MemoryStore,
///     events: AtomicUsize,
/// }
///
/// #[async_trait]
/// impl Store for Counted {
///     async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
///         let events = commit.events().len();
///         let committed = self.store.commit(commit).await?; // all of them, or none
///         self.events.fetch_add(events, Ordering::Relaxed);
///         Ok(committed)
///     }
///
///     async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
///         self.store.thread(thread_id).await
///     }
///
///     // The other functions hand on in the same way.
/// #   async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<Numbered>>, StoreError> {
/// #       self.store.events(run_id, after).await
/// #   }
/// #   async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError> {
/// #       self.store.runs(filter).await
/// #   }
/// #   async fn note(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
/// #       self.store.note(records).await
/// #   }
/// #   async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
/// #       self.store.audit(filter).await
/// #   }
/// #   async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError> {
/// #       self.store.tool_health().await
/// #   }
/// #   async fn changes(&self, thread_id: &str, after: u64, limit: usize) -> Result<Vec<StateChange>, StoreError> {
/// #       self.store.changes(thread_id, after, limit).await
/// #   }
/// #   async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
/// #       self.store.component(digest).await
/// #   }
/// #   fn archives(&self) -> bool {
/// #       self.store.archives()
/// #   }
/// #   async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError> {
/// #       self.store.change(thread_id, change).await
/// #   }
/// #   fn release(&self, run_id: &str) {
/// #       self.store.release(run_id);
/// #   }
/// #   async fn queue(&self, thread_id: &str) -> Result<tollgate::store::QueueTurn, StoreError> {
/// #       self.store.queue(thread_id).await
/// #   }
/// #   async fn flush(&self) -> Result<(), StoreError> {
/// #       self.store.flush().await
/// #   }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(Counted::default());
/// let agent = Agent::new("scribe", ScriptedModel::new(vec![ScriptedTurn::text("Noted.")]));
/// let host = Host::builder().agent(agent).store(store.clone()).build()?;
/// let end = host.run(RunRequest::new("scribe", "Remember the milk.")).await?.wait().await?;
/// assert_eq!(store.events.load(Ordering::Relaxed), store.events(&end.run_id, 0).await?.len());
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Store: Send + Sync {
    /// Appends events to a run, and folds their changes into the thread's state. Changes
    /// that were built on an older revision are moved behind the ones that they missed,
    /// unless both write the same key and do not commute, or both together may exceed a
    /// limit on the size of state.
    ///
    /// # Errors
    /// [`CommitError::Conflict`] if they cannot be moved, [`CommitError::Advanced`] if
    /// somebody else appended to this run, [`CommitError::Busy`] if another prompt's
    /// run of the thread is at work; nothing was stored in any of these cases.
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError>;

    /// A thread as it stands; one that nobody wrote to is empty.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError>;

    /// The events of a run after the one of this number, in order; none of a run
    /// that is not known.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<StoredEvent>>, StoreError>;

    /// Runs and direct calls, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError>;

    /// Adds to the audit what no run's commit does. What says of a file only what the
    /// last record of it says is left out.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn note(&self, records: Vec<AuditRecord>) -> Result<(), StoreError>;

    /// The audit, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError>;

    /// The tools whose last calls trapped.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError>;

    /// The changes of a thread's state after a revision, oldest first, at most so
    /// many. Of keys that do not persist they hold what the store kept.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn changes(
        &self,
        thread_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>, StoreError>;

    /// The bytes of a component that a run called, by their digest; none where they
    /// are not kept.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Whether it keeps components, and is to be told which ones a run refers to.
    fn archives(&self) -> bool {
        true
    }

    /// Commits a change of a thread's state that no run made: values that are
    /// imported, or set aside.
    ///
    /// # Errors
    /// [`CommitError::Conflict`] as for [`Store::commit`]; nothing was stored then.
    async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError>;

    /// Says that this process stopped carrying a run before it came to rest, because
    /// the host failed: whoever wants may carry it on. A later commit to the run
    /// takes it up again.
    fn release(&self, run_id: &str);

    /// That there is room for the records of another call, on this thread or of this
    /// component.
    ///
    /// # Errors
    /// There is none: a sentence that names the limit. Nothing may begin then, and what is
    /// under way can still be stored.
    async fn admit(&self, thread_id: Option<&str>, component_id: Option<&str>) -> Result<(), StoreError> {
        let _ = (thread_id, component_id);
        Ok(())
    }

    /// The record of a run as far as it can be read, and what is wrong with it.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn record(&self, run_id: &str) -> Result<Record, StoreError> {
        Ok(Record { events: self.events(run_id, 0).await?, ..Record::default() })
    }

    /// Waits for the caller's turn among those that queue for the thread, in this process and
    /// in others: first come, first served. The turn ends when the result is dropped.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn queue(&self, _thread_id: &str) -> Result<QueueTurn, StoreError> {
        Ok(Box::new(()))
    }

    /// Waits until everything that a caller was told is stored.
    ///
    /// # Errors
    /// Records of answered calls were lost since the last commit or flush; see
    /// [`Commit::may_follow`].
    async fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Sets keys of a thread to these values, as one change of its own. Gives the
    /// thread's new revision.
    ///
    /// # Errors
    /// The store cannot be read or written.
    async fn restore(&self, thread_id: &str, state: &State) -> Result<u64, StoreError> {
        loop {
            let revision = self.thread(thread_id).await?.state.revision() + 1;
            let updates = state.iter().map(|(key, value)| KeyUpdate::restored(key, value.clone()));
            match self.change(thread_id, StateChange { revision, updates: updates.collect() }).await {
                Ok(()) => return Ok(revision),
                // Somebody else was faster; what they changed stays, save these keys.
                Err(CommitError::Conflict(_)) => {}
                Err(CommitError::Failed(e)) => return Err(e),
                Err(e) => return Err(StoreError(e.to_string())),
            }
        }
    }
}

/// A turn in the queue of a thread, until it is dropped.
pub type QueueTurn = Box<dyn std::any::Any + Send + Sync>;

/// What is to be stored as one unit.
#[derive(Debug, Default)]
pub struct Commit {
    run_id: Arc<str>,
    /// The run's thread.
    pub thread_id: Arc<str>,
    after: u64,
    at_ms: u64,
    events: Arc<[StoredEvent]>,
    /// Messages that join the thread's conversation.
    pub messages: Vec<Message>,
    /// The component that causes each of the events, where one does; it may be shorter.
    pub charged: Vec<Option<SmolStr>>,
    /// What the audit says of it.
    pub audit: Vec<AuditRecord>,
    /// The components that the events refer to, for a store that keeps them.
    pub components: Vec<ComponentFile>,
    /// The most bytes that the values of one owner's keys may have in the thread. The events were
    /// decided within it; a store that moves them behind changes of others checks it again.
    pub thread_state_bytes: Option<usize>,
    /// Whether whoever waits for the commit may be answered before it is durable. A
    /// direct call of an idempotent tool that changed nothing may: its record follows
    /// with the next commit, in a twentieth of a second, or when the store is closed.
    pub may_follow: bool,
}

impl Commit {
    /// Of these events, and of nothing else: what happened in a run of this thread after
    /// the events that the caller knows of, so many, at this moment in milliseconds since
    /// the Unix epoch.
    #[must_use]
    pub fn new(
        run_id: Arc<str>,
        thread_id: Arc<str>,
        after: u64,
        at_ms: u64,
        events: impl IntoIterator<Item = Event>,
    ) -> Self {
        let events = StoredEvent::list(&run_id, after, at_ms, events);
        Self { run_id, thread_id, after, at_ms, events, ..Self::default() }
    }

    /// The run whose events they are.
    #[must_use]
    pub fn run_id(&self) -> &Arc<str> {
        &self.run_id
    }

    /// How many events of the run the caller knows of.
    #[must_use]
    pub fn after(&self) -> u64 {
        self.after
    }

    /// When, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// What happened, numbered from there on. Changes in it count on from the thread's
    /// revision.
    #[must_use]
    pub fn events(&self) -> &Arc<[StoredEvent]> {
        &self.events
    }
}

/// What became of a commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Committed {
    /// How many changes of others the commit's changes were moved behind.
    pub moved: u64,
}

/// Why nothing was committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The thread's state moved on to this revision; [`Store::changes`] has what came in
    /// between.
    #[error("the thread's state was changed by another run or call")]
    Conflict(u64),
    /// The run's log holds events that the caller does not know of.
    #[error("the run was carried on by another process")]
    Advanced,
    /// Another run of the thread is at work.
    #[error("the thread is at work on the run {0}; wait for it, or queue")]
    Busy(String),
    /// The commit is stored, and its sender cannot go on from it.
    #[error("what was done is recorded, but the run could not go on: {0}; `tollgate show` has its record")]
    Recorded(StoreError),
    /// The store failed.
    #[error(transparent)]
    Failed(#[from] StoreError),
}

/// The store cannot be read or written: a sentence for the operator.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);
