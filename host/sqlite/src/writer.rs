//! The writer thread, which puts all waiting jobs into one transaction.

use super::job::{Job, Prepared, Reply, Written};
use super::process::Process;
use super::queue::Queue;
use super::sizes::Sizes;
use super::thread_cache::ThreadCache;
use super::write_connection::WriteConnection;
use rusqlite::Connection;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tollgate_agent::state::StateChange;
use tollgate_store::{AuditRecord, Commit, Committed, StoreError};

/// The handle of the writer thread, which ends when the handle is dropped.
pub(super) struct Writer {
    queue: Arc<Queue>,
    pen: Arc<WriteConnection>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        connection: Arc<Mutex<Connection>>,
        known: Arc<ThreadCache>,
        file: &Path,
        process: Arc<Process>,
        sizes: Arc<Sizes>,
    ) -> Result<Self, StoreError> {
        let pen = Arc::new(WriteConnection::new(connection, known, file, process, sizes)?);
        let queue = Arc::new(Queue::default());
        let (served, of_thread) = (Served(Arc::clone(&queue)), Arc::clone(&pen));
        let write = move || write_all(&of_thread, &served.0);
        let thread = std::thread::Builder::new().name("tollgate-store".to_owned()).spawn(write);
        let thread = thread.map_err(|e| StoreError(format!("cannot start the writer thread: {e}")))?;
        Ok(Self { queue, pen, thread: Some(thread) })
    }

    /// Commits the events and returns once they are durable. Returns at once if they may follow,
    /// unless too many are already pending.
    pub(super) async fn commit(&self, commit: Commit) -> Written {
        let mut prepared = Box::new(Prepared { commit, rows: None });
        if prepared.commit.may_follow {
            match self.queue.push_following(prepared) {
                Ok(()) => return Ok(Committed::default()),
                Err(back) => prepared = back,
            }
        }
        prepared.rows = Some(prepared.serialized()?);
        self.ask(|reply| Job::Commit(prepared, reply)).await?
    }

    /// Waits until everything that was answered is written.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        if self.queue.is_behind() { self.ask(Job::Flush).await } else { Ok(()) }
    }

    /// Like [`catch_up`](Self::catch_up), and reports lost records.
    pub(super) async fn flush(&self) -> Result<(), StoreError> {
        self.catch_up().await?;
        self.pen.take_lost().map_or(Ok(()), Err)
    }

    pub(super) async fn note(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        self.ask(|reply| Job::Note(records, reply)).await?
    }

    pub(super) async fn change(&self, thread_id: Arc<str>, change: StateChange) -> Written {
        self.ask(|reply| Job::Change(thread_id, change, reply)).await?
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
        value.ok_or_else(|| StoreError("the store's writer gave no answer; restart the program".to_owned()))
    }

    async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, StoreError> {
        let gone = || StoreError("the store's writer has stopped; restart the program".to_owned());
        let (reply, answer) = oneshot::channel();
        if let Some(job) = self.write_at_once(job(reply)) {
            self.queue.push(job);
        }
        answer.await.map_err(|_| gone())
    }

    /// Writes the job on this thread if that blocks no one; otherwise returns it.
    fn write_at_once(&self, job: Job) -> Option<Job> {
        // On a single-threaded runtime it would block all tasks.
        let others = Handle::try_current().is_ok_and(|runtime| runtime.metrics().num_workers() > 1);
        if !others || !self.queue.is_idle() {
            return Some(job);
        }
        self.pen.write_at_once(job, || self.queue.is_idle()).err()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // Earlier jobs are written by then; a panic of the thread was reported already.
            let _ = thread.join();
        }
    }
}

/// The writer thread's guard of the queue: once the thread is gone, the queue is abandoned.
struct Served(Arc<Queue>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

fn write_all(pen: &WriteConnection, queue: &Queue) {
    while let Some(jobs) = queue.next_group() {
        let followed = jobs.iter().filter_map(Job::following).count();
        pen.write(jobs);
        queue.followed(followed);
        pen.tidy();
    }
}
