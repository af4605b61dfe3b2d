//! A store that moves the times of runs into the past: a day of work is recorded in seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tollgate::store::{
    AuditFilter, AuditRecord, AuditStore, ClaimedRun, Commit, CommitError, CommitReceipt, ComponentStore,
    CoordinationStore, EventPage, Hints, KeyFilter, PageLimit, QueueTurn, Record, RunCommand, RunFilter,
    RunStore, RunSummary, SentCommand, StateRead, StateStore, StoreError, ThreadRead, ThreadSize, ToolHealth,
};
use tollgate::{SqliteStore, async_trait};
use tollgate_agent::run::{Event, RunSpec, StoredEvent, Thread};
use tollgate_agent::state::StateChange;

/// A SQLite store that moves the commits of each thread into the past.
pub(crate) struct Shifted {
    store: SqliteStore,
    /// How far each thread is moved, in milliseconds.
    back_ms: Mutex<HashMap<String, u64>>,
}

impl Shifted {
    pub(crate) fn new(store: SqliteStore) -> Self {
        Self { store, back_ms: Mutex::default() }
    }

    /// Moves further commits of a thread, and of its children, into the past.
    pub(crate) fn set(&self, thread_id: &str, back_ms: u64) {
        self.back_ms.lock().unwrap_or_else(PoisonError::into_inner).insert(thread_id.to_owned(), back_ms);
    }

    /// Returns how far a commit is moved. A child's thread is moved as far as its parent's.
    fn back_ms(&self, commit: &Commit) -> u64 {
        let mut known = self.back_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(back_ms) = known.get(&*commit.thread_id) {
            return *back_ms;
        }
        let parent = commit.events().iter().find_map(|event| match &event.event {
            Event::RunStarted { spec } => spec.identity.parent_thread_id.clone(),
            _ => None,
        });
        let back_ms = parent.and_then(|parent| known.get(parent.as_str()).copied()).unwrap_or(0);
        known.insert(commit.thread_id.to_string(), back_ms);
        back_ms
    }
}

/// Moves the time that an event contains in addition to its own.
fn moved_back(event: &Event, back_ms: u64) -> Event {
    let mut event = event.clone();
    if let Event::CallStarted { not_before_ms, .. } = &mut event {
        *not_before_ms = not_before_ms.saturating_sub(back_ms);
    }
    event
}

#[async_trait]
impl RunStore for Shifted {
    async fn commit(&self, commit: Commit) -> Result<CommitReceipt, CommitError> {
        let back_ms = self.back_ms(&commit);
        if back_ms == 0 {
            return self.store.commit(commit).await;
        }
        let events: Vec<Event> =
            commit.events().iter().map(|stored| moved_back(&stored.event, back_ms)).collect();
        let at_ms = commit.at_ms() - back_ms;
        let (run_id, thread_id) = (Arc::clone(commit.run_id()), Arc::clone(&commit.thread_id));
        let mut moved = Commit::new(run_id, thread_id, commit.after(), at_ms, events);
        moved.messages = commit.messages;
        moved.charged = commit.charged;
        moved.audit = commit.audit;
        moved.audit.iter_mut().for_each(|record| record.at_ms -= back_ms);
        moved.components = commit.components;
        moved.thread_state_bytes = commit.thread_state_bytes;
        moved.durability = commit.durability;
        (moved.epoch, moved.queued, moved.carries_out) = (commit.epoch, commit.queued, commit.carries_out);
        self.store.commit(moved).await
    }

    async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<StoredEvent>>, StoreError> {
        self.store.events(run_id, after).await
    }

    async fn events_page(&self, run_id: &str, after: u64, limit: PageLimit) -> Result<EventPage, StoreError> {
        self.store.events_page(run_id, after, limit).await
    }

    async fn run_spec(&self, run_id: &str) -> Result<Option<Arc<RunSpec>>, StoreError> {
        self.store.run_spec(run_id).await
    }

    async fn record_bytes(&self, run_id: &str) -> Result<u64, StoreError> {
        self.store.record_bytes(run_id).await
    }

    async fn record(&self, run_id: &str) -> Result<Record, StoreError> {
        self.store.record(run_id).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        self.store.runs(filter).await
    }

    async fn admit(
        &self,
        thread_id: Option<&str>,
        component_id: Option<&str>,
        principal: Option<&str>,
    ) -> Result<(), StoreError> {
        self.store.admit(thread_id, component_id, principal).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.store.flush().await
    }
}

#[async_trait]
impl StateStore for Shifted {
    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
        self.store.thread(thread_id).await
    }

    async fn thread_size(&self, thread_id: &str) -> Result<ThreadSize, StoreError> {
        self.store.thread_size(thread_id).await
    }

    async fn thread_within(&self, thread_id: &str, max_bytes: u64) -> Result<ThreadRead, StoreError> {
        self.store.thread_within(thread_id, max_bytes).await
    }

    async fn state(
        &self,
        thread_id: &str,
        wanted: &KeyFilter,
        max_bytes: u64,
    ) -> Result<StateRead, StoreError> {
        self.store.state(thread_id, wanted, max_bytes).await
    }

    async fn changes(
        &self,
        thread_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>, StoreError> {
        self.store.changes(thread_id, after, limit).await
    }

    async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError> {
        self.store.change(thread_id, change).await
    }
}

#[async_trait]
impl AuditStore for Shifted {
    async fn record_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        self.store.record_audit(records).await
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        self.store.audit(filter).await
    }

    async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError> {
        self.store.tool_health().await
    }
}

#[async_trait]
impl ComponentStore for Shifted {
    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.component(digest).await
    }

    fn archives(&self) -> bool {
        self.store.archives()
    }
}

#[async_trait]
impl CoordinationStore for Shifted {
    async fn acquire(&self, run_id: &str, known: u64) -> Result<u64, CommitError> {
        self.store.acquire(run_id, known).await
    }

    async fn release(&self, run_id: &str, epoch: u64) {
        self.store.release(run_id, epoch).await;
    }

    async fn claim(&self, agents: &[String], limit: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        self.store.claim(agents, limit).await
    }

    async fn queue(&self, thread_id: &str) -> Result<QueueTurn, StoreError> {
        self.store.queue(thread_id).await
    }

    async fn send(&self, run_id: &str, id: &str, command: RunCommand) -> Result<bool, StoreError> {
        self.store.send(run_id, id, command).await
    }

    async fn commands(&self, run_id: &str) -> Result<Vec<SentCommand>, StoreError> {
        self.store.commands(run_id).await
    }

    async fn runs_with_commands(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError> {
        self.store.runs_with_commands(runs).await
    }

    async fn withdraw(&self, run_id: &str, id: &str) -> Result<(), StoreError> {
        self.store.withdraw(run_id, id).await
    }

    fn watch(&self) -> Hints {
        self.store.watch()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}
