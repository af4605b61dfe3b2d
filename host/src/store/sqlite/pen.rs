//! What commits are written with: by the thread that writes, or by whoever asks.

use super::known::Known;
use super::open::{Place, explain};
use super::process::Process;
use super::write::write_group;
use super::writer::Job;
use crate::store::{CommitError, StoreError};
use rusqlite::Connection;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use tokio::runtime::{Handle, RuntimeFlavor};

pub(super) struct Pen {
    pub(super) connection: Arc<Mutex<Connection>>,
    pub(super) known: Arc<Known>,
    pub(super) place: Place,
    pub(super) process: Arc<Process>,
    pub(super) lost: Mutex<Lost>,
}

impl Pen {
    /// Writes all of these as one transaction, once nobody else writes.
    pub(super) fn write(&self, jobs: &[Job]) -> Vec<Result<(), CommitError>> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_with(&mut connection, jobs)
    }

    /// Writes this on the present thread, whose other tasks go on elsewhere; none where
    /// somebody writes already, or where the next commit has a loss to tell of.
    pub(super) fn write_here(&self, job: Job) -> Result<Result<(), CommitError>, Job> {
        let may_block =
            Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
        if !may_block || self.lost().records > 0 {
            return Err(job);
        }
        let mut connection = match self.connection.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(job),
        };
        let written = tokio::task::block_in_place(|| self.write_with(&mut connection, &[job]).pop());
        let nothing = || CommitError::Failed(StoreError("nothing was written".to_owned()));
        Ok(written.unwrap_or_else(|| Err(nothing())))
    }

    fn write_with(&self, connection: &mut Connection, jobs: &[Job]) -> Vec<Result<(), CommitError>> {
        let written = write_group(connection, &self.process, jobs)
            .map_err(|e| explain("write to", &self.place.file, &e))
            // A file that nobody finds any more takes commits like any other.
            .and_then(|written| self.place.check().map(|()| written))
            .unwrap_or_else(|why| jobs.iter().map(|_| Err(CommitError::Failed(why.clone()))).collect());
        self.known.follow(jobs, &written);
        written
    }

    pub(super) fn lost(&self) -> MutexGuard<'_, Lost> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records that were lost after their calls were answered: the next commit says so.
#[derive(Default)]
pub(super) struct Lost {
    pub(super) records: usize,
    why: String,
}

impl Lost {
    pub(super) fn add(&mut self, run_id: &str, why: &CommitError) {
        self.records += 1;
        if self.records == 1 {
            self.why = format!("{run_id}: {why}");
        }
    }

    pub(super) fn words(&self) -> String {
        format!("records of answered calls are lost ({}), the first that of {}", self.records, self.why)
    }

    pub(super) fn take(&mut self) -> Option<CommitError> {
        let lost = std::mem::take(self);
        (lost.records > 0).then(|| CommitError::Failed(StoreError(lost.words())))
    }
}
