//! Telling a run at work from one whose process is gone.
//!
//! Each process locks a file of its own for as long as it lives; the system gives
//! the lock back however the process ends. Who finds the lock free knows that the
//! process is gone.

use crate::store::StoreError;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// This process, as others see it.
#[derive(Debug)]
pub(super) struct Process {
    id: String,
    directory: PathBuf,
    /// Held for its lock.
    _lock: File,
}

impl Process {
    pub(super) fn register(data: &Path) -> Result<Self, StoreError> {
        let directory = data.join("processes");
        let id = Uuid::now_v7().to_string();
        let lock = || -> std::io::Result<File> {
            std::fs::create_dir_all(&directory)?;
            let file = OpenOptions::new().create_new(true).write(true).open(directory.join(&id))?;
            file.lock()?;
            Ok(file)
        };
        let lock = lock().map_err(|e| {
            StoreError(format!(
                "cannot write to {}: {e}; check its owner and mode, or name another directory with --data",
                directory.display()
            ))
        })?;
        Ok(Self { id, directory, _lock: lock })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Whether the process of this id lives.
    pub(super) fn is_alive(&self, id: &str) -> bool {
        if id == self.id {
            return true;
        }
        // Ids come from the database; one that is no id names no file.
        if Uuid::parse_str(id).is_err() {
            return false;
        }
        let path = self.directory.join(id);
        let Ok(file) = File::open(&path) else { return false };
        match file.try_lock_shared() {
            Ok(()) => {
                // Gone; what it left behind is of no use to anybody.
                let _ = std::fs::remove_file(&path);
                false
            }
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => true,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.directory.join(&self.id));
    }
}
