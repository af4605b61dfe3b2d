//! The single connection that writes: who may use it when, and how results are reported.
//!
//! The writer thread uses it for all jobs. A task uses it directly while it is free, which saves
//! waking a thread and being woken. A task blocks a thread it shares with others, so it writes
//! directly only if the last write was fast, no other process is writing, no component has to be
//! copied, and the log need not be shortened.

use super::explain::explain;
use super::job::{Job, Written};
use super::open::BUSY_TIMEOUT;
use super::place::Place;
use super::process::Process;
use super::recent::Recent;
use super::sizes::Sizes;
use super::thread_cache::ThreadCache;
use super::write::write_group;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tollgate_store::{CommitError, StoreError};

/// The maximum time for which a task may block others: two turns of a computing guest.
const QUICK: Duration = Duration::from_millis(2);
/// The number of log pages after which a checkpoint moves them into the database: 4 MB, as by
/// SQLite's default.
const MANY_PAGES: i32 = 1_000;

/// The maximum number of remembered digests.
const MOST_KEPT: usize = 1_000;

/// The connection that writes.
pub(super) struct WriteConnection {
    connection: Arc<Mutex<Connection>>,
    known: Arc<ThreadCache>,
    place: Place,
    process: Arc<Process>,
    sizes: Arc<Sizes>,
    lost: Mutex<Lost>,
    /// The keys written by recent commits.
    recent: Mutex<Recent>,
    /// Components, by digest, whose bytes the store already has. A commit copies the bytes of
    /// others.
    kept: Mutex<HashSet<Arc<str>>>,
    /// The length of the log, in pages.
    log_pages: Arc<AtomicI32>,
    /// Whether the last write took at most [`QUICK`].
    was_quick: AtomicBool,
}

/// Jobs and their results.
type Done = Vec<(Job, Written)>;

impl WriteConnection {
    pub(super) fn new(
        connection: Arc<Mutex<Connection>>,
        known: Arc<ThreadCache>,
        file: &Path,
        process: Arc<Process>,
        sizes: Arc<Sizes>,
    ) -> Result<Self, StoreError> {
        let log_pages = Arc::new(AtomicI32::new(0));
        let counted = Arc::clone(&log_pages);
        // Replaces SQLite's own hook, which would run the checkpoint within the commit.
        let count = move |_: &mut rusqlite::hooks::Wal, pages| {
            counted.store(pages, Relaxed);
            Ok(())
        };
        let hooked = locked(&connection).wal_hook(Some(count));
        hooked.map_err(|e| explain("open", file, &e))?;
        let (place, was_quick) = (Place::of(file)?, AtomicBool::new(false));
        let (lost, recent, kept) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Self { connection, known, place, process, sizes, lost, recent, kept, log_pages, was_quick })
    }

    /// Writes these jobs as one transaction, and answers them.
    pub(super) fn write(&self, jobs: Vec<Job>) {
        let mut connection = locked(&self.connection);
        let began = Instant::now();
        let turn = connection.busy_timeout(BUSY_TIMEOUT);
        let transaction = turn.and_then(|()| immediate(&mut connection));
        let done = self.write_in(transaction, jobs, began);
        // Answered callers find the connection free.
        drop(connection);
        self.answer(done);
    }

    /// Like [`write`](Self::write) for one job, without blocking; returns the job if it would
    /// have to wait. `is_turn` returns whether there are no earlier jobs; it is called while
    /// nothing else in this process can write.
    pub(super) fn write_at_once(&self, job: Job, is_turn: impl FnOnce() -> bool) -> Result<(), Job> {
        let ready = self.was_quick.load(Relaxed) && !self.has_much_to_move() && !self.copies_components(&job);
        let Some(mut connection) = ready.then(|| self.connection.try_lock().ok()).flatten() else {
            return Err(job);
        };
        if !is_turn() || connection.busy_timeout(Duration::ZERO).is_err() {
            return Err(job);
        }
        let began = Instant::now();
        let Ok(transaction) = immediate(&mut connection) else { return Err(job) };
        let done = self.write_in(Ok(transaction), vec![job], began);
        drop(connection);
        self.answer(done);
        Ok(())
    }

    /// Returns the records lost since the last report.
    pub(super) fn take_lost(&self) -> Option<StoreError> {
        locked(&self.lost).take()
    }

    /// Runs a checkpoint once the log is long.
    pub(super) fn tidy(&self) {
        if !self.has_much_to_move() {
            return;
        }
        let moved = locked(&self.connection).wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE);
        // If another process runs a checkpoint, there is nothing to do. If it fails, nothing is
        // lost: it is retried after the next commit.
        if let Err(why) = moved
            && why.sqlite_error_code() != Some(rusqlite::ErrorCode::DatabaseBusy)
        {
            tracing::warn!("{}", explain("tidy up", &self.place.file, &why));
        }
        self.log_pages.store(0, Relaxed);
    }

    fn copies_components(&self, job: &Job) -> bool {
        let kept = locked(&self.kept);
        job.components().iter().any(|component| !kept.contains(&component.digest))
    }

    fn has_much_to_move(&self) -> bool {
        self.log_pages.load(Relaxed) >= MANY_PAGES
    }

    fn write_in(
        &self,
        transaction: rusqlite::Result<Transaction<'_>>,
        jobs: Vec<Job>,
        began: Instant,
    ) -> Done {
        let mut recent = locked(&self.recent);
        // A removed file accepts commits like any other.
        let written = self
            .place
            .check()
            .and_then(|()| {
                transaction
                    .and_then(|of| write_group(of, &self.known, &self.process, &mut recent, &jobs))
                    .map_err(|e| explain("write to", &self.place.file, &e))
            })
            .inspect_err(|_| recent.clear())
            .and_then(|written| {
                self.place.check().map(|()| written).map_err(|lost| {
                    StoreError(format!(
                        "{lost}; the last writes are in the lost file, so check it before you repeat them"
                    ))
                })
            })
            .unwrap_or_else(|why| jobs.iter().map(|_| Err(CommitError::Failed(why.clone()))).collect());
        drop(recent);
        self.known.follow(&jobs, &written);
        let mut kept = locked(&self.kept);
        if kept.len() > MOST_KEPT {
            kept.clear();
        }
        for (job, _) in jobs.iter().zip(&written).filter(|(_, written)| written.is_ok()) {
            if let Job::Commit(prepared, _) | Job::Follow(prepared) = job
                && let Ok(rows) = prepared.rows()
            {
                self.sizes.follow(&prepared.commit.thread_id, &prepared.bytes(&rows));
            }
            kept.extend(job.components().iter().map(|component| Arc::clone(&component.digest)));
        }
        drop(kept);
        self.was_quick.store(began.elapsed() < QUICK, Relaxed);
        jobs.into_iter().zip(written).collect()
    }

    fn answer(&self, done: Done) {
        let mut lost = locked(&self.lost);
        let before = lost.records;
        for (job, written) in done {
            if let (Some(prepared), Err(why)) = (job.following(), &written) {
                lost.add(prepared.commit.run_id(), why);
            }
            job.answer(written);
        }
        if lost.records > before {
            tracing::error!("{}", lost.words());
        }
    }
}

fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

fn immediate(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Records that were lost after their calls were answered. Commits continue; the loss is reported
/// to callers that check whether all records were kept.
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

    fn take(&mut self) -> Option<StoreError> {
        let lost = std::mem::take(self);
        (lost.records > 0).then(|| StoreError(lost.words()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::open;
    use tokio::sync::oneshot::{Receiver, channel};
    use tollgate_agent::state::StateChange;

    fn pen(directory: &Path) -> WriteConnection {
        let (file, connection) = open::prepare(directory).unwrap();
        let connection = Arc::new(Mutex::new(connection));
        let known = Arc::new(ThreadCache::new(Arc::clone(&connection)));
        let process = Arc::new(Process::register(directory).unwrap());
        WriteConnection::new(connection, known, &file, process, Arc::default()).unwrap()
    }

    fn change(revision: u64) -> (Job, Receiver<Written>) {
        let (reply, answer) = channel();
        (Job::Change(Arc::from("t"), StateChange { revision, updates: [].into() }, reply), answer)
    }

    #[test]
    fn who_asks_writes_only_where_nobody_has_to_be_waited_for() {
        let data = tempfile::tempdir().unwrap();
        let pen = pen(data.path());
        let (job, mut answer) = change(1);
        let job = pen.write_at_once(job, || true).unwrap_err();
        pen.write(vec![job]);
        assert!(answer.try_recv().unwrap().is_ok(), "how quick the disk is was not known before");
        pen.was_quick.store(true, Relaxed);
        let (job, mut answer) = change(2);
        let job = pen.write_at_once(job, || false).unwrap_err();
        {
            let _at_work = locked(&pen.connection);
            assert!(pen.write_at_once(change(2).0, || true).is_err());
        }
        let other = open::connect(&pen.place.file).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let job = pen.write_at_once(job, || true).unwrap_err();
        assert!(answer.try_recv().is_err());
        other.execute_batch("ROLLBACK").unwrap();
        assert!(pen.write_at_once(job, || true).is_ok());
        assert!(answer.try_recv().unwrap().is_ok());
        // Rejected jobs are answered too, by the task that wrote them.
        pen.was_quick.store(true, Relaxed);
        let (again, mut answer) = change(2);
        assert!(pen.write_at_once(again, || true).is_ok());
        assert!(matches!(answer.try_recv().unwrap(), Err(CommitError::Conflict(_))));
    }

    #[test]
    fn the_log_is_moved_between_commits_and_begun_anew() {
        let data = tempfile::tempdir().unwrap();
        let pen = pen(data.path());
        let mut revision = 0;
        while !pen.has_much_to_move() {
            revision += 1;
            pen.write(vec![change(revision).0]);
        }
        pen.was_quick.store(true, Relaxed);
        assert!(pen.write_at_once(change(revision + 1).0, || true).is_err(), "that is not for a task");
        pen.tidy();
        pen.was_quick.store(true, Relaxed);
        assert!(pen.write_at_once(change(revision + 1).0, || true).is_ok());
        let pages = pen.log_pages.load(Relaxed);
        assert!((1..MANY_PAGES / 10).contains(&pages), "{pages}");
    }
}
