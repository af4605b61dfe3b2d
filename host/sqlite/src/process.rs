//! Which process drives a run, and whether it still lives.
//!
//! Each process locks a file of its own for as long as it lives; the system releases the lock
//! however the process ends. If the lock is free, the process is gone.

use super::explain::refused;
use super::lock::take_turn;
use rusqlite::{Connection, OptionalExtension, params};
use rustix::fs::OFlags;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tollgate_store::{CommitError, StoreError};
use uuid::Uuid;

/// The directory of these files, within the data directory.
const DIRECTORY: &str = "processes";

/// The directory with a file for each caller that waits for a thread.
pub(super) const WAITING: &str = "waiting";

/// The maximum number of files that one start examines.
const MAX_SWEPT: usize = 1_000;

/// This process, as other processes see it.
#[derive(Debug)]
pub(super) struct Process {
    id: String,
    directory: PathBuf,
    /// Held for its lock. `None` for a process that only reads.
    lock: Option<File>,
    /// Runs that this process has released while it lives, each with the latest release.
    released: Mutex<HashMap<String, RunRelease>>,
    /// The number of releases.
    releases: AtomicU64,
    /// Runs that this process has acquired, and has not committed to since.
    held: Mutex<HashSet<String>>,
}

/// The latest release of a run.
#[derive(Debug, Default)]
struct RunRelease {
    /// The epoch that it released.
    epoch: u64,
    /// The number of releases up to this one.
    number: u64,
}

impl Process {
    pub(super) fn register(data: &Path) -> Result<Self, StoreError> {
        let directory = data.join(DIRECTORY);
        let id = Uuid::now_v7().to_string();
        // One process at a time: a file that is not locked yet would look abandoned.
        let _turn = take_turn(data)?;
        sweep(&directory);
        sweep(&data.join(WAITING));
        let lock = || -> std::io::Result<File> {
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            let file =
                OpenOptions::new().create_new(true).write(true).mode(0o600).open(directory.join(&id))?;
            file.lock()?;
            Ok(file)
        };
        let lock = lock().map_err(|e| refused(&format!("cannot write to {}", directory.display()), &e))?;
        Ok(Self {
            id,
            directory,
            lock: Some(lock),
            released: Mutex::default(),
            releases: AtomicU64::new(0),
            held: Mutex::default(),
        })
    }

    /// Creates a process that drives no runs and only checks which others live.
    pub(super) fn observer(data: &Path) -> Self {
        Self {
            id: String::new(),
            directory: data.join(DIRECTORY),
            lock: None,
            released: Mutex::default(),
            releases: AtomicU64::new(0),
            held: Mutex::default(),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Records that this process no longer drives the run.
    pub(super) fn release(&self, run_id: &str, epoch: u64) {
        let mut released = self.released();
        let latest = released.entry(run_id.to_owned()).or_default();
        latest.epoch = latest.epoch.max(epoch);
        latest.number = self.releases.fetch_add(1, Relaxed) + 1;
        drop(released);
        self.held().remove(run_id);
    }

    /// Returns the number of releases so far.
    pub(super) fn releases(&self) -> u64 {
        self.releases.load(Relaxed)
    }

    /// Records that this process drives the run, unless it has released the run after these releases: a commit from
    /// before may be written late.
    pub(super) fn take_up(&self, run_id: &str, releases: u64) {
        let mut released = self.released();
        if released.get(run_id).is_some_and(|latest| latest.number <= releases) {
            released.remove(run_id);
        }
        drop(released);
        self.held().remove(run_id);
    }

    /// Records that this process has acquired the run, until it commits to it or lets it go.
    pub(super) fn hold(&self, run_id: &str) {
        self.held().insert(run_id.to_owned());
    }

    /// Returns whether this process has acquired the run and not committed to it since.
    pub(super) fn holds(&self, run_id: &str) -> bool {
        self.held().contains(run_id)
    }

    /// Returns whether this owner currently drives the run in this epoch.
    pub(super) fn is_driven_by(&self, owner: &str, run_id: &str, epoch: i64) -> bool {
        let is_released =
            || self.released().get(run_id).is_some_and(|latest| latest.epoch >= epoch.cast_unsigned());
        if owner == self.id { !is_released() } else { self.is_alive(owner) }
    }

    fn held(&self) -> MutexGuard<'_, HashSet<String>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn released(&self) -> MutexGuard<'_, HashMap<String, RunRelease>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether another process with this id lives.
    fn is_alive(&self, id: &str) -> bool {
        // Ids come from the database; an invalid id names no file.
        Uuid::parse_str(id).is_ok() && lives(&self.directory.join(id))
    }
}

/// Returns whether any process has this data directory open.
pub(super) fn any_lives(data: &Path) -> bool {
    let Ok(files) = std::fs::read_dir(data.join(DIRECTORY)) else { return false };
    files.flatten().any(|file| lives(&file.path()))
}

/// Removes the files of processes that are gone, such as killed ones. Returns their number.
pub(super) fn sweep(directory: &Path) -> usize {
    let Ok(files) = std::fs::read_dir(directory) else { return 0 };
    // A waiting process locks its file before it gives it its final name.
    let is_named = |file: &std::fs::DirEntry| !file.file_name().as_encoded_bytes().ends_with(b".new");
    files.flatten().take(MAX_SWEPT).filter(|file| is_named(file) && !lives(&file.path())).count()
}

/// Like [`sweep`], in this data directory.
pub(super) fn sweep_in(data: &Path) -> usize {
    take_turn(data).map_or(0, |_turn| {
        sweep(&data.join(WAITING));
        sweep(&data.join(DIRECTORY))
    })
}

/// Returns whether the process with this file lives.
pub(super) fn lives(path: &Path) -> bool {
    // Opening a pipe would block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) if !file.metadata().is_ok_and(|found| found.is_file()) => {
            // No process created this, so it cannot be a lock.
            return false;
        }
        Ok(file) => file,
        // A process whose file cannot be opened, such as for lack of descriptors, may be alive.
        // Treating it as dead would let two processes drive its runs.
        Err(why) => return why.kind() != ErrorKind::NotFound,
    };
    match file.try_lock_shared() {
        Ok(()) => {
            // The process is gone, and its file is useless.
            let _ = std::fs::remove_file(path);
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => true,
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.lock.is_some() {
            let _ = std::fs::remove_file(self.directory.join(&self.id));
        }
    }
}

/// Takes over a run for this process, unless another living process drives it.
pub(super) fn acquire(
    connection: &Connection,
    process: &Process,
    run_id: &str,
    known: u64,
) -> rusqlite::Result<Result<u64, CommitError>> {
    let find = "SELECT id, owner, status, epoch, events FROM runs WHERE run_id = ?1";
    let found = connection
        .prepare_cached(find)?
        .query_row([run_id], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, i64>(3)?,
                row.get::<_, i64>(4)?,
            ))
        })
        .optional()?;
    let Some((id, owner, status, epoch, events)) = found else {
        return Ok(Err(StoreError::unknown_run(run_id).into()));
    };
    if status == "running" && owner != process.id() && process.is_driven_by(&owner, run_id, epoch) {
        return Ok(Err(CommitError::Advanced));
    }
    match events.cast_unsigned().cmp(&known) {
        Ordering::Equal => {}
        Ordering::Greater => return Ok(Err(CommitError::Advanced)),
        Ordering::Less => return Ok(Err(CommitError::Behind)),
    }
    process.take_up(run_id, process.releases());
    process.hold(run_id);
    connection.prepare_cached("UPDATE runs SET owner = ?2, epoch = ?3 WHERE id = ?1")?.execute(params![
        id,
        process.id(),
        epoch + 1
    ])?;
    Ok(Ok((epoch + 1).cast_unsigned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_process_that_cannot_be_looked_at_counts_as_alive() {
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("one");
        assert!(!lives(&file), "it has no file");
        // Opening it fails, as it does when the process has no file descriptors left.
        std::os::unix::fs::symlink(&file, &file).unwrap();
        assert!(lives(&file));
        assert_eq!(sweep(data.path()), 0);
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, "").unwrap();
        assert!(!lives(&file) && !file.exists(), "its lock is free");
    }

    #[test]
    fn a_commit_from_before_a_release_does_not_take_the_run_up_again() {
        let data = tempfile::tempdir().unwrap();
        let process = Process::register(data.path()).unwrap();
        let is_driven_by = || process.is_driven_by(process.id(), "r", 1);
        let before = process.releases();
        process.release("r", 1);
        process.take_up("r", before);
        assert!(!is_driven_by());
        process.take_up("r", process.releases());
        assert!(is_driven_by());
    }
}
