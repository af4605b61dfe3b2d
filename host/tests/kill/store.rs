//! A store that kills its process around one of its commits.

use async_trait::async_trait;
use std::fmt;
use std::process::Command;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tollgate::store::{
    AuditFilter, AuditRecord, Commit, CommitError, RunFilter, RunSummary, SqliteStore, Store, StoreError,
    ToolHealth,
};
use tollgate_agent::run::{Numbered, Thread};
use tollgate_agent::state::StateChange;

/// When the process ends: 1 is its first commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Everything was done but the commit.
    Before(u64),
    /// Nothing was done but the commit.
    After(u64),
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::Before(commit) => write!(f, "before {commit}"),
            Moment::After(commit) => write!(f, "after {commit}"),
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (side, commit) = text.split_once(' ').ok_or(text)?;
        let commit = commit.parse().map_err(|e| format!("{text}: {e}"))?;
        match side {
            "before" => Ok(Moment::Before(commit)),
            "after" => Ok(Moment::After(commit)),
            _ => Err(text.to_owned()),
        }
    }
}

/// Ends a process as the system does that is short of memory: at once, and without
/// asking it.
pub(crate) fn kill(process: u32) {
    // It may have ended by itself meanwhile.
    let _ = Command::new("sh").args(["-c", &format!("kill -9 {process} 2> /dev/null")]).status();
}

pub(crate) struct DyingStore {
    pub(crate) store: SqliteStore,
    pub(crate) moment: Option<Moment>,
    pub(crate) commits: AtomicU64,
}

impl DyingStore {
    fn meet(&self, moment: Moment) {
        if self.moment == Some(moment) {
            kill(std::process::id());
            // Nothing goes on here while the signal is on its way.
            loop {
                std::thread::park();
            }
        }
    }
}

#[async_trait]
impl Store for DyingStore {
    async fn commit(&self, commit: Commit) -> Result<Vec<Arc<Numbered>>, CommitError> {
        let number = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        self.meet(Moment::Before(number));
        let committed = self.store.commit(commit).await;
        self.meet(Moment::After(number));
        committed
    }

    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
        self.store.thread(thread_id).await
    }

    async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<Numbered>>, StoreError> {
        self.store.events(run_id, after).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        self.store.runs(filter).await
    }

    async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError> {
        self.store.change(thread_id, change).await
    }

    async fn note(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        self.store.note(records).await
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        self.store.audit(filter).await
    }

    async fn trapping(&self) -> Result<Vec<ToolHealth>, StoreError> {
        self.store.trapping().await
    }

    async fn changes(
        &self,
        thread_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>, StoreError> {
        self.store.changes(thread_id, after, limit).await
    }

    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.component(digest).await
    }

    fn let_go(&self, run_id: &str) {
        self.store.let_go(run_id);
    }
}
