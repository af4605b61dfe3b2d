//! The records of runs.

use super::runs::THREAD_RUNS_AT_ONCE;
use super::{
    Commit, CommitError, CommitReceipt, MAX_THREAD_RUNS, Record, RunFilter, RunSummary, StoreError,
    ThreadFilter, ThreadSummary,
};
use async_trait::async_trait;
use std::sync::Arc;
use tollgate_agent::json::written_bytes;
use tollgate_agent::run::{Event, RunSpec, StoredEvent};

/// The maximum size of a part of a record that is read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit {
    /// The maximum number of events; at least one is read.
    pub events: usize,
    /// The maximum number of bytes of stored events. A first event that is larger is read alone.
    pub bytes: u64,
}

/// A part of a record.
#[derive(Debug, Clone, Default)]
pub struct EventPage {
    /// The events, in order.
    pub events: Vec<Arc<StoredEvent>>,
    /// Whether the record has more events after these.
    pub has_more: bool,
}

impl PageLimit {
    /// No limit: the whole record.
    pub const NONE: Self = Self { events: usize::MAX, bytes: u64::MAX };

    /// Returns whether another event of `next` bytes fits after this many events and bytes.
    #[must_use]
    pub fn has_room(&self, events: usize, bytes: u64, next: u64) -> bool {
        events == 0 || (events < self.events && bytes.saturating_add(next) <= self.bytes)
    }
}

impl EventPage {
    /// Takes events from the front of these within a limit. Their size is that of their JSON.
    pub fn of(events: impl IntoIterator<Item = Arc<StoredEvent>>, limit: PageLimit) -> Self {
        let (mut page, mut bytes) = (Self::default(), 0);
        for event in events {
            let next = written_bytes(&event.event) as u64;
            if !limit.has_room(page.events.len(), bytes, next) {
                page.has_more = true;
                break;
            }
            bytes += next;
            page.events.push(event);
        }
        page
    }
}

/// Reads a record event by event, for readers that need each event once: a whole record may take a
/// GiB. About 1 MiB of it is in memory.
pub struct RecordReader<'a> {
    store: &'a dyn RunStore,
    run_id: &'a str,
    /// The rest of the page that was read last.
    page: std::vec::IntoIter<Arc<StoredEvent>>,
    after: u64,
    has_more: bool,
}

impl<'a> RecordReader<'a> {
    /// The most of a record that is read at once. A single event may be larger.
    const LIMIT: PageLimit = PageLimit { events: 1_000, bytes: 1 << 20 };

    /// Starts with the first event. A run that is not known has none.
    #[must_use]
    pub fn new(store: &'a dyn RunStore, run_id: &'a str) -> Self {
        Self { store, run_id, page: Vec::new().into_iter(), after: 0, has_more: true }
    }

    /// Starts with the first event of a record that was read as a whole.
    #[must_use]
    pub fn of_record(store: &'a dyn RunStore, run_id: &'a str, events: Vec<Arc<StoredEvent>>) -> Self {
        let after = events.last().map_or(0, |last| last.number);
        Self { store, run_id, page: events.into_iter(), after, has_more: false }
    }

    /// Returns the next event; `None` after the last one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn next(&mut self) -> Result<Option<Arc<StoredEvent>>, StoreError> {
        self.fill().await?;
        Ok(self.page.next())
    }

    /// Returns the next event, which the next call of [`next`](Self::next) returns again.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn peek(&mut self) -> Result<Option<Arc<StoredEvent>>, StoreError> {
        self.fill().await?;
        Ok(self.page.as_slice().first().cloned())
    }

    /// Reads the next page if nothing is left of the last one.
    async fn fill(&mut self) -> Result<(), StoreError> {
        if self.page.len() == 0 && self.has_more {
            let page = self.store.events_page(self.run_id, self.after, Self::LIMIT).await?;
            self.after = page.events.last().map_or(self.after, |last| last.number);
            self.has_more = page.has_more;
            self.page = page.events.into_iter();
        }
        Ok(())
    }
}

/// The event log of each run.
#[async_trait]
pub trait RunStore: Send + Sync {
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
    async fn commit(&self, commit: Commit) -> Result<CommitReceipt, CommitError>;

    /// Returns the events of a run after this number, in order. The list is empty if the run is
    /// unknown.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<StoredEvent>>, StoreError>;

    /// Returns the first events of a run after this number, within a limit.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn events_page(&self, run_id: &str, after: u64, limit: PageLimit) -> Result<EventPage, StoreError>;

    /// Returns how a run began; `None` if it is not known.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn run_spec(&self, run_id: &str) -> Result<Option<Arc<RunSpec>>, StoreError>;

    /// Returns how much text reading a whole record takes from the disk or the network, in bytes, so
    /// that its memory can be reserved first; 0 if the record is in memory already.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn record_bytes(&self, run_id: &str) -> Result<u64, StoreError>;

    /// Returns the record of a run as far as it can be read, and a description of its damage.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn record(&self, run_id: &str) -> Result<Record, StoreError>;

    /// Returns runs and direct calls, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError>;

    /// Checks that there is room for the records of another call or run on this thread, of this component, and
    /// on a thread of this principal. The threads of a principal are those whose ids begin with its name and a
    /// slash.
    ///
    /// # Errors
    /// There is no room ([`StoreErrorKind::Full`](super::StoreErrorKind)): a sentence that names the
    /// limit. No new call may begin then, but those in flight can still be stored.
    async fn admit(
        &self,
        thread_id: Option<&str>,
        component_id: Option<&str>,
        principal: Option<&str>,
    ) -> Result<(), StoreError>;

    /// Waits until everything that was reported to a caller is stored.
    ///
    /// # Errors
    /// [Deferred](super::Durability::Deferred) commits were lost since the last flush.
    async fn flush(&self) -> Result<(), StoreError>;
}

/// Returns the spec in the first event of a run's record, for [`RunStore::run_spec`].
#[must_use]
pub fn spec_of(record: &[Arc<StoredEvent>]) -> Option<Arc<RunSpec>> {
    record.first().and_then(|first| match &first.event {
        Event::RunStarted { spec } => Some(Arc::clone(spec)),
        _ => None,
    })
}

/// Returns threads with their last run, the one that was used last first. Reads at most
/// [`MAX_THREAD_RUNS`] runs to find them.
///
/// # Errors
/// The store cannot be read.
pub async fn list_threads(
    store: &dyn RunStore,
    filter: ThreadFilter,
) -> Result<Vec<ThreadSummary>, StoreError> {
    let mut found: Vec<ThreadSummary> = Vec::new();
    let mut runs = RunFilter {
        thread_prefix: filter.prefix.clone(),
        before: filter.before.clone(),
        limit: THREAD_RUNS_AT_ONCE,
        ..RunFilter::default()
    };
    for _ in 0..MAX_THREAD_RUNS / THREAD_RUNS_AT_ONCE {
        let page = store.runs(runs.clone()).await?;
        for run in &page {
            // A child has a thread of its own, which no client continues.
            if run.kind == "child" || filter.skip.contains(&run.thread_id) {
                continue;
            }
            let known = found.iter().position(|thread| thread.thread_id == run.thread_id);
            match known {
                Some(known) => found[known].include(run),
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
