//! A data directory that hands out records in pages only, as one does whose runs are larger than the
//! memory.

use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tollgate::store::{
    AuditFilter, AuditRecord, AuditStore, Commit, CommitError, CommitReceipt, ComponentStore, CopySource,
    EventPage, KeyFilter, PageLimit, Record, RunFilter, RunStore, RunSummary, SentCommand, SqliteStore,
    StateRead, StateStore, StoreError, ThreadRead, ThreadSize, ToolHealth,
};
use tollgate_agent::run::{RunSpec, StoredEvent, Thread};
use tollgate_agent::state::StateChange;

pub(crate) struct Pages {
    pub(crate) store: SqliteStore,
    /// The number of pages of events that were read.
    pub(crate) read: AtomicU64,
    /// The page that cannot be read; 0 for none.
    pub(crate) fails_at: AtomicU64,
}

impl Pages {
    pub(crate) fn of(store: SqliteStore) -> Self {
        Self { store, read: AtomicU64::new(0), fails_at: AtomicU64::new(0) }
    }
}

#[async_trait]
impl RunStore for Pages {
    async fn commit(&self, _: Commit) -> Result<CommitReceipt, CommitError> {
        panic!("a copy writes nothing to its source")
    }

    async fn events(&self, _: &str, _: u64) -> Result<Vec<Arc<StoredEvent>>, StoreError> {
        panic!("a whole record was read")
    }

    async fn events_page(&self, run_id: &str, after: u64, limit: PageLimit) -> Result<EventPage, StoreError> {
        assert!(limit.events <= 1_000 && limit.bytes <= 1 << 20, "{limit:?}");
        let number = self.read.fetch_add(1, Ordering::Relaxed) + 1;
        if number == self.fails_at.load(Ordering::Relaxed) {
            return Err(StoreError::other("this page cannot be read"));
        }
        self.store.events_page(run_id, after, limit).await
    }

    async fn run_spec(&self, run_id: &str) -> Result<Option<Arc<RunSpec>>, StoreError> {
        self.store.run_spec(run_id).await
    }

    async fn record_bytes(&self, run_id: &str) -> Result<u64, StoreError> {
        self.store.record_bytes(run_id).await
    }

    async fn record(&self, _: &str) -> Result<Record, StoreError> {
        panic!("a whole record was read")
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        self.store.runs(filter).await
    }

    async fn admit(&self, _: Option<&str>, _: Option<&str>, _: Option<&str>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl StateStore for Pages {
    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
        self.store.thread(thread_id).await
    }

    async fn thread_size(&self, thread_id: &str) -> Result<ThreadSize, StoreError> {
        self.store.thread_size(thread_id).await
    }

    async fn thread_within(&self, thread_id: &str, max_bytes: u64) -> Result<ThreadRead, StoreError> {
        self.store.thread_within(thread_id, max_bytes).await
    }

    async fn state(&self, thread_id: &str, wanted: &KeyFilter, most: u64) -> Result<StateRead, StoreError> {
        self.store.state(thread_id, wanted, most).await
    }

    async fn changes(
        &self,
        thread_id: &str,
        after: u64,
        most: usize,
    ) -> Result<Vec<StateChange>, StoreError> {
        self.store.changes(thread_id, after, most).await
    }

    async fn change(&self, _: &str, _: StateChange) -> Result<(), CommitError> {
        panic!("a copy writes nothing to its source")
    }
}

#[async_trait]
impl AuditStore for Pages {
    async fn record_audit(&self, _: Vec<AuditRecord>) -> Result<(), StoreError> {
        panic!("a copy writes nothing to its source")
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        assert!(filter.limit <= 1_000, "{filter:?}");
        self.store.audit(filter).await
    }

    async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError> {
        self.store.tool_health().await
    }
}

#[async_trait]
impl ComponentStore for Pages {
    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.component(digest).await
    }

    fn archives(&self) -> bool {
        true
    }
}

#[async_trait]
impl CopySource for Pages {
    fn place(&self) -> String {
        self.store.place()
    }

    async fn thread_ids(&self) -> Result<Vec<String>, StoreError> {
        self.store.thread_ids().await
    }

    async fn run_components(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.store.run_components().await
    }

    async fn pending_commands(&self, run_id: &str) -> Result<Vec<SentCommand>, StoreError> {
        self.store.pending_commands(run_id).await
    }
}
