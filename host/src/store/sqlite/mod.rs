//! A store in one SQLite file, for any number of processes on one machine.
//!
//! Commits go through one writer thread, which takes what has come in meanwhile
//! into the same transaction, so that calls at once share one sync of the disk.
//! A commit is answered when the disk has it (`synchronous = FULL`), save for those
//! that may follow. Several processes write to one file in turn; a process that carries a run holds a
//! locked file, so that the others can tell a run at work from one whose process
//! is gone.

mod audit;
mod known;
mod open;
mod pen;
mod process;
mod queue;
mod read;
mod waiting;
mod write;
mod writer;

use super::{
    AuditFilter, AuditRecord, Commit, CommitError, QueueTurn, RunFilter, RunSummary, Store, StoreError,
    ToolHealth,
};
use async_trait::async_trait;
use known::Known;
use process::Process;
use read::Readers;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tollgate_agent::run::{Numbered, Thread};
use tollgate_agent::state::{KeyScope, StateChange};
use waiting::Waiting;
use writer::Writer;

/// The values of one thread's keys that do not persist.
type Volatile = BTreeMap<Arc<str>, Arc<serde_json::Value>>;

/// Keeps everything in a directory; what a client was told survives the process.
pub struct SqliteStore {
    directory: PathBuf,
    writer: Writer,
    readers: Arc<Readers>,
    known: Arc<Known>,
    process: Arc<Process>,
    /// Keys that do not persist live as long as this process.
    volatile: Mutex<HashMap<Arc<str>, Volatile>>,
}

impl SqliteStore {
    /// Opens the store in this directory, and makes both where they are missing.
    ///
    /// # Errors
    /// The directory cannot be written, the file is no store of Tollgate's, was
    /// written by a newer version, or is damaged.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let (file, connection) = open::prepare(directory)?;
        let process = Arc::new(Process::register(directory)?);
        let connection = Arc::new(Mutex::new(connection));
        let known = Arc::new(Known::new(Arc::clone(&connection)));
        let writer = Writer::start(connection, Arc::clone(&known), &file, Arc::clone(&process))?;
        let readers = Arc::new(Readers::new(file, Arc::clone(&process)));
        let directory = directory.to_owned();
        Ok(Self { directory, writer, readers, known, process, volatile: Mutex::default() })
    }

    /// The id under which this process carries runs.
    #[must_use]
    pub fn process_id(&self) -> &str {
        self.process.id()
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&read::Reader<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = Arc::clone(&self.readers);
        tokio::task::spawn_blocking(move || readers.query(query))
            .await
            .map_err(|e| StoreError(format!("a query of the store broke off: {e}")))?
    }

    /// Keeps what the record leaves out, and adds it to events that come back.
    fn remember<'a>(&self, thread_id: &Arc<str>, changes: impl Iterator<Item = &'a StateChange>) {
        let fleeting: Vec<_> = changes
            .flat_map(|change| change.updates.iter())
            .filter(|update| !update.persistent && update.scope == KeyScope::Thread)
            .filter_map(|update| Some((update.key.clone(), update.value.clone()?)))
            .collect();
        if !fleeting.is_empty() {
            let mut volatile = self.volatile.lock().unwrap_or_else(PoisonError::into_inner);
            volatile.entry(Arc::clone(thread_id)).or_default().extend(fleeting);
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(&self, commit: Commit) -> Result<(), CommitError> {
        let (thread_id, events) = (Arc::clone(&commit.thread_id), Arc::clone(&commit.events));
        self.writer.commit(commit).await?;
        self.remember(&thread_id, events.iter().filter_map(|numbered| numbered.event.change()));
        Ok(())
    }

    async fn thread(&self, thread_id: &str) -> Result<Thread, StoreError> {
        let mut thread = match self.known.get(thread_id) {
            Ok(thread) => thread,
            Err(before) => {
                let id = thread_id.to_owned();
                let thread = self.read(move |reader| reader.thread(&id)).await?;
                self.known.learn(thread_id, &thread, &before);
                thread
            }
        };
        let volatile = self.volatile.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in volatile.get(thread_id).into_iter().flatten() {
            thread.state.set(key, (**value).clone());
        }
        Ok(thread)
    }

    async fn events(&self, run_id: &str, after: u64) -> Result<Vec<Arc<Numbered>>, StoreError> {
        let run_id: Arc<str> = Arc::from(run_id);
        self.writer.catch_up().await?;
        self.read(move |reader| reader.events(&run_id, after)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        self.writer.catch_up().await?;
        self.read(move |reader| reader.runs(&filter)).await
    }

    async fn note(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        if records.is_empty() { Ok(()) } else { self.writer.note(records).await }
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
        self.writer.catch_up().await?;
        self.read(move |reader| reader.audit(&filter)).await
    }

    async fn trapping(&self) -> Result<Vec<ToolHealth>, StoreError> {
        self.writer.catch_up().await?;
        self.read(|reader| reader.trapping()).await
    }

    async fn changes(
        &self,
        thread_id: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>, StoreError> {
        let thread_id = thread_id.to_owned();
        self.read(move |reader| reader.changes(&thread_id, after, limit)).await
    }

    async fn component(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let digest = digest.to_owned();
        self.read(move |reader| reader.component(&digest)).await
    }

    async fn change(&self, thread_id: &str, change: StateChange) -> Result<(), CommitError> {
        self.writer.change(Arc::from(thread_id), change).await
    }

    fn let_go(&self, run_id: &str) {
        self.process.let_go(run_id);
    }

    async fn queue(&self, thread_id: &str) -> Result<QueueTurn, StoreError> {
        let waiting = Waiting::begin(&self.directory, thread_id)?;
        waiting.until_first().await;
        Ok(Box::new(waiting))
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.writer.flush().await
    }
}

#[cfg(test)]
mod tests;
