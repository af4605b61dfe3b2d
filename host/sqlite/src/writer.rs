//! The writer thread, which alone writes to the file and puts all waiting jobs into one
//! transaction.

use super::job::{Job, JobResult, PreparedChange, PreparedCommit, Reply};
use super::process::Process;
use super::queue::Queue;
use super::read::Reader;
use super::readers::{QueryKind, Readers};
use super::write::SharedParts;
use super::write_connection::{LostRecords, WriteConnection};
use rusqlite::Connection;
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tollgate_agent::state::StateChange;
use tollgate_store::rules::{CommitRows, aside};
use tollgate_store::{
    AuditRecord, Commit, CommitReceipt, ComponentFile, Durability, StoreError, VolatileValues,
};

/// The handle of the writer thread, which ends when the handle is dropped.
pub(super) struct Writer {
    queue: Arc<Queue>,
    lost: LostRecords,
    readers: Arc<Readers>,
    volatile: Arc<VolatileValues>,
    process: Arc<Process>,
    /// The digests of the components that stored commits of this process refer to.
    stored: Mutex<HashSet<Arc<str>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        connection: Arc<Mutex<Connection>>,
        file: &Path,
        readers: Arc<Readers>,
        shared: SharedParts,
    ) -> Result<Self, StoreError> {
        let (volatile, process) = (Arc::clone(&shared.volatile), Arc::clone(&shared.process));
        let connection = WriteConnection::new(connection, file, shared)?;
        let (queue, lost) = (Arc::new(Queue::default()), connection.lost());
        let served = QueueGuard(Arc::clone(&queue));
        let write = move || write_all(connection, &served.0);
        let thread = std::thread::Builder::new().name("tollgate-store".to_owned()).spawn(write);
        let thread = thread.map_err(|e| StoreError::other(format!("cannot start the writer thread: {e}")))?;
        let stored = Mutex::default();
        Ok(Self { queue, lost, readers, volatile, process, stored, thread: Some(thread) })
    }

    /// Commits the events and returns once they are durable. A deferred commit returns at once,
    /// unless it is large or too many are already pending.
    pub(super) async fn commit(&self, commit: Commit) -> JobResult {
        let releases = self.process.releases();
        let unknown = self.unknown_components(&commit);
        let rows = if unknown.is_empty() { CommitRows::small(&commit)? } else { None };
        let stored: Vec<_> = unknown.iter().map(|component| Arc::clone(&component.digest)).collect();
        let (reply, answer) = oneshot::channel();
        match rows {
            Some(rows) => {
                submit(&self.queue, &self.volatile, releases, PreparedCommit::new(commit, rows), reply);
            }
            None => self.submit_aside(commit, releases, unknown, reply),
        }
        let committed = answer.await.map_err(|_| gone())??;
        if !stored.is_empty() {
            self.stored().extend(stored);
        }
        Ok(committed)
    }

    /// Prepares a commit that takes long, and queues it. A task does so, and thus it is committed even if its caller
    /// leaves meanwhile, as others are.
    fn submit_aside(
        &self,
        commit: Commit,
        releases: u64,
        unknown: Vec<ComponentFile>,
        reply: Reply<JobResult>,
    ) {
        let (queue, readers) = (Arc::clone(&self.queue), Arc::clone(&self.readers));
        let volatile = Arc::clone(&self.volatile);
        tokio::spawn(async move {
            match prepared_aside(&readers, commit, unknown).await {
                Ok(prepared) => submit(&queue, &volatile, releases, prepared, reply),
                Err(why) => drop(reply.send(Err(why.into()))),
            }
        });
    }

    /// Returns the components of a commit that no stored commit of this process refers to.
    fn unknown_components(&self, commit: &Commit) -> Vec<ComponentFile> {
        let stored = self.stored();
        let unknown = commit.components.iter().filter(|component| !stored.contains(&component.digest));
        unknown.cloned().collect()
    }

    fn stored(&self) -> MutexGuard<'_, HashSet<Arc<str>>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything that was answered is written.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        if self.queue.is_behind() { self.ask(Job::Flush).await } else { Ok(()) }
    }

    /// Like [`catch_up`](Self::catch_up), and reports lost records.
    pub(super) async fn flush(&self) -> Result<(), StoreError> {
        self.catch_up().await?;
        self.lost.take().map_or(Ok(()), Err)
    }

    pub(super) async fn record_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        self.ask(|reply| Job::Note(records, reply)).await?
    }

    /// Commits a change that belongs to no run. Such changes are rare, and may be large.
    pub(super) async fn change(&self, thread_id: Arc<str>, change: StateChange) -> JobResult {
        let prepared = Box::new(aside(true, move || PreparedChange::new(thread_id, change)).await?);
        self.ask(|reply| Job::Change(prepared, reply)).await?
    }

    /// Runs these statements in a transaction, and returns their result once it is durable.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        statements: impl Fn(&Connection, &Process) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let result = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&result);
        let keep = move |connection: &Connection, process: &Process| {
            let value = statements(connection, process)?;
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            Ok(())
        };
        self.ask(|reply| Job::Other(Box::new(keep), reply)).await??;
        let value = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.ok_or_else(|| StoreError::other("the store's writer gave no answer; restart the program"))
    }

    /// Ends the thread once earlier jobs are written.
    pub(super) fn end(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported already.
            let _ = thread.join();
        }
    }

    async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(job(reply));
        answer.await.map_err(|_| gone())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

fn gone() -> StoreError {
    StoreError::unusable("the store's writer has stopped; restart the program")
}

/// Prepares a commit on a thread that may block, and reads the components that the store does not have. The run
/// waits for each of its commits, so the event before this one can be read already.
async fn prepared_aside(
    readers: &Arc<Readers>,
    commit: Commit,
    mut components: Vec<ComponentFile>,
) -> Result<PreparedCommit, StoreError> {
    let (run_id, after) = (Arc::clone(commit.run_id()), commit.after());
    let find = move |reader: &Reader<'_>| {
        // If that fails, so does the next query.
        components.retain(|component| !reader.has_component(&component.digest).unwrap_or_default());
        Ok((reader.checksum(&run_id, after)?, components))
    };
    let (before, components) = readers.ask_as(QueryKind::Short, find).await?;
    let prepare = move || {
        let mut prepared = PreparedCommit::large(commit, before)?;
        let read = components.into_iter().filter_map(|component| Some((component.read()?, component.digest)));
        prepared.components = read.map(|(bytes, digest)| (digest, bytes)).collect();
        Ok(prepared)
    };
    aside(true, prepare).await
}

/// Queues a commit that was made after this number of releases. A deferred one is answered at once, unless it is
/// large or too many are already pending.
fn submit(
    queue: &Queue,
    volatile: &VolatileValues,
    releases: u64,
    mut prepared: PreparedCommit,
    reply: Reply<JobResult>,
) {
    prepared.releases = releases;
    if prepared.volatile_bytes > 0 {
        prepared.volatile_bytes += volatile.bytes(&prepared.commit.thread_id);
    }
    let mut prepared = Box::new(prepared);
    if prepared.commit.durability == Durability::Deferred {
        match queue.push_deferred(prepared) {
            Ok(()) => return drop(reply.send(Ok(CommitReceipt::default()))),
            Err(back) => prepared = back,
        }
    }
    queue.push(Job::Commit(prepared, reply));
}

/// The writer thread's guard of the queue: once the thread is gone, the queue is abandoned.
struct QueueGuard(Arc<Queue>);

impl Drop for QueueGuard {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

fn write_all(mut connection: WriteConnection, queue: &Queue) {
    while let Some(jobs) = queue.next_group() {
        let deferred: Vec<usize> = jobs.iter().filter_map(Job::deferred).map(PreparedCommit::bytes).collect();
        connection.write(jobs);
        queue.settle_deferred(&deferred);
        connection.tidy();
    }
}
