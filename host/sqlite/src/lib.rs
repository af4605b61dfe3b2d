//! A store in one SQLite file, for any number of processes on one machine.
//!
//! One writer thread makes all commits. It puts the commits that arrived meanwhile into one
//! transaction, so that concurrent calls share one disk sync. A `Durable` commit is answered when it
//! is on disk (`synchronous = FULL`), and a `Deferred` one at once. Several processes write to one
//! file in turn. A process that drives a run holds a locked file, so that others can distinguish
//! an active run from one whose process is gone.

mod audit;
mod explain;
mod foreign;
mod inbox;
mod job;
mod joined_changes;
mod lock;
mod open;
mod private_dir;
mod process;
mod prune;
mod queue;
mod read;
mod read_only;
mod readers;
mod recent_keys;
mod remove;
mod reserve;
mod sizes;
mod state;
mod store_files;
mod thread_cache;
mod thread_queue;
mod turns;
mod verify;
mod write;
mod write_connection;
mod writer;

pub use lock::DatabaseTurn;
pub use read_only::ReadOnlyStore;
pub use store_files::StoreFiles;

use async_trait::async_trait;
use foreign::ForeignCommits;
use process::Process;
use read::{FoundState, SMALL_THREAD_BYTES};
use readers::{QueryKind, Readers};
use sizes::{Sizes, Subject};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use thread_cache::ThreadCache;
use thread_queue::ThreadQueuePlace;
use tollgate_agent::run::{RunSpec, StoredEvent, Thread};
use tollgate_agent::state::StateChange;
use tollgate_store::{
    AuditFilter, AuditRecord, AuditStore, ClaimedRun, Commit, CommitError, CommitReceipt, ComponentStore,
    CoordinationStore, CopySource, EventPage, Hint, HintSender, Hints, KeyFilter, PageLimit, QueueTurn,
    Record, Remedy, RunCommand, RunFilter, RunStore, RunSummary, SentCommand, StateRead, StateStore,
    StoreError, StoreLimits, ThreadRead, ThreadSize, ToolHealth, VerifyReport, VolatileValues,
};
use write::SharedParts;
use writer::Writer;

/// A store in a directory. Everything that a client received survives the process.
pub struct SqliteStore {
    writer: Writer,
    readers: Arc<Readers>,
    cache: Arc<ThreadCache>,
    process: Arc<Process>,
    limits: StoreLimits,
    sizes: Arc<Sizes>,
    directory: PathBuf,
    place: StoreFiles,
    hints: HintSender,
    foreign: ForeignCommits,
    volatile: Arc<VolatileValues>,
    /// Taken when the store closes and released after everything else is dropped: the last field.
    closing: Option<DatabaseTurn>,
}

impl Drop for SqliteStore {
    /// Moves the log into the database if no other process uses the store, and its files are still the
    /// ones that were opened.
    fn drop(&mut self) {
        self.writer.end();
        self.closing = self.place.last_turn();
        if self.closing.is_some() {
            self.cache.allow_checkpoint();
        }
    }
}

impl SqliteStore {
    /// Opens the store in this directory, creating both if they are missing.
    ///
    /// # Errors
    /// The directory cannot be written, or the file is not a Tollgate store, was written by a
    /// newer version, or is damaged.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let directory = &store_files::without_links(directory)?;
        let (file, connection) = open::prepare(directory)?;
        reserve::keep(directory);
        let process = Arc::new(Process::register(directory)?);
        let connection = Arc::new(Mutex::new(connection));
        let cache = Arc::new(ThreadCache::new(Arc::clone(&connection)));
        let sizes = Arc::new(Sizes::default());
        let volatile = Arc::<VolatileValues>::default();
        let shared = SharedParts {
            cache: Arc::clone(&cache),
            process: Arc::clone(&process),
            sizes: Arc::clone(&sizes),
            volatile: Arc::clone(&volatile),
        };
        let place = StoreFiles::of(&file)?;
        let readers = Arc::new(Readers::new(file.clone(), Arc::clone(&process)));
        let writer = Writer::start(connection, &file, Arc::clone(&readers), shared)?;
        let limits = StoreLimits::default();
        let (hints, foreign) = (HintSender::default(), ForeignCommits::default());
        let directory = directory.clone();
        Ok(Self {
            writer,
            readers,
            cache,
            process,
            limits,
            sizes,
            directory,
            place,
            hints,
            foreign,
            volatile,
            closing: None,
        })
    }

    /// Returns whether there is a store in this directory.
    #[must_use]
    pub fn exists(directory: &Path) -> bool {
        open::file_in(directory).is_file()
    }

    /// Sets the store's limits.
    #[must_use]
    pub fn with_limits(mut self, limits: StoreLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Checks the file and the checksums of every run.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn verify(&self) -> Result<VerifyReport, StoreError> {
        self.writer.catch_up().await?;
        self.readers.ask_as(QueryKind::List, |reader| reader.verify()).await
    }

    /// Returns the size of the records of a thread, component or principal.
    async fn bytes(&self, subject: Subject) -> Result<u64, StoreError> {
        if let Some(bytes) = self.sizes.get(&subject) {
            return Ok(bytes);
        }
        let asked = subject.clone();
        let kind = if subject.is_short() { QueryKind::Short } else { QueryKind::Long };
        let bytes = self.readers.ask_as(kind, move |reader| reader.bytes(&asked)).await?;
        self.sizes.learn(subject, bytes);
        Ok(bytes)
    }

    /// Returns the id under which this process drives runs.
    #[must_use]
    pub fn process_id(&self) -> &str {
        self.process.id()
    }
}

#[async_trait]
impl RunStore for SqliteStore {
    async fn commit(&self, commit: Commit) -> Result<CommitReceipt, CommitError> {
        let (run_id, queued) = (Arc::clone(commit.run_id()), commit.queued);
        let committed = self.writer.commit(commit).await?;
        self.hints.send(if queued { Hint::Work } else { Hint::Events(run_id) });
        Ok(committed)
    }

    async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<StoredEvent>>, StoreError> {
        let run_id: Arc<str> = Arc::from(run_id);
        self.writer.catch_up().await?;
        self.readers.ask(move |reader| reader.events(&run_id, after)).await
    }

    async fn events_page(&self, run_id: &str, after: u64, limit: PageLimit) -> Result<EventPage, StoreError> {
        let run_id: Arc<str> = Arc::from(run_id);
        self.writer.catch_up().await?;
        self.readers.ask(move |reader| reader.events_page(&run_id, after, limit)).await
    }

    async fn run_spec(&self, run_id: &str) -> Result<Option<Arc<RunSpec>>, StoreError> {
        let run_id: Arc<str> = Arc::from(run_id);
        self.writer.catch_up().await?;
        self.readers.ask(move |reader| reader.run_spec(&run_id)).await
    }

    async fn record_bytes(&self, run_id: &str) -> Result<u64, StoreError> {
        let run_id: Arc<str> = Arc::from(run_id);
        self.writer.catch_up().await?;
        self.readers.ask(move |reader| reader.record_bytes(&run_id)).await
    }

    async fn record(&self, run_id: &str) -> Result<Record, StoreError> {
        let run_id: Arc<str> = Arc::from(run_id);
        self.writer.catch_up().await?;
        self.readers.ask(move |reader| reader.record(&run_id)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        self.writer.catch_up().await?;
        // A prompt waits for the runs of its thread.
        let is_list = filter.thread_id.is_none() && filter.run_id.is_none();
        let kind = if is_list { QueryKind::List } else { QueryKind::Long };
        self.readers.ask_as(kind, move |reader| reader.runs(&filter)).await
    }

    async fn admit(
        &self,
        thread_id: Option<&str>,
        component_id: Option<&str>,
        principal: Option<&str>,
    ) -> Result<(), StoreError> {
        check_disk(&self.limits, &self.directory)?;
        if let Some(id) = component_id {
            let bytes = self.bytes(Subject::Component(id.into())).await?;
            self.limits.check_component(id, bytes)?;
        }
        if let Some(id) = thread_id {
            let bytes = self.bytes(Subject::Thread(id.into())).await?;
            self.limits.check_thread(id, bytes)?;
        }
        if let Some(principal) = principal {
            let bytes = self.bytes(Subject::Principal(principal.into())).await?;
            self.limits.check_principal(principal, bytes)?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.writer.flush().await
    }
}

#[async_trait]
impl StateStore for SqliteStore {
    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
        let mut thread = match self.cache.get(thread_id) {
            Ok(thread) => thread,
            Err(before) => {
                let id = thread_id.to_owned();
                let thread = self.readers.ask(move |reader| reader.thread(&id)).await?;
                self.cache.learn(thread_id, &thread, &before);
                thread
            }
        };
        self.volatile.recall(thread_id, &KeyFilter::All, &mut thread.state).await;
        Ok(thread)
    }

    async fn thread_size(&self, thread_id: &str) -> Result<ThreadSize, StoreError> {
        if self.cache.get(thread_id).is_ok() {
            return Ok(ThreadSize::default());
        }
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
        let mut state = match self.cache.get(thread_id) {
            Ok(thread) => thread.state,
            Err(before) => {
                let (id, filter) = (thread_id.to_owned(), wanted.clone());
                let kind = if max_bytes <= SMALL_THREAD_BYTES { QueryKind::Short } else { QueryKind::Long };
                match self.readers.ask_as(kind, move |reader| reader.state(&id, &filter, max_bytes)).await? {
                    FoundState::Part(state) => state,
                    FoundState::Larger(bytes) => return Ok(StateRead::Larger(bytes)),
                    FoundState::Whole(thread) => {
                        self.cache.learn(thread_id, &thread, &before);
                        thread.state
                    }
                }
            }
        };
        self.volatile.recall(thread_id, wanted, &mut state).await;
        Ok(StateRead::State(state))
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

    async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError> {
        self.writer.change(Arc::from(thread_id), change).await.map(drop)
    }
}

#[async_trait]
impl AuditStore for SqliteStore {
    async fn record_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        if records.is_empty() { Ok(()) } else { self.writer.record_audit(records).await }
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        self.writer.catch_up().await?;
        self.readers.ask_as(QueryKind::List, move |reader| reader.audit(&filter)).await
    }

    async fn tool_health(&self) -> Result<Vec<ToolHealth>, StoreError> {
        // Health is that of the store at its place, not of a file that was moved away.
        self.place.check()?;
        self.writer.catch_up().await?;
        self.readers.ask_as(QueryKind::Short, |reader| reader.tool_health()).await
    }
}

#[async_trait]
impl ComponentStore for SqliteStore {
    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let digest = digest.to_owned();
        self.writer.catch_up().await?;
        self.readers.ask_as(QueryKind::List, move |reader| reader.component(&digest)).await
    }

    fn archives(&self) -> bool {
        true
    }
}

#[async_trait]
impl CoordinationStore for SqliteStore {
    async fn acquire(&self, run_id: &str, known: u64) -> Result<u64, CommitError> {
        self.writer.catch_up().await?;
        let run_id = run_id.to_owned();
        self.writer
            .run(move |connection, process| process::acquire(connection, process, &run_id, known))
            .await?
    }

    async fn release(&self, run_id: &str, epoch: u64) {
        self.process.release(run_id, epoch);
        self.hints.send(Hint::Work);
    }

    async fn claim(&self, agents: &[String], limit: usize) -> Result<Vec<ClaimedRun>, StoreError> {
        let agents = agents.to_vec();
        self.writer.run(move |connection, process| inbox::claim(connection, process, &agents, limit)).await
    }

    async fn queue(&self, thread_id: &str) -> Result<QueueTurn, StoreError> {
        let waiting = ThreadQueuePlace::begin(&self.directory, thread_id)?;
        waiting.until_first().await;
        Ok(Box::new(waiting))
    }

    async fn send(&self, run_id: &str, id: &str, command: RunCommand) -> Result<bool, StoreError> {
        self.writer.catch_up().await?;
        let (run, id) = (run_id.to_owned(), id.to_owned());
        let sent = self.writer.run(move |connection, _| inbox::send(connection, &run, &id, &command)).await?;
        let sent = sent.ok_or_else(|| StoreError::unknown_run(run_id))?;
        if sent {
            self.hints.send(Hint::Commands(Arc::from(run_id)));
        }
        Ok(sent)
    }

    async fn commands(&self, run_id: &str) -> Result<Vec<SentCommand>, StoreError> {
        let run_id = run_id.to_owned();
        self.readers.ask(move |reader| reader.commands(&run_id)).await
    }

    async fn runs_with_commands(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError> {
        let runs = runs.to_vec();
        self.readers.ask(move |reader| reader.runs_with_commands(&runs)).await
    }

    async fn withdraw(&self, run_id: &str, id: &str) -> Result<(), StoreError> {
        let (run_id, id) = (run_id.to_owned(), id.to_owned());
        self.writer.run(move |connection, _| inbox::withdraw(connection, &run_id, &id)).await
    }

    fn watch(&self) -> Hints {
        let hints = self.hints.watch();
        self.foreign.begin(&self.cache, &self.hints);
        hints
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.flush().await
    }
}

#[async_trait]
impl CopySource for SqliteStore {
    fn place(&self) -> String {
        self.directory.display().to_string()
    }

    async fn thread_ids(&self) -> Result<Vec<String>, StoreError> {
        self.writer.catch_up().await?;
        self.readers.ask_as(QueryKind::List, |reader| reader.thread_ids()).await
    }

    async fn run_components(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.writer.catch_up().await?;
        self.readers.ask_as(QueryKind::List, |reader| reader.run_components()).await
    }

    async fn pending_commands(&self, run_id: &str) -> Result<Vec<SentCommand>, StoreError> {
        self.commands(run_id).await
    }
}

/// Checks that the directory's disk has enough free space.
fn check_disk(limits: &StoreLimits, directory: &Path) -> Result<(), StoreError> {
    // A file system that does not report its free space returns its own errors when it is
    // full.
    let Ok(disk) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= limits.min_free_bytes {
        return Ok(());
    }
    let message = format!(
        "{free} bytes are free on the disk of the store, and min_free_bytes = {} must stay free; free some room",
        limits.min_free_bytes
    );
    Err(StoreError::full(message).with_remedy(Remedy::MakeRoom))
}

/// Creates a data directory that belongs to this user alone, or closes an existing one to others.
///
/// # Errors
/// It cannot be created, or it belongs to another user or holds other files.
pub fn make_private_directory(directory: &Path) -> Result<(), StoreError> {
    private_dir::make(directory)
}

#[cfg(test)]
mod tests;
