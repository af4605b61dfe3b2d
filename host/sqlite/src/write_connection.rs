//! The connection with which the writer thread writes.

use super::explain::explain;
use super::job::{Job, JobResult};
use super::open::BUSY_TIMEOUT;
use super::recent_keys::RecentKeys;
use super::store_files::StoreFiles;
use super::write::{SharedParts, WrittenGroup, write_group};
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tollgate_store::{CommitError, StoreError};

/// The number of log pages after which a checkpoint moves them into the database: 4 MB, as by
/// SQLite's default.
const MANY_PAGES: i32 = 1_000;

/// The connection that writes. It belongs to the writer thread.
pub(super) struct WriteConnection {
    /// Shared with the [`ThreadCache`], which reads its data version.
    connection: Arc<Mutex<Connection>>,
    shared: SharedParts,
    place: StoreFiles,
    lost: LostRecords,
    /// The keys written by recent commits.
    recent: RecentKeys,
    /// The length of the log, in pages. SQLite's hook sets it.
    log_pages: Arc<AtomicI32>,
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
        let (place, lost, recent) = (StoreFiles::of(file)?, LostRecords::default(), RecentKeys::default());
        Ok(Self { connection, shared, place, lost, recent, log_pages })
    }

    /// Returns the deferred commits that are lost.
    pub(super) fn lost(&self) -> LostRecords {
        self.lost.clone()
    }

    /// Writes these jobs as one transaction, and answers them.
    pub(super) fn write(&mut self, jobs: Vec<Job>) {
        let connection = Arc::clone(&self.connection);
        let mut connection = locked(&connection);
        let written = self.write_in(&mut connection, &jobs);
        self.shared.known.follow(&jobs, &written);
        // Answered callers find the connection free.
        drop(connection);
        self.lost.add_from(&jobs, &written);
        jobs.into_iter().zip(written).for_each(|(job, written)| job.answer(written));
    }

    /// Runs a checkpoint once the log is long.
    pub(super) fn tidy(&self) {
        if self.log_pages.load(Relaxed) < MANY_PAGES {
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

    fn write_in(&mut self, connection: &mut Connection, jobs: &[Job]) -> Vec<JobResult> {
        let transaction = connection.busy_timeout(BUSY_TIMEOUT).and_then(|()| immediate(connection));
        let recent = &mut self.recent;
        // A removed file accepts commits like any other.
        let written = self
            .place
            .check()
            .and_then(|()| {
                transaction
                    .and_then(|of| write_group(of, &self.shared, recent, jobs))
                    .map_err(|e| explain("write to", &self.place.file, &e))
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
            Err(why) => {
                self.recent.clear();
                jobs.iter().map(|_| Err(CommitError::Failed(why.clone()))).collect()
            }
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

    #[test]
    fn a_long_log_is_moved_into_the_database_between_commits() {
        let data = tempfile::tempdir().unwrap();
        let (file, connection) = open::prepare(data.path()).unwrap();
        let connection = Arc::new(Mutex::new(connection));
        let known = Arc::new(ThreadCache::new(Arc::clone(&connection)));
        let process = Arc::new(Process::register(data.path()).unwrap());
        let shared = SharedParts { known, process, sizes: Arc::default(), volatile: Arc::default() };
        let mut writes = WriteConnection::new(connection, &file, shared).unwrap();
        let mut revision = 0;
        while writes.log_pages.load(Relaxed) < MANY_PAGES {
            revision += 1;
            let (job, mut answer) = change(revision);
            writes.write(vec![job]);
            assert!(answer.try_recv().unwrap().is_ok());
        }
        writes.tidy();
        let (job, mut answer) = change(revision + 1);
        let (again, mut refused) = change(revision + 1);
        writes.write(vec![job, again]);
        assert!(answer.try_recv().unwrap().is_ok());
        assert!(matches!(refused.try_recv().unwrap(), Err(CommitError::Conflict(_))));
        let pages = writes.log_pages.load(Relaxed);
        assert!((1..MANY_PAGES / 10).contains(&pages), "the log begins anew: {pages}");
    }
}
