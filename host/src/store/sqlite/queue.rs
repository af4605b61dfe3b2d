//! The queue before the thread that writes: whoever waits wakes it, and what nobody
//! waits for is gathered meanwhile.

use super::writer::{Job, Prepared};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most commits that share one transaction, and the most for which nobody waits that
/// are not written yet.
const MAX_GROUP: usize = 256;
/// So many of those are written without waiting for more: they are in memory until then.
const ENOUGH: usize = 64;
/// How long a commit for which nobody waits is kept for others to join it.
const FOLLOWS_WITHIN: Duration = Duration::from_millis(50);

/// Jobs in the order in which they came.
#[derive(Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    news: Condvar,
}

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Job>,
    /// Of them, or of those being written, commits for which nobody waits.
    following: usize,
    /// A group was given and is being written.
    writing: bool,
    closed: bool,
}

impl Queue {
    /// Adds a job for which somebody waits. Where nobody writes any more it is dropped, and
    /// its reply with it.
    pub(super) fn push(&self, job: Job) {
        let mut inner = self.lock();
        if inner.closed {
            return;
        }
        inner.jobs.push_back(job);
        // Whoever wakes finds the lock free.
        drop(inner);
        self.news.notify_one();
    }

    /// Adds a commit for which nobody waits; gives it back where nobody writes any more, or
    /// where a whole group is behind already.
    pub(super) fn push_following(&self, commit: Box<Prepared>) -> Result<(), Box<Prepared>> {
        let mut inner = self.lock();
        if inner.closed || inner.following >= MAX_GROUP {
            return Err(commit);
        }
        inner.following += 1;
        inner.jobs.push_back(Job::Follow(commit));
        // Those that join the first find the writer waiting for them, until they are enough.
        let wakes = inner.jobs.len() == 1 || inner.jobs.len() == ENOUGH;
        drop(inner);
        if wakes {
            self.news.notify_one();
        }
        Ok(())
    }

    /// Whether commits for which nobody waits are not written yet.
    pub(super) fn is_behind(&self) -> bool {
        self.lock().following > 0
    }

    /// Whether nothing waits, and nothing is being written.
    pub(super) fn is_idle(&self) -> bool {
        let inner = self.lock();
        inner.jobs.is_empty() && !inner.writing && !inner.closed
    }

    /// Says that so many of them are written, or lost.
    pub(super) fn followed(&self, number: usize) {
        self.lock().following -= number;
    }

    /// Takes no more; what is in it is still given.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    /// Takes no more, and drops what is in it: nobody writes it.
    pub(super) fn abandon(&self) {
        self.close();
        self.lock().jobs.clear();
    }

    /// What is written next as one transaction, after what was given before: all that waits, and while nobody waits
    /// for any of it, what comes soon. None once it is closed and empty.
    pub(super) fn next_group(&self) -> Option<Vec<Job>> {
        let mut inner = self.lock();
        inner.writing = false;
        while inner.jobs.is_empty() {
            if inner.closed {
                return None;
            }
            inner = self.news.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        let until = Instant::now() + FOLLOWS_WITHIN;
        while inner.may_wait() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = self.news.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        inner.writing = true;
        let size = inner.jobs.len().min(MAX_GROUP);
        Some(inner.jobs.drain(..size).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn may_wait(&self) -> bool {
        !self.closed && self.jobs.len() < ENOUGH && self.jobs.iter().all(|job| matches!(job, Job::Follow(_)))
    }
}
