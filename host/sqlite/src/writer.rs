//! Write jobs and the writer thread, which puts all waiting jobs into one transaction.

use super::process::Process;
use super::queue::Queue;
use super::sizes::{Bytes, Sizes};
use super::thread_cache::ThreadCache;
use super::write_connection::WriteConnection;
use rusqlite::Connection;
use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tollgate_agent::run::{Event, RunSpec, StoredEvent};
use tollgate_agent::state::StateChange;
use tollgate_store::rules::moved;
use tollgate_store::{AuditRecord, Commit, CommitError, Committed, ComponentFile, StoreError};

type Reply<T> = oneshot::Sender<T>;

/// A write job and its reply channel.
pub(super) enum Job {
    Commit(Box<Prepared>, Reply<Written>),
    /// A commit without a waiting caller.
    Follow(Box<Prepared>),
    /// Waits until all earlier jobs are written.
    Flush(Reply<()>),
    Note(Vec<AuditRecord>, Reply<Result<(), StoreError>>),
    Change(Arc<str>, StateChange, Reply<Written>),
    /// Other statements of the same transaction.
    Other(Statements, Reply<Result<(), StoreError>>),
}

/// The statements of a job. They may run again if the transaction failed.
pub(super) type Statements = Box<dyn Fn(&Connection, &Process) -> rusqlite::Result<()> + Send>;

/// The result of a job.
pub(super) type Written = Result<Committed, CommitError>;

/// A commit, with its rows if a caller waits for it. The caller serializes the rows, instead of
/// the thread that writes for all.
pub(super) struct Prepared {
    pub(super) commit: Commit,
    rows: Option<Rows>,
}

/// The serialized events and messages of a commit.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) events: Vec<String>,
    pub(super) messages: Vec<String>,
}

impl Prepared {
    /// Returns the spec of the run, if these are its first events.
    pub(super) fn begins(&self) -> Option<&RunSpec> {
        match &self.commit.events().first()?.event {
            Event::RunStarted { spec } if self.commit.after() == 0 => Some(spec),
            _ => None,
        }
    }

    /// Returns the changes of the thread's state among the events, in order.
    pub(super) fn changes(&self) -> impl Iterator<Item = &StateChange> {
        self.commit.events().iter().filter_map(|numbered| numbered.event.change())
    }

    /// Returns the rows. Those of a commit without a waiting caller are built when it is written
    /// and dropped afterwards, so that a group's rows are never in memory all at once.
    pub(super) fn rows(&self) -> Result<Cow<'_, Rows>, StoreError> {
        self.rows.as_ref().map_or_else(|| self.serialized().map(Cow::Owned), |rows| Ok(Cow::Borrowed(rows)))
    }

    /// Returns the events moved behind this many changes of others, and their rows.
    pub(super) fn moved(&self, revisions: u64) -> Result<(Arc<[StoredEvent]>, Cow<'_, Rows>), StoreError> {
        let mut rows = self.rows()?;
        let events = moved(self.commit.events(), revisions);
        if revisions > 0 {
            let first = events.iter().position(|numbered| numbered.event.change().is_some());
            let changed = first.unwrap_or(events.len())..;
            let written = &mut rows.to_mut().events[changed.clone()];
            for (row, numbered) in written.iter_mut().zip(&events[changed]) {
                *row = serialize(&numbered.event)?;
            }
        }
        Ok((events, rows))
    }

    /// Returns the size of the commit's records and the components that caused them.
    pub(super) fn bytes(&self, rows: &Rows) -> Bytes {
        let mut bytes = Bytes::default();
        let charged = self.commit.charged.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        rows.events.iter().zip(charged).for_each(|(body, component)| bytes.add(body.len(), component));
        rows.messages.iter().for_each(|body| bytes.add(body.len(), None));
        bytes
    }

    fn serialized(&self) -> Result<Rows, StoreError> {
        let events = self.commit.events().iter().map(|numbered| serialize(&numbered.event));
        let messages = self.commit.messages.iter().map(serialize);
        Ok(Rows { events: events.collect::<Result<_, _>>()?, messages: messages.collect::<Result<_, _>>()? })
    }
}

fn serialize<T: serde::Serialize>(row: &T) -> Result<String, StoreError> {
    serde_json::to_string(row).map_err(|e| StoreError(format!("a record cannot be written: {e}")))
}

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

impl Job {
    /// Returns the commit, if no caller waits for it.
    pub(super) fn following(&self) -> Option<&Prepared> {
        match self {
            Self::Follow(prepared) => Some(prepared),
            _ => None,
        }
    }

    /// Returns the components that the commit refers to.
    pub(super) fn components(&self) -> &[ComponentFile] {
        match self {
            Self::Commit(prepared, _) | Self::Follow(prepared) => &prepared.commit.components,
            _ => &[],
        }
    }

    /// Answers the caller, which may be gone; the written data stays.
    pub(super) fn answer(self, written: Written) {
        match self {
            Self::Commit(_, reply) | Self::Change(_, _, reply) => drop(reply.send(written)),
            Self::Follow(_) => {}
            Self::Flush(reply) => drop(reply.send(())),
            Self::Note(_, reply) | Self::Other(_, reply) => {
                drop(reply.send(written.map(drop).map_err(|e| StoreError(e.to_string()))));
            }
        }
    }
}
