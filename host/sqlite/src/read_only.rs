//! A store that this process may only read, such as one on a read-only disk or one that another
//! user owns.

use super::explain::sibling_path;
use super::open;
use super::process::{self, Process};
use super::read::FoundState;
use super::readers::Readers;
use super::store_files;
use async_trait::async_trait;
use std::path::Path;
use std::sync::Arc;
use tollgate_agent::run::{RunSpec, StoredEvent, Thread};
use tollgate_agent::state::StateChange;
use tollgate_store::{
    AuditFilter, AuditRecord, AuditStore, ClaimedRun, Commit, CommitError, CommitReceipt, ComponentStore,
    CoordinationStore, EventPage, Hints, KeyFilter, PageLimit, QueueTurn, Record, Remedy, RunCommand,
    RunFilter, RunStore, RunSummary, SentCommand, StateRead, StateStore, StoreError, ThreadRead, ThreadSize,
    ToolHealth, VerifyReport,
};

/// A reader of a store. It writes nothing, not even beside the store.
pub struct ReadOnlyStore {
    readers: Arc<Readers>,
}

impl ReadOnlyStore {
    /// Opens the store in this directory.
    ///
    /// # Errors
    /// The store does not exist, has another version, or its last changes are in a log that
    /// cannot be read without writing.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let directory = &store_files::without_links(directory)?;
        let file = open::file_in(directory);
        open::check_regular(&file)?;
        let log = std::fs::metadata(sibling_path(&file, "-wal")).map(|log| log.len()).unwrap_or_default();
        let is_shared = ["-shm", "-wal"].iter().all(|ending| sibling_path(&file, ending).exists());
        if log > 0 && !is_shared {
            let message =
                format!("the store {} has changes that cannot be read without writing", file.display());
            return Err(StoreError::unusable(message).with_remedy(Remedy::CopyDirectory));
        }
        // Without a log and a writer, the file is opened as immutable. SQLite then ignores the log's index,
        // which a full disk may have left incomplete and unreadable.
        let is_unchanging = log == 0 && (!is_shared || !process::any_lives(directory));
        let readers = Readers::read_only(file, Arc::new(Process::observer(directory)), is_unchanging);
        readers.query(|reader| reader.check_version())?;
        Ok(Self { readers: Arc::new(readers) })
    }

    /// Checks the file and the checksums of every run.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn verify(&self) -> Result<VerifyReport, StoreError> {
        self.readers.ask(|reader| reader.verify()).await
    }

    /// Returns whether the store in this directory exists and is not writable.
    #[must_use]
    pub fn is_needed(directory: &Path) -> bool {
        let file = open::file_in(directory);
        let writable = rustix::fs::Access::WRITE_OK;
        file.exists()
            && [directory, file.as_path()].iter().any(|path| rustix::fs::access(*path, writable).is_err())
    }
}

fn refused() -> StoreError {
    StoreError::unusable("the store can only be read").with_remedy(Remedy::OtherDirectory)
}

#[async_trait]
impl RunStore for ReadOnlyStore {
    async fn commit(&self, _commit: Commit) -> Result<CommitReceipt, CommitError> {
        Err(refused().into())
    }

    async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<StoredEvent>>, StoreError> {
        let run_id: Arc<str> = Arc::from(run_id);
        self.readers.ask(move |reader| reader.events(&run_id, after)).await
    }

    async fn events_page(&self, run_id: &str, after: u64, limit: PageLimit) -> Result<EventPage, StoreError> {
        let run_id: Arc<str> = Arc::from(run_id);
        self.readers.ask(move |reader| reader.events_page(&run_id, after, limit)).await
    }

    async fn run_spec(&self, run_id: &str) -> Result<Option<Arc<RunSpec>>, StoreError> {
        let run_id: Arc<str> = Arc::from(run_id);
        self.readers.ask(move |reader| reader.run_spec(&run_id)).await
    }

    async fn record_bytes(&self, run_id: &str) -> Result<u64, StoreError> {
        let run_id: Arc<str> = Arc::from(run_id);
        self.readers.ask(move |reader| reader.record_bytes(&run_id)).await
    }

    async fn record(&self, run_id: &str) -> Result<Record, StoreError> {
        let run_id: Arc<str> = Arc::from(run_id);
        self.readers.ask(move |reader| reader.record(&run_id)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        self.readers.ask(move |reader| reader.runs(&filter)).await
    }

    async fn admit(&self, _: Option<&str>, _: Option<&str>, _: Option<&str>) -> Result<(), StoreError> {
        Err(refused())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl StateStore for ReadOnlyStore {
    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
        let id = thread_id.to_owned();
        self.readers.ask(move |reader| reader.thread(&id)).await
    }

    async fn thread_size(&self, thread_id: &str) -> Result<ThreadSize, StoreError> {
        let id = thread_id.to_owned();
        self.readers.ask(move |reader| reader.thread_size(&id)).await
    }

    async fn thread_within(&self, thread_id: &str, max_bytes: u64) -> Result<ThreadRead, StoreError> {
        tollgate_store::rules::thread_within(self, thread_id, max_bytes).await
    }

    async fn state(
        &self,
        thread_id: &str,
        wanted: &KeyFilter,
        max_bytes: u64,
    ) -> Result<StateRead, StoreError> {
        let (id, wanted) = (thread_id.to_owned(), wanted.clone());
        Ok(match self.readers.ask(move |reader| reader.state(&id, &wanted, max_bytes)).await? {
            FoundState::Whole(thread) => StateRead::State(thread.state),
            FoundState::Part(state) => StateRead::State(state),
            FoundState::Larger(bytes) => StateRead::Larger(bytes),
        })
    }

    async fn changes(
        &self,
        thread_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>, StoreError> {
        let thread_id = thread_id.to_owned();
        self.readers.ask(move |reader| reader.changes(&thread_id, after, limit)).await
    }

    async fn change(&self, _thread_id: &str, _change: StateChange) -> Result<(), CommitError> {
        Err(refused().into())
    }
}

#[async_trait]
impl AuditStore for ReadOnlyStore {
    async fn record_audit(&self, _records: Vec<AuditRecord>) -> Result<(), StoreError> {
        Err(refused())
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        self.readers.ask(move |reader| reader.audit(&filter)).await
    }

    async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError> {
        self.readers.ask(|reader| reader.tool_health()).await
    }
}

#[async_trait]
impl ComponentStore for ReadOnlyStore {
    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let digest = digest.to_owned();
        self.readers.ask(move |reader| reader.component(&digest)).await
    }

    fn archives(&self) -> bool {
        true
    }
}

#[async_trait]
impl CoordinationStore for ReadOnlyStore {
    async fn acquire(&self, _run_id: &str, _known: u64) -> Result<u64, CommitError> {
        Err(refused().into())
    }

    async fn release(&self, _run_id: &str, _epoch: u64) {}

    async fn claim(&self, _agents: &[String], _limit: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        Err(refused())
    }

    async fn queue(&self, _thread_id: &str) -> Result<QueueTurn, StoreError> {
        Err(refused())
    }

    async fn send(&self, _run_id: &str, _id: &str, _command: RunCommand) -> Result<bool, StoreError> {
        Err(refused())
    }

    async fn commands(&self, run_id: &str) -> Result<Vec<SentCommand>, StoreError> {
        let run_id = run_id.to_owned();
        self.readers.ask(move |reader| reader.commands(&run_id)).await
    }

    async fn runs_with_commands(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError> {
        let runs = runs.to_vec();
        self.readers.ask(move |reader| reader.runs_with_commands(&runs)).await
    }

    async fn withdraw(&self, _run_id: &str, _id: &str) -> Result<(), StoreError> {
        Err(refused())
    }

    fn watch(&self) -> Hints {
        Hints::none()
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
