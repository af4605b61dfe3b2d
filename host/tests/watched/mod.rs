//! A store with a watcher, which may count writes, reject them, or end the process.

use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tollgate::store::{
    AuditFilter, AuditRecord, AuditStore, ClaimedRun, Commit, CommitError, CommitReceipt, ComponentStore,
    CoordinationStore, EventPage, Hints, KeyFilter, PageLimit, QueueTurn, Record, RunCommand, RunFilter,
    RunStore, RunSummary, SentCommand, StateRead, StateStore, Store, StoreError, ThreadRead, ThreadSize,
    ToolHealth,
};
use tollgate_agent::run::{RunSpec, StoredEvent, Thread};
use tollgate_agent::state::StateChange;

/// A watcher of writes. The first write has the number 1.
pub(crate) trait Watch: Send + Sync {
    /// Called before a write. An error replaces the write.
    fn before(&self, _write: u64) -> Result<(), StoreError> {
        Ok(())
    }

    /// Called after a write that succeeded or failed.
    fn after(&self, _write: u64) {}

    /// Returns how long the release of a run takes.
    fn release_time(&self) -> Duration {
        Duration::ZERO
    }
}

/// A watcher that does nothing, for counting writes alone.
impl Watch for () {}

/// Fails from the write with this number on, as on a full disk; 0 means never.
#[derive(Default)]
pub(crate) struct FailsFrom(pub(crate) AtomicU64);

impl Watch for FailsFrom {
    fn before(&self, write: u64) -> Result<(), StoreError> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            from if write < from => Ok(()),
            _ => Err(StoreError::full("the disk is full")),
        }
    }
}

/// A store that numbers all writes and reports them to a watcher.
pub(crate) struct Watched<W> {
    store: Arc<dyn Store>,
    pub(crate) watch: W,
    writes: AtomicU64,
    changes_read: AtomicU64,
}

impl<W: Watch> Watched<W> {
    pub(crate) fn new(store: Arc<dyn Store>, watch: W) -> Arc<Self> {
        Arc::new(Self { store, watch, writes: AtomicU64::new(0), changes_read: AtomicU64::new(0) })
    }

    async fn write<T, E: From<StoreError>>(&self, write: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let number = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        self.watch.before(number)?;
        let written = write.await;
        self.watch.after(number);
        written
    }
}

impl<W> Watched<W> {
    /// Returns the number of writes.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Returns the number of changes of threads that were read.
    pub(crate) fn changes_read(&self) -> u64 {
        self.changes_read.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl<W: Watch> RunStore for Watched<W> {
    async fn commit(&self, commit: Commit) -> Result<CommitReceipt, CommitError> {
        self.write(self.store.commit(commit)).await
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
impl<W: Watch> StateStore for Watched<W> {
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
        let changes = self.store.changes(thread_id, after, limit).await?;
        self.changes_read.fetch_add(changes.len() as u64, Ordering::Relaxed);
        Ok(changes)
    }

    async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError> {
        self.write(self.store.change(thread_id, change)).await
    }
}

#[async_trait]
impl<W: Watch> AuditStore for Watched<W> {
    async fn record_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        self.write(self.store.record_audit(records)).await
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        self.store.audit(filter).await
    }

    async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError> {
        self.store.tool_health().await
    }
}

#[async_trait]
impl<W: Watch> ComponentStore for Watched<W> {
    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.component(digest).await
    }

    fn archives(&self) -> bool {
        self.store.archives()
    }
}

#[async_trait]
impl<W: Watch> CoordinationStore for Watched<W> {
    async fn acquire(&self, run_id: &str, known: u64) -> Result<u64, CommitError> {
        self.write(self.store.acquire(run_id, known)).await
    }

    async fn release(&self, run_id: &str, epoch: u64) {
        let time = self.watch.release_time();
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        self.store.release(run_id, epoch).await;
    }

    async fn claim(&self, agents: &[String], limit: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        self.write(self.store.claim(agents, limit)).await
    }

    async fn queue(&self, thread_id: &str) -> Result<QueueTurn, StoreError> {
        self.store.queue(thread_id).await
    }

    async fn send(&self, run_id: &str, id: &str, command: RunCommand) -> Result<bool, StoreError> {
        self.write(self.store.send(run_id, id, command)).await
    }

    async fn commands(&self, run_id: &str) -> Result<Vec<SentCommand>, StoreError> {
        self.store.commands(run_id).await
    }

    async fn runs_with_commands(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError> {
        self.store.runs_with_commands(runs).await
    }

    async fn withdraw(&self, run_id: &str, id: &str) -> Result<(), StoreError> {
        self.write(self.store.withdraw(run_id, id)).await
    }

    fn watch(&self) -> Hints {
        self.store.watch()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}
