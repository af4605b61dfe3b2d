//! The queue of processes that wait for the same thread: first come, first served.
//!
//! Each waiting caller holds a locked file whose name contains the thread and the time of
//! arrival. The first of these files is next. An unlocked file belongs to a process that is gone,
//! and is removed by the next process that finds it.

use super::explain::refused;
use super::process::{WAITING, lives};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tollgate_store::StoreError;
use uuid::Uuid;

/// The interval at which a caller checks whether it is next.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// The number of characters of a digest that identify a thread.
const THREAD_CHARS: usize = 32;

/// A place in the queue of one thread. Dropping it lets the next caller in.
#[derive(Debug)]
pub(super) struct ThreadQueuePlace {
    directory: PathBuf,
    name: String,
    /// Held for its lock.
    _lock: File,
}

impl ThreadQueuePlace {
    /// Takes the last place in the queue of this thread.
    pub(super) fn begin(data: &Path, thread_id: &str) -> Result<Self, StoreError> {
        let directory = data.join(WAITING);
        let begin = || -> std::io::Result<Self> {
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            let id = Uuid::now_v7();
            let name = format!("{}-{id}", thread_of(thread_id));
            // Locked before it gets the name that others look for.
            let unnamed = directory.join(format!("{id}.new"));
            let lock = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&unnamed)?;
            lock.lock()?;
            std::fs::rename(&unnamed, directory.join(&name))?;
            Ok(Self { directory: directory.clone(), name, _lock: lock })
        };
        begin().map_err(|e| refused(&format!("cannot queue in {}", directory.display()), &e))
    }

    /// Waits until this place is the first.
    pub(super) async fn until_first(&self) {
        while !self.is_first() {
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    /// Returns whether no living process has an earlier place in this queue.
    fn is_first(&self) -> bool {
        let Ok(files) = std::fs::read_dir(&self.directory) else { return true };
        let before = |name: &str| {
            name < self.name.as_str() && name.as_bytes().starts_with(&self.name.as_bytes()[..THREAD_CHARS])
        };
        let earlier = files.flatten().filter(|file| file.file_name().to_str().is_some_and(before));
        !earlier.into_iter().any(|file| lives(&file.path()))
    }
}

impl Drop for ThreadQueuePlace {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.directory.join(&self.name));
    }
}

fn thread_of(thread_id: &str) -> String {
    let mut digest = tollgate_agent::digest::digest(thread_id.as_bytes());
    digest.truncate(THREAD_CHARS);
    digest
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a8_who_came_first_is_first_and_the_dead_are_passed_over() {
        let data = tempfile::tempdir().unwrap();
        let wait = |thread_id| ThreadQueuePlace::begin(data.path(), thread_id).unwrap();
        let (first, second, other) = (wait("t"), wait("t"), wait("u"));
        assert!(first.is_first() && !second.is_first() && other.is_first());
        // Its lock is gone, but its file is not.
        let left = first.directory.join(&first.name);
        drop(first);
        std::fs::write(&left, "").unwrap();
        assert!(second.is_first() && !left.exists());
    }
}
