//! A cache of threads as they were last read. A call on a cached thread does not touch the disk
//! until another process commits to the file. Commits of this process update the cache.

use super::job::{Job, JobResult};
use super::open::{BUSY_TIMEOUT, allow_checkpoint};
use super::read::MAX_CACHED_MESSAGES;
use rusqlite::Connection;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use tollgate_agent::json::written_bytes;
use tollgate_agent::run::Thread;
use tollgate_agent::state::{KeyScope, StateChange};
use tollgate_store::CommitError;

/// The maximum number of cached threads.
const MAX_THREADS: usize = 32;
/// A thread whose state is larger than this is not cached, in bytes: the writer thread would fold updates into
/// its values, and all others would wait.
const MAX_FOLLOWED_BYTES: usize = 1024 * 1024;
/// The maximum size of the states and of the messages of all cached threads together, in bytes.
const MAX_STATE_BYTES: usize = 16 * 1024 * 1024;
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// The threads that were read since another process committed.
pub(super) struct ThreadCache {
    /// The connection with which the writer thread writes. Only its data version is read here: it
    /// changes when others commit, but not when the connection commits itself, which no other
    /// connection can tell.
    pub(super) connection: Arc<Mutex<Connection>>,
    inner: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    version: i64,
    /// The number of groups of commits applied to the cache.
    followed: u64,
    /// Whether this process is writing. Others cannot write then, and their earlier commits are
    /// known.
    writing: bool,
    threads: HashMap<String, CachedThread>,
}

struct CachedThread {
    thread: Thread,
    /// The size of its messages as JSON.
    message_bytes: usize,
}

/// The commits before a thread was read: by others, and by this process.
#[derive(PartialEq)]
pub(super) struct HeadBefore(Option<(i64, u64)>);

impl ThreadCache {
    pub(super) fn new(connection: Arc<Mutex<Connection>>) -> Self {
        Self { connection, inner: Mutex::default() }
    }

    /// Lets the connection move the log into the database when it closes.
    pub(super) fn allow_checkpoint(&self) {
        allow_checkpoint(&self.connection.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the current thread if it is cached; otherwise the marker for
    /// [`learn`](Self::learn).
    pub(super) fn get(&self, thread_id: &str) -> Result<Thread, HeadBefore> {
        let mut inner = self.inner();
        match self.version() {
            Some(version) => inner.see(version),
            None if inner.writing => {}
            None => return Err(HeadBefore(None)),
        }
        let cached = inner.threads.get(thread_id).map(|cached| cached.thread.clone());
        cached.ok_or_else(|| inner.now())
    }

    /// Records that a write transaction has begun on this connection.
    pub(super) fn begin_writing(&self, connection: &Connection) -> rusqlite::Result<i64> {
        let version = data_version(connection)?;
        let mut inner = self.inner();
        inner.see(version);
        inner.writing = true;
        Ok(version)
    }

    /// Caches a thread that was read after [`get`](Self::get) missed it.
    pub(super) fn learn(&self, thread_id: &str, thread: &Thread, before: &HeadBefore) {
        if thread.messages.len() > MAX_CACHED_MESSAGES || thread.state.bytes() > MAX_FOLLOWED_BYTES {
            return;
        }
        let message_bytes = written_bytes(&*thread.messages);
        let mut inner = self.inner();
        if *before != inner.now() || message_bytes > MAX_MESSAGE_BYTES / 4 {
            return;
        }
        if inner.threads.len() >= MAX_THREADS {
            // Threads in use are read again; others would keep them out for good.
            inner.threads.clear();
        }
        let thread = thread.clone();
        inner.threads.insert(thread_id.to_owned(), CachedThread { thread, message_bytes });
        inner.fit();
    }

    /// Applies the commits that were just written; the writer still holds the connection.
    pub(super) fn follow(&self, jobs: &[Job], written: &[JobResult]) {
        let mut inner = self.inner();
        inner.followed += 1;
        inner.writing = false;
        for (job, written) in jobs.iter().zip(written) {
            let moved = match written {
                Ok(committed) => committed.moved,
                // After a failure the cache may be stale; a rejected commit wrote nothing.
                Err(CommitError::Failed(_)) => {
                    inner.threads.clear();
                    continue;
                }
                Err(_) => continue,
            };
            match job {
                Job::Commit(prepared, _) | Job::Deferred(prepared) => {
                    let thread_id = &prepared.commit.thread_id;
                    if !prepared.commit.messages.is_empty() {
                        inner.threads.remove(&**thread_id);
                    }
                    prepared.changes().for_each(|change| inner.follow(thread_id, change, moved));
                }
                Job::Change(prepared, _) => inner.follow(&prepared.thread_id, &prepared.change, moved),
                Job::Flush(_) | Job::Note(..) | Job::Other(..) => {}
            }
        }
    }

    /// Returns the data version, which changes whenever another process commits; `None` if it is
    /// not available at once.
    pub(super) fn version(&self) -> Option<i64> {
        let connection = match self.connection.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        // Callers must not block here.
        connection.busy_timeout(Duration::ZERO).ok()?;
        let version = data_version(&connection);
        connection.busy_timeout(BUSY_TIMEOUT).ok()?;
        version.ok()
    }

    fn inner(&self) -> MutexGuard<'_, CacheState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

impl CacheState {
    fn see(&mut self, version: i64) {
        if version != self.version {
            self.version = version;
            self.threads.clear();
        }
    }

    /// Drops all threads if they are too large together.
    fn fit(&mut self) {
        let states: usize = self.threads.values().map(|cached| cached.thread.state.bytes()).sum();
        let messages: usize = self.threads.values().map(|cached| cached.message_bytes).sum();
        if states > MAX_STATE_BYTES || messages > MAX_MESSAGE_BYTES {
            self.threads.clear();
        }
    }

    fn now(&self) -> HeadBefore {
        HeadBefore(Some((self.version, self.followed)))
    }

    fn follow(&mut self, thread_id: &str, change: &StateChange, moved: u64) {
        let Some(CachedThread { thread, .. }) = self.threads.get_mut(thread_id) else { return };
        let revision = change.revision + moved;
        let is_short = thread.state.bytes() <= MAX_FOLLOWED_BYTES;
        if is_short && thread.state.revision() + 1 == revision {
            let change = StateChange { revision, updates: Arc::clone(&change.updates) };
            thread.state.apply_scope(&change, KeyScope::Thread);
            self.fit();
        } else {
            self.threads.remove(thread_id);
        }
    }
}
