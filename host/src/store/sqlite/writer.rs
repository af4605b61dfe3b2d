//! The thread that writes, and the queue of what it is to write: one transaction for
//! all that waits.

use super::open::{Place, explain};
use super::process::Process;
use super::write::write_group;
use crate::store::{AuditRecord, Commit, CommitError, StoreError};
use rusqlite::Connection;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tollgate_agent::message::Message;
use tollgate_agent::run::Event;
use tollgate_agent::state::StateChange;

/// The most commits that share one transaction.
const MAX_GROUP: usize = 256;
/// How long a commit for which nobody waits is kept for others to join it.
const FOLLOWS_WITHIN: Duration = Duration::from_millis(50);

type Reply<T> = oneshot::Sender<T>;

/// What is to be written, and who waits for it.
pub(super) enum Job {
    Commit(Prepared, Reply<Result<Vec<Event>, CommitError>>),
    /// Nobody waits for it.
    Follow(Prepared),
    /// Only waits until what was sent before is written.
    Flush(Reply<()>),
    Note(Vec<AuditRecord>, Reply<Result<(), StoreError>>),
    Change(Arc<str>, StateChange, Reply<Result<(), CommitError>>),
}

/// A commit whose rows were serialized by whoever asked for it.
pub(super) struct Prepared {
    pub(super) commit: Commit,
    pub(super) events: Vec<String>,
    pub(super) messages: Vec<String>,
}

/// The thread that writes; it ends when this is dropped.
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    /// Commits for which nobody waits and that are not written yet.
    following: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        file: &Path,
        process: Arc<Process>,
    ) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel();
        let place = Place::of(file)?;
        let following = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&following);
        let write = move || write_all(connection, &place, &process, &queue, &counted);
        let thread = std::thread::Builder::new().name("tollgate-store".to_owned()).spawn(write).ok();
        Ok(Self { jobs: Some(jobs), following, thread })
    }

    pub(super) async fn commit(&self, commit: Commit) -> Result<Vec<Event>, CommitError> {
        let events = commit.events.iter().map(serialize).collect::<Result<_, _>>()?;
        let messages = commit.messages.iter().map(serialize::<Message>).collect::<Result<_, _>>()?;
        let prepared = Prepared { commit, events, messages };
        if prepared.commit.may_follow {
            let events = prepared.commit.events.clone();
            self.following.fetch_add(1, Ordering::SeqCst);
            self.send(Job::Follow(prepared))?;
            return Ok(events);
        }
        let (reply, answer) = oneshot::channel();
        self.send(Job::Commit(prepared, reply))?;
        answer.await.map_err(|_| StoreError(GONE.to_owned()))?
    }

    /// Waits until everything that anybody was told is written.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        if self.following.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        self.send(Job::Flush(reply))?;
        answer.await.map_err(|_| StoreError(GONE.to_owned()))
    }

    pub(super) async fn note(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Note(records, reply))?;
        answer.await.map_err(|_| StoreError(GONE.to_owned()))?
    }

    pub(super) async fn change(&self, thread_id: Arc<str>, change: StateChange) -> Result<(), CommitError> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Change(thread_id, change, reply))?;
        answer.await.map_err(|_| StoreError(GONE.to_owned()))?
    }

    fn send(&self, job: Job) -> Result<(), StoreError> {
        let taken = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if taken { Ok(()) } else { Err(StoreError(GONE.to_owned())) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // What was sent before is written; a panic there was reported already.
            let _ = thread.join();
        }
    }
}

const GONE: &str = "the store's writer has stopped; restart the program";

fn serialize<T: serde::Serialize>(row: &T) -> Result<String, StoreError> {
    serde_json::to_string(row).map_err(|e| StoreError(format!("a record cannot be written: {e}")))
}

fn write_all(
    mut connection: Connection,
    place: &Place,
    process: &Process,
    queue: &mpsc::Receiver<Job>,
    following: &AtomicUsize,
) {
    // Of a record that was lost after its call was answered: the next commit says so.
    let mut lost = None;
    while let Ok(first) = queue.recv() {
        let mut jobs = gathered(first, queue);
        if lost.is_some()
            && let Some(at) = jobs.iter().position(|job| matches!(job, Job::Commit(..)))
            && let Some(why) = lost.take()
        {
            answer(jobs.remove(at), Err(CommitError::Failed(why)));
        }
        let follow = jobs.iter().filter(|job| matches!(job, Job::Follow(_))).count();
        let written = write_group(&mut connection, process, &jobs)
            .map_err(|e| explain("write to", &place.file, &e))
            // A file that nobody finds any more takes commits like any other.
            .and_then(|written| place.check().map(|()| written));
        match written {
            Ok(written) => jobs.into_iter().zip(written).for_each(|(job, written)| answer(job, written)),
            Err(why) => {
                if follow > 0 {
                    tracing::error!("the records of {follow} calls that were answered are lost: {why}");
                    lost = Some(why.clone());
                }
                jobs.into_iter().for_each(|job| answer(job, Err(CommitError::Failed(why.clone()))));
            }
        }
        following.fetch_sub(follow, Ordering::SeqCst);
    }
}

/// What is written as one transaction: what has come by now, and where nobody waits for
/// any of it, what comes soon.
fn gathered(first: Job, queue: &mpsc::Receiver<Job>) -> Vec<Job> {
    let until = Instant::now() + FOLLOWS_WITHIN;
    let mut jobs = vec![first];
    while jobs.len() < MAX_GROUP && matches!(jobs.last(), Some(Job::Follow(_))) {
        match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(job) => jobs.push(job),
            Err(_) => break,
        }
    }
    let room = MAX_GROUP.saturating_sub(jobs.len());
    jobs.extend(queue.try_iter().take(room));
    jobs
}

fn answer(job: Job, written: Result<(), CommitError>) {
    // Whoever asked may be gone; what is written stays written.
    match job {
        Job::Commit(prepared, reply) => drop(reply.send(written.map(|()| prepared.commit.events))),
        Job::Follow(_) => {}
        Job::Flush(reply) => drop(reply.send(())),
        Job::Note(_, reply) => drop(reply.send(written.map_err(|e| StoreError(e.to_string())))),
        Job::Change(_, _, reply) => drop(reply.send(written)),
    }
}
