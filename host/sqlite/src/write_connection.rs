//! The connection with which the writer thread writes.

use super::explain::explain;
use super::job::{Job, JobResult};
use super::open::{BUSY_TIMEOUT, connect};
use super::recent_keys::RecentKeys;
use super::store_files::StoreFiles;
use super::write::{SharedParts, WrittenGroup, write_group};
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tollgate_store::{CommitError, StoreError};

/// The number of log pages after which a checkpoint moves them into the database: 4 MB, as by
/// SQLite's default.
const MANY_PAGES: i32 = 1_000;
/// The number of log pages after which the writer thread moves all of them itself, and others wait: 64 MB.
const TOO_MANY_PAGES: i32 = 16_000;

/// The connection that writes. It belongs to the writer thread.
pub(super) struct WriteConnection {
    /// Shared with the [`ThreadCache`], which reads its data version.
    connection: Arc<Mutex<Connection>>,
    shared: SharedParts,
    place: Arc<StoreFiles>,
    lost: LostRecords,
    /// The keys written by recent commits.
    recent: RecentKeys,
    /// The length of the log, in pages. SQLite's hook sets it.
    log_pages: Arc<AtomicI32>,
    /// The checkpoint that runs on a thread of its own.
    checkpoint: Option<JoinHandle<i32>>,
    /// The number of log pages that are in the database already.
    moved_pages: i32,
}

impl WriteConnection {
    pub(super) fn new(
        connection: Arc<Mutex<Connection>>,
        file: &Path,
        shared: SharedParts,
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
        let place = Arc::new(StoreFiles::of(file)?);
        let (lost, recent) = (LostRecords::default(), RecentKeys::default());
        Ok(Self { connection, shared, place, lost, recent, log_pages, checkpoint: None, moved_pages: 0 })
    }

    /// Returns the deferred commits that are lost.
    pub(super) fn lost(&self) -> LostRecords {
        self.lost.clone()
    }

    /// Writes these jobs, and answers them.
    pub(super) fn write(&mut self, jobs: Vec<Job>) {
        let connection = Arc::clone(&self.connection);
        let mut connection = locked(&connection);
        let written = self.write_in(&mut connection, &jobs);
        self.shared.cache.follow(&jobs, &written);
        // Answered callers find the connection free.
        drop(connection);
        self.lost.add_from(&jobs, &written);
        jobs.into_iter().zip(written).for_each(|(job, written)| job.answer(written));
    }

    /// Moves the log into the database once it is long. Most of it is moved on another thread, because moving
    /// megabytes takes longer than their commit. The rest is moved here: SQLite begins the log anew only if
    /// nothing was written meanwhile.
    pub(super) fn tidy(&mut self) {
        let pages = self.log_pages.load(Relaxed);
        match self.checkpoint.take_if(|checkpoint| checkpoint.is_finished()) {
            Some(finished) => self.moved_pages = finished.join().unwrap_or_default(),
            None if self.checkpoint.is_some() => return,
            None => {}
        }
        if pages < MANY_PAGES {
            return;
        }
        let left = if self.moved_pages > pages { pages } else { pages - self.moved_pages };
        if left < MANY_PAGES || pages >= TOO_MANY_PAGES {
            move_log(&locked(&self.connection), &self.place);
            self.log_pages.store(0, Relaxed);
            self.moved_pages = 0;
            return;
        }
        let (place, log_pages) = (Arc::clone(&self.place), Arc::clone(&self.log_pages));
        let checkpoint = move || {
            // A connection opens files by their path, which may have been replaced.
            let opened = place.check().and_then(|()| connect(&place.file));
            let checked = opened.and_then(|connection| place.check().map(|()| connection));
            let moved = checked.map_or(0, |connection| move_log(&connection, &place));
            // If that is all, the next commit begins the log anew.
            if moved == log_pages.load(Relaxed) { 0 } else { moved }
        };
        // If there is no thread, it is retried after the next commit.
        let thread = std::thread::Builder::new().name("tollgate-log".to_owned()).spawn(checkpoint);
        self.checkpoint = thread.ok();
    }

    /// Writes these jobs as one transaction. If it fails for a reason that may be that of a single job, each gets a
    /// transaction of its own, so that one job fails no other.
    fn write_in(&mut self, connection: &mut Connection, jobs: &[Job]) -> Vec<JobResult> {
        let mut is_of_one_job = false;
        let transaction = connection.busy_timeout(BUSY_TIMEOUT).and_then(|()| immediate(connection));
        let recent = &mut self.recent;
        // A removed file accepts commits like any other.
        let written = self
            .place
            .check()
            .and_then(|()| {
                transaction.and_then(|of| write_group(of, &self.shared, recent, jobs)).map_err(|e| {
                    is_of_one_job = may_be_of_one_job(&e);
                    explain("write to", &self.place.file, &e)
                })
            })
            .and_then(|written| {
                self.place.check().map(|()| written).map_err(|lost| {
                    let words = "the last writes are in the lost file, so check it before you repeat them";
                    StoreError::new(lost.kind(), format!("{lost}; {words}"))
                })
            });
        match written {
            Ok(WrittenGroup { results, sizes }) => {
                sizes.iter().for_each(|(thread_id, bytes)| self.shared.sizes.follow(thread_id, bytes));
                results
            }
            Err(_) if is_of_one_job && jobs.len() > 1 => {
                self.recent.clear();
                jobs.iter().flat_map(|job| self.write_in(connection, std::slice::from_ref(job))).collect()
            }
            Err(why) => {
                self.recent.clear();
                jobs.iter().map(|_| Err(CommitError::Failed(why.clone()))).collect()
            }
        }
    }
}

impl Drop for WriteConnection {
    /// Waits for the checkpoint, whose connection would otherwise keep the store open.
    fn drop(&mut self) {
        if let Some(checkpoint) = self.checkpoint.take() {
            // A panic of the thread was reported already.
            let _ = checkpoint.join();
        }
    }
}

/// Returns whether one job of a group may be the cause of an error, such as by a record that cannot be read. A disk
/// that is full or fails, and other processes that write, would fail each job again.
fn may_be_of_one_job(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, SystemIoFailure};
    let code = error.sqlite_error_code();
    !matches!(code, Some(DatabaseBusy | DatabaseLocked | DiskFull | SystemIoFailure))
}

/// Moves the log into the database, as far as no one reads it. Returns the number of pages that are there.
fn move_log(connection: &Connection, place: &StoreFiles) -> i32 {
    match connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE) {
        Ok((_, moved)) => moved,
        // Another process runs a checkpoint.
        Err(why) if why.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => 0,
        // Nothing is lost: it is retried after the next commit.
        Err(why) => {
            tracing::warn!("{}", explain("tidy up", &place.file, &why));
            0
        }
    }
}

fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

fn immediate(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// The deferred commits that could not be written. Other commits continue; the loss is logged, and
/// reported to the next caller that flushes the store.
#[derive(Clone, Default)]
pub(super) struct LostRecords(Arc<Mutex<LossReport>>);

#[derive(Default)]
struct LossReport {
    records: usize,
    /// The run of the first one, and why it was lost.
    first: String,
}

impl LostRecords {
    /// Adds those of the jobs that are deferred commits and failed.
    fn add_from(&self, jobs: &[Job], written: &[JobResult]) {
        let mut lost = locked(&self.0);
        let before = lost.records;
        for (job, written) in jobs.iter().zip(written) {
            if let (Some(prepared), Err(why)) = (job.deferred(), written) {
                lost.records += 1;
                if lost.records == 1 {
                    lost.first = format!("{}: {why}", prepared.commit.run_id());
                }
            }
        }
        if lost.records > before {
            tracing::error!("{}", lost.words());
        }
    }

    /// Returns an error if there are any, and forgets them.
    pub(super) fn take(&self) -> Option<StoreError> {
        let lost = std::mem::take(&mut *locked(&self.0));
        (lost.records > 0).then(|| StoreError::other(lost.words()))
    }
}

impl LossReport {
    fn words(&self) -> String {
        format!("records of answered calls are lost ({}), the first that of {}", self.records, self.first)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::job::PreparedChange;
    use crate::open;
    use crate::process::Process;
    use crate::thread_cache::ThreadCache;
    use tokio::sync::oneshot::{Receiver, channel};
    use tollgate_agent::state::StateChange;

    fn change(revision: u64) -> (Job, Receiver<JobResult>) {
        let (reply, answer) = channel();
        let change = PreparedChange::new(Arc::from("t"), StateChange { revision, updates: [].into() });
        (Job::Change(Box::new(change.unwrap()), reply), answer)
    }

    fn connection(directory: &Path) -> WriteConnection {
        let (file, connection) = open::prepare(directory).unwrap();
        let connection = Arc::new(Mutex::new(connection));
        let cache = Arc::new(ThreadCache::new(Arc::clone(&connection)));
        let process = Arc::new(Process::register(directory).unwrap());
        let shared = SharedParts { cache, process, sizes: Arc::default(), volatile: Arc::default() };
        WriteConnection::new(connection, &file, shared).unwrap()
    }

    /// Writes changes until the log is long. Returns the last revision.
    fn fill(writes: &mut WriteConnection, mut revision: u64) -> u64 {
        while writes.log_pages.load(Relaxed) < MANY_PAGES {
            revision += 1;
            let (job, mut answer) = change(revision);
            writes.write(vec![job]);
            assert!(answer.try_recv().unwrap().is_ok());
        }
        revision
    }

    /// Writes one change, and another that conflicts with it. The log is short afterwards.
    fn check_log_begins_anew(writes: &mut WriteConnection, revision: u64) {
        let (job, mut answer) = change(revision);
        let (again, mut refused) = change(revision);
        writes.write(vec![job, again]);
        assert!(answer.try_recv().unwrap().is_ok());
        assert!(matches!(refused.try_recv().unwrap(), Err(CommitError::Conflict(_))));
        let pages = writes.log_pages.load(Relaxed);
        assert!((1..MANY_PAGES / 10).contains(&pages), "the log begins anew: {pages}");
    }

    #[test]
    fn s9_a_job_that_cannot_be_written_fails_no_other() {
        let data = tempfile::tempdir().unwrap();
        let mut writes = connection(data.path());
        let (reply, mut failed) = channel();
        let unreadable = |_: &Connection, _: &Process| Err(rusqlite::Error::QueryReturnedNoRows);
        let ((first, mut before), (second, mut after)) = (change(1), change(2));
        writes.write(vec![first, Job::Other(Box::new(unreadable), reply), second]);
        assert!(before.try_recv().unwrap().is_ok() && after.try_recv().unwrap().is_ok());
        assert!(failed.try_recv().unwrap().is_err());
        let (again, mut refused) = change(2);
        writes.write(vec![again]);
        assert!(matches!(refused.try_recv().unwrap(), Err(CommitError::Conflict(2))));
    }

    #[test]
    fn z3_a_long_log_is_moved_into_the_database_on_another_thread() {
        let data = tempfile::tempdir().unwrap();
        let mut writes = connection(data.path());
        let revision = fill(&mut writes, 0);
        let connection = Arc::clone(&writes.connection);
        let held = locked(&connection);
        writes.tidy();
        assert_eq!(writes.checkpoint.take().unwrap().join().unwrap(), 0, "all was moved");
        drop(held);
        check_log_begins_anew(&mut writes, revision + 1);
    }

    #[test]
    fn the_rest_of_a_long_log_is_moved_between_commits() {
        let data = tempfile::tempdir().unwrap();
        let mut writes = connection(data.path());
        let revision = fill(&mut writes, 0);
        writes.moved_pages = MANY_PAGES - 10;
        writes.tidy();
        assert!(writes.checkpoint.is_none());
        check_log_begins_anew(&mut writes, revision + 1);
    }
}
