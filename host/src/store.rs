//! Storage of events, and of what is derived from them: everything of `tollgate-store`, and the stores
//! that are part of this crate.
//!
//! A [`MemoryStore`] ends with the process. A `SqliteStore`, with the feature `sqlite`, persists,
//! and several processes may share its directory. A host writes to the store; reading needs no host:
//!
//! ```
//! use std::sync::Arc;
//! use tollgate::store::{RunFilter, RunStore};
//! use tollgate::{Agent, Event, Host, ScriptedModel, RunRequest, SqliteStore, ScriptedTurn};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let data = tempfile::tempdir()?;
//! let agent = Agent::new("scribe", ScriptedModel::new(vec![ScriptedTurn::text("Noted.")]));
//! let host = Host::builder().agent(agent).store(Arc::new(SqliteStore::open(data.path())?)).build()?;
//! host.run(RunRequest::new("scribe", "Remember the milk.")).await?.wait().await?;
//! drop(host);
//!
//! let store = SqliteStore::open(data.path())?;
//! let runs = store.runs(RunFilter::default()).await?;
//! let events = store.events(&runs[0].run_id, 0).await?;
//! assert_eq!(runs[0].status, "completed");
//! assert!(matches!(&events.last().unwrap().event, Event::RunFinished { text, .. } if text == "Noted."));
//! # Ok(())
//! # }
//! ```
//!
//! A custom store may keep everything elsewhere, or wrap another store and add to it. Until a commit
//! returns, its effects do not start and no client receives its events:
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use tollgate::store::{AuditFilter, AuditRecord, AuditStore, ClaimedRun, Commit, CommitError, CommitReceipt};
//! use tollgate::store::{ComponentStore, CoordinationStore, EventPage, Hints, KeyFilter, PageLimit, QueueTurn};
//! use tollgate::store::{Record, RunCommand, RunFilter, RunStore, RunSummary, SentCommand, StateRead, StateStore};
//! use tollgate::store::{StoreError, ThreadRead, ThreadSize, ToolHealth};
//! use tollgate::store::{RunSpec, StateChange, StoredEvent, Thread};
//! use tollgate::{Agent, Host, MemoryStore, ScriptedModel, RunRequest, ScriptedTurn, async_trait};
//!
//! /// Counts the events, and passes everything on.
//! #[derive(Default)]
//! struct Counted {
//!     store: MemoryStore,
//!     events: AtomicUsize,
//! }
//!
//! #[async_trait]
//! impl RunStore for Counted {
//!     async fn commit(&self, commit: Commit) -> Result<CommitReceipt, CommitError> {
//!         let events = commit.events().len();
//!         let committed = self.store.commit(commit).await?; // all of them, or none
//!         self.events.fetch_add(events, Ordering::Relaxed);
//!         Ok(committed)
//!     }
//!
//!     async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<StoredEvent>>, StoreError> {
//!         self.store.events(run_id, after).await
//!     }
//!
//!     // The other functions, and those of the other four traits, pass on their arguments in the same way.
//! #   async fn events_page(&self, run_id: &str, after: u64, limit: PageLimit) -> Result<EventPage, StoreError> {
//! #       self.store.events_page(run_id, after, limit).await
//! #   }
//! #   async fn run_spec(&self, run_id: &str) -> Result<Option<Arc<RunSpec>>, StoreError> {
//! #       self.store.run_spec(run_id).await
//! #   }
//! #   async fn record_bytes(&self, run_id: &str) -> Result<u64, StoreError> {
//! #       self.store.record_bytes(run_id).await
//! #   }
//! #   async fn record(&self, run_id: &str) -> Result<Record, StoreError> {
//! #       self.store.record(run_id).await
//! #   }
//! #   async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError> {
//! #       self.store.runs(filter).await
//! #   }
//! #   async fn admit(&self, thread: Option<&str>, component: Option<&str>, principal: Option<&str>)
//! #       -> Result<(), StoreError>
//! #   {
//! #       self.store.admit(thread, component, principal).await
//! #   }
//! #   async fn flush(&self) -> Result<(), StoreError> {
//! #       self.store.flush().await
//! #   }
//! }
//! # #[async_trait]
//! # impl StateStore for Counted {
//! #   async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
//! #       self.store.thread(thread_id).await
//! #   }
//! #   async fn thread_size(&self, thread_id: &str) -> Result<ThreadSize, StoreError> {
//! #       self.store.thread_size(thread_id).await
//! #   }
//! #   async fn thread_within(&self, thread_id: &str, max_bytes: u64) -> Result<ThreadRead, StoreError> {
//! #       self.store.thread_within(thread_id, max_bytes).await
//! #   }
//! #   async fn state(&self, thread_id: &str, wanted: &KeyFilter, max_bytes: u64) -> Result<StateRead, StoreError> {
//! #       self.store.state(thread_id, wanted, max_bytes).await
//! #   }
//! #   async fn changes(&self, thread_id: &str, after: u64, limit: usize) -> Result<Vec<StateChange>, StoreError> {
//! #       self.store.changes(thread_id, after, limit).await
//! #   }
//! #   async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError> {
//! #       self.store.change(thread_id, change).await
//! #   }
//! # }
//! # #[async_trait]
//! # impl AuditStore for Counted {
//! #   async fn record_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
//! #       self.store.record_audit(records).await
//! #   }
//! #   async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
//! #       self.store.audit(filter).await
//! #   }
//! #   async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError> {
//! #       self.store.tool_health().await
//! #   }
//! # }
//! # #[async_trait]
//! # impl ComponentStore for Counted {
//! #   async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
//! #       self.store.component(digest).await
//! #   }
//! #   fn archives(&self) -> bool {
//! #       self.store.archives()
//! #   }
//! # }
//! # #[async_trait]
//! # impl CoordinationStore for Counted {
//! #   async fn acquire(&self, run_id: &str, known: u64) -> Result<u64, CommitError> {
//! #       self.store.acquire(run_id, known).await
//! #   }
//! #   async fn release(&self, run_id: &str, epoch: u64) {
//! #       self.store.release(run_id, epoch).await;
//! #   }
//! #   async fn claim(&self, agents: &[String], limit: usize) -> Result<Vec<ClaimedRun>, StoreError> {
//! #       self.store.claim(agents, limit).await
//! #   }
//! #   async fn queue(&self, thread_id: &str) -> Result<QueueTurn, StoreError> {
//! #       self.store.queue(thread_id).await
//! #   }
//! #   async fn send(&self, run_id: &str, id: &str, command: RunCommand) -> Result<bool, StoreError> {
//! #       self.store.send(run_id, id, command).await
//! #   }
//! #   async fn commands(&self, run_id: &str) -> Result<Vec<SentCommand>, StoreError> {
//! #       self.store.commands(run_id).await
//! #   }
//! #   async fn runs_with_commands(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError> {
//! #       self.store.runs_with_commands(runs).await
//! #   }
//! #   async fn withdraw(&self, run_id: &str, id: &str) -> Result<(), StoreError> {
//! #       self.store.withdraw(run_id, id).await
//! #   }
//! #   fn watch(&self) -> Hints {
//! #       self.store.watch()
//! #   }
//! #   async fn close(&self) -> Result<(), StoreError> {
//! #       self.store.close().await
//! #   }
//! # }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Arc::new(Counted::default());
//! let agent = Agent::new("scribe", ScriptedModel::new(vec![ScriptedTurn::text("Noted.")]));
//! let host = Host::builder().agent(agent).store(store.clone()).build()?;
//! let end = host.run(RunRequest::new("scribe", "Remember the milk.")).await?.wait().await?;
//! assert_eq!(store.events.load(Ordering::Relaxed), store.events(&end.run_id, 0).await?.len());
//! # Ok(())
//! # }
//! ```

pub use tollgate_agent::run::{RunSpec, StoredEvent, Thread};
pub use tollgate_agent::state::{State, StateChange};
pub use tollgate_store::*;

#[cfg(feature = "sqlite")]
pub use tollgate_sqlite::{DatabaseTurn, ReadOnlyStore, SqliteStore, StoreFiles, make_private_directory};
