//! The thread that writes: one transaction for all that waits.

use super::known::Known;
use super::open::{Place, explain};
use super::process::Process;
use super::queue::Queue;
use super::write::write_group;
use crate::store::{AuditRecord, Commit, CommitError, StoreError};
use rusqlite::Connection;
use std::cell::OnceCell;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;
use tollgate_agent::run::{Event, Numbered, RunSpec};
use tollgate_agent::state::StateChange;

type Reply<T> = oneshot::Sender<T>;

/// What is to be written, and who waits for it.
pub(super) enum Job {
    Commit(Box<Prepared>, Reply<Result<(), CommitError>>),
    /// Nobody waits for it.
    Follow(Box<Prepared>),
    /// Only waits until what was sent before is written.
    Flush(Reply<()>),
    Note(Vec<AuditRecord>, Reply<Result<(), StoreError>>),
    Change(Arc<str>, StateChange, Reply<Result<(), CommitError>>),
}

/// A commit and its rows, which are serialized before a transaction begins.
pub(super) struct Prepared {
    /// The commit, without its events.
    pub(super) commit: Commit,
    pub(super) events: Vec<Arc<Numbered>>,
    rows: OnceCell<Result<Rows, StoreError>>,
}

/// What is kept of a commit's events and messages.
pub(super) struct Rows {
    pub(super) events: Vec<String>,
    pub(super) messages: Vec<String>,
}

impl Prepared {
    fn new(mut commit: Commit) -> Self {
        let (run_id, at_ms) = (Arc::clone(&commit.run_id), commit.at_ms);
        let events = (commit.after + 1..).zip(std::mem::take(&mut commit.events));
        let events = events
            .map(|(number, event)| Arc::new(Numbered { run_id: Arc::clone(&run_id), number, at_ms, event }))
            .collect();
        Self { commit, events, rows: OnceCell::new() }
    }

    /// What is to be done, where these are the first events of a run.
    pub(super) fn begins(&self) -> Option<&RunSpec> {
        match &self.events.first()?.event {
            Event::RunStarted { spec } if self.commit.after == 0 => Some(spec),
            _ => None,
        }
    }

    /// The changes of the thread's state among the events, in order.
    pub(super) fn changes(&self) -> impl Iterator<Item = &StateChange> {
        self.events.iter().filter_map(|numbered| numbered.event.change())
    }

    /// The rows; whoever asks first serializes them.
    pub(super) fn rows(&self) -> Result<&Rows, StoreError> {
        let rows = self.rows.get_or_init(|| {
            let events = self.events.iter().map(|numbered| serialize(&numbered.event));
            let messages = self.commit.messages.iter().map(serialize);
            Ok(Rows {
                events: events.collect::<Result<_, _>>()?,
                messages: messages.collect::<Result<_, _>>()?,
            })
        });
        rows.as_ref().map_err(Clone::clone)
    }
}

fn serialize<T: serde::Serialize>(row: &T) -> Result<String, StoreError> {
    serde_json::to_string(row).map_err(|e| StoreError(format!("a record cannot be written: {e}")))
}

/// The thread that writes; it ends when this is dropped.
pub(super) struct Writer {
    queue: Arc<Queue>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        connection: Arc<Mutex<Connection>>,
        known: Arc<Known>,
        file: &Path,
        process: Arc<Process>,
    ) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue::default());
        let place = Place::of(file)?;
        let served = Served(Arc::clone(&queue));
        let write = move || write_all(&connection, &known, &place, &process, &served.0);
        let thread = std::thread::Builder::new().name("tollgate-store".to_owned()).spawn(write);
        let thread = thread.map_err(|e| StoreError(format!("the system gives no thread: {e}")))?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// The commit's events, numbered, once they are durable; at once where they may
    /// follow, unless too many do already.
    pub(super) async fn commit(&self, commit: Commit) -> Result<Vec<Arc<Numbered>>, CommitError> {
        let mut prepared = Box::new(Prepared::new(commit));
        let events = prepared.events.clone();
        if prepared.commit.may_follow {
            match self.queue.push_following(prepared) {
                Ok(()) => return Ok(events),
                Err(back) => prepared = back,
            }
        }
        prepared.rows()?;
        self.ask(|reply| Job::Commit(prepared, reply)).await??;
        Ok(events)
    }

    /// Waits until everything that anybody was told is written.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        if self.queue.is_behind() { self.ask(Job::Flush).await } else { Ok(()) }
    }

    pub(super) async fn note(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        self.ask(|reply| Job::Note(records, reply)).await?
    }

    pub(super) async fn change(&self, thread_id: Arc<str>, change: StateChange) -> Result<(), CommitError> {
        self.ask(|reply| Job::Change(thread_id, change, reply)).await?
    }

    async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, StoreError> {
        let gone = || StoreError("the store's writer has stopped; restart the program".to_owned());
        let (reply, answer) = oneshot::channel();
        self.queue.push(job(reply));
        answer.await.map_err(|_| gone())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // What was sent before is written; a panic there was reported already.
            let _ = thread.join();
        }
    }
}

/// The queue as the thread holds it: when the thread is gone, nobody waits for it.
struct Served(Arc<Queue>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Records that were lost after their calls were answered: the next commit says so.
#[derive(Default)]
struct Lost {
    records: usize,
    why: String,
}

impl Lost {
    fn add(&mut self, run_id: &str, why: &CommitError) {
        self.records += 1;
        if self.records == 1 {
            self.why = format!("{run_id}: {why}");
        }
    }

    fn words(&self) -> String {
        format!("records of answered calls are lost ({}), the first that of {}", self.records, self.why)
    }

    fn take(&mut self) -> Option<CommitError> {
        let lost = std::mem::take(self);
        (lost.records > 0).then(|| CommitError::Failed(StoreError(lost.words())))
    }
}

fn write_all(connection: &Mutex<Connection>, known: &Known, place: &Place, process: &Process, queue: &Queue) {
    let mut lost = Lost::default();
    while let Some(mut jobs) = queue.next_group() {
        if let Some(at) = jobs.iter().position(|job| matches!(job, Job::Commit(..)))
            && let Some(why) = lost.take()
        {
            answer(jobs.remove(at), Err(why));
        }
        let following: Vec<&Prepared> = jobs.iter().filter_map(Job::following).collect();
        let followed = following.len();
        for prepared in following {
            // Nobody waits for these, and whoever computes meanwhile shall not wait for them.
            std::thread::yield_now();
            drop(prepared.rows());
        }
        let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        let written = write_group(&mut connection, known, process, &jobs)
            .map_err(|e| explain("write to", &place.file, &e))
            // A file that nobody finds any more takes commits like any other.
            .and_then(|written| place.check().map(|()| written))
            .unwrap_or_else(|why| jobs.iter().map(|_| Err(CommitError::Failed(why.clone()))).collect());
        known.follow(&jobs, &written);
        drop(connection);
        let before = lost.records;
        for (job, written) in jobs.into_iter().zip(written) {
            if let (Some(prepared), Err(why)) = (job.following(), &written) {
                lost.add(&prepared.commit.run_id, why);
            }
            answer(job, written);
        }
        if lost.records > before {
            tracing::error!("{}", lost.words());
        }
        queue.followed(followed);
    }
}

impl Job {
    fn following(&self) -> Option<&Prepared> {
        match self {
            Self::Follow(prepared) => Some(prepared),
            _ => None,
        }
    }
}

fn answer(job: Job, written: Result<(), CommitError>) {
    // Whoever asked may be gone; what is written stays written.
    match job {
        Job::Commit(_, reply) | Job::Change(_, _, reply) => drop(reply.send(written)),
        Job::Follow(_) => {}
        Job::Flush(reply) => drop(reply.send(())),
        Job::Note(_, reply) => drop(reply.send(written.map_err(|e| StoreError(e.to_string())))),
    }
}
