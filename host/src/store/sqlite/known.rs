//! Threads as they were last read: a call on one of them is spared the way to the disk,
//! until anything is committed to the file.

use super::open::{connect, explain};
use crate::store::StoreError;
use rusqlite::Connection;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tollgate_agent::run::Thread;

/// The most threads that are known, and the most messages of one.
const MAX_THREADS: usize = 32;
const MAX_MESSAGES: usize = 100;

/// The threads that were read since the last commit.
pub(super) struct Known {
    inner: Mutex<Inner>,
}

struct Inner {
    /// Only asked whether anybody has committed.
    watch: Connection,
    version: i64,
    threads: HashMap<String, Thread>,
}

/// The file's version before a thread was read.
pub(super) struct Version(Option<i64>);

impl Known {
    pub(super) fn new(file: &Path) -> Result<Self, StoreError> {
        let watch = connect(file)?;
        // It is asked where nobody may wait.
        watch.busy_timeout(Duration::ZERO).map_err(|e| explain("open", file, &e))?;
        Ok(Self { inner: Mutex::new(Inner { watch, version: 0, threads: HashMap::new() }) })
    }

    /// The thread as it stands, where it is known; else the version with which to
    /// [`learn`](Self::learn) it.
    pub(super) fn get(&self, thread_id: &str) -> Result<Thread, Version> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(version) = inner.version() else { return Err(Version(None)) };
        if version != inner.version {
            inner.version = version;
            inner.threads.clear();
        }
        inner.threads.get(thread_id).cloned().ok_or(Version(Some(version)))
    }

    /// Keeps a thread that was read after its version was asked for.
    pub(super) fn learn(&self, thread_id: &str, thread: &Thread, version: &Version) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if version.0 == Some(inner.version)
            && thread.messages.len() <= MAX_MESSAGES
            && inner.threads.len() < MAX_THREADS
        {
            inner.threads.insert(thread_id.to_owned(), thread.clone());
        }
    }
}

impl Inner {
    /// Another number whenever another connection, of any process, has committed; none
    /// where it cannot be had at once.
    fn version(&self) -> Option<i64> {
        let mut statement = self.watch.prepare_cached("PRAGMA data_version").ok()?;
        statement.query_row([], |row| row.get(0)).ok()
    }
}
