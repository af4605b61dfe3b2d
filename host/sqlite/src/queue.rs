//! The queue of the writer thread. A job with a waiting caller wakes the thread; deferred commits
//! are collected meanwhile. Large commits are written one at a time, and others overtake them.

use super::job::{Job, PreparedCommit};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of commits per transaction, and of deferred commits that are not written
/// yet.
const MAX_GROUP: usize = 256;
/// The number of deferred commits that are written without waiting for more. They are in memory
/// until then.
const ENOUGH: usize = 64;
/// A commit that writes or folds more is large, in bytes.
const LARGE_BYTES: usize = 256 * 1024;
/// How long a deferred commit waits for others to join it.
const DEFERRED_FOR: Duration = Duration::from_millis(50);

/// Jobs in order of arrival, large ones apart.
#[derive(Default)]
pub(super) struct Queue {
    inner: Mutex<QueueState>,
    news: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    /// Large commits, of which each group takes one. A run waits for its commit, so none of them is overtaken
    /// by a later one of its own run.
    large: VecDeque<Job>,
    /// The number of deferred commits that are queued or being written.
    deferred: usize,
    closed: bool,
}

impl Queue {
    /// Adds a job with a waiting caller. If the writer is gone, the job is dropped together with
    /// its reply.
    pub(super) fn push(&self, job: Job) {
        let mut inner = self.lock();
        if inner.closed {
            return;
        }
        let is_large = job.bytes() > LARGE_BYTES;
        let jobs = if is_large { &mut inner.large } else { &mut inner.jobs };
        jobs.push_back(job);
        // The woken thread finds the lock free.
        drop(inner);
        self.news.notify_one();
    }

    /// Adds a deferred commit. Returns it if the writer is gone, or if a whole group is pending
    /// already.
    pub(super) fn push_deferred(&self, commit: Box<PreparedCommit>) -> Result<(), Box<PreparedCommit>> {
        let mut inner = self.lock();
        if inner.closed || inner.deferred >= MAX_GROUP {
            return Err(commit);
        }
        inner.deferred += 1;
        inner.jobs.push_back(Job::Deferred(commit));
        // Later ones need not wake the writer, which waits for them already, until there are
        // enough.
        let wakes = inner.jobs.len() == 1 || inner.jobs.len() == ENOUGH;
        drop(inner);
        if wakes {
            self.news.notify_one();
        }
        Ok(())
    }

    /// Returns whether deferred commits are still unwritten.
    pub(super) fn is_behind(&self) -> bool {
        self.lock().deferred > 0
    }

    /// Records that this many deferred commits were written or lost.
    pub(super) fn settle_deferred(&self, number: usize) {
        self.lock().deferred -= number;
    }

    /// Closes the queue to new jobs; queued ones are still handed out.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    /// Closes the queue and drops its jobs, because the writer is gone.
    pub(super) fn abandon(&self) {
        self.close();
        let mut inner = self.lock();
        inner.jobs.clear();
        inner.large.clear();
    }

    /// Returns the jobs of the next transaction: all that are queued, up to a maximum, and the first large
    /// one. If all are deferred commits, it also collects those that arrive soon. `None` once the queue is
    /// closed and empty.
    pub(super) fn next_group(&self) -> Option<Vec<Job>> {
        let mut inner = self.lock();
        while inner.jobs.is_empty() && inner.large.is_empty() {
            if inner.closed {
                return None;
            }
            inner = self.news.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        let until = Instant::now() + DEFERRED_FOR;
        while inner.may_wait() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = self.news.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let size = inner.jobs.len().min(MAX_GROUP);
        let mut group: Vec<Job> = inner.jobs.drain(..size).collect();
        group.extend(inner.large.pop_front());
        Some(group)
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn may_wait(&self) -> bool {
        !self.closed
            && self.large.is_empty()
            && self.jobs.len() < ENOUGH
            && self.jobs.iter().all(|job| matches!(job, Job::Deferred(_)))
    }
}
