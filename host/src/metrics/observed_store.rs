//! A store wrapper that counts the records of its audit.

use super::instruments::{Fact, Instruments};
use crate::store::{
    AuditFilter, AuditRecord, AuditStore, ClaimedRun, Commit, CommitError, CommitReceipt, ComponentStore,
    CoordinationStore, EventPage, Hints, KeyFilter, PageLimit, QueueTurn, Record, RunCommand, RunFilter,
    RunStore, RunSummary, SentCommand, StateRead, StateStore, Store, StoreError, ThreadRead, ThreadSize,
    ToolHealth,
};
use async_trait::async_trait;
use std::sync::Arc;
use tollgate_agent::run::{RunSpec, StoredEvent, Thread};
use tollgate_agent::state::StateChange;

pub(super) struct ObservedStore {
    store: Arc<dyn Store>,
    recorded: Arc<Instruments>,
}

impl ObservedStore {
    pub(super) fn new(store: Arc<dyn Store>, recorded: Arc<Instruments>) -> Self {
        Self { store, recorded }
    }

    fn count(&self, records: &[AuditRecord]) {
        records.iter().for_each(|record| self.recorded.count(record));
    }
}

#[async_trait]
impl RunStore for ObservedStore {
    async fn commit(&self, commit: Commit) -> Result<CommitReceipt, CommitError> {
        let records = commit.audit.clone();
        let facts: Vec<Fact> = commit.events().iter().filter_map(Fact::of).collect();
        let committed = self.store.commit(commit).await?;
        self.count(&records);
        facts.iter().for_each(|fact| self.recorded.count_fact(fact));
        Ok(committed)
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
impl StateStore for ObservedStore {
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
impl AuditStore for ObservedStore {
    async fn record_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        self.store.record_audit(records.clone()).await?;
        self.count(&records);
        Ok(())
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        self.store.audit(filter).await
    }

    async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError> {
        self.store.tool_health().await
    }
}

#[async_trait]
impl ComponentStore for ObservedStore {
    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.component(digest).await
    }

    fn archives(&self) -> bool {
        self.store.archives()
    }
}

#[async_trait]
impl CoordinationStore for ObservedStore {
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
