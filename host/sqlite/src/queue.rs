//! The queue of the writer thread. A job with a waiting caller wakes the thread; deferred commits
//! are collected meanwhile, and are written behind those jobs, except a job that must follow them. Large
//! commits are written one at a time, each in a transaction of its own, and others overtake them. So a
//! short commit waits for at most one large one and one transaction of bounded size before its own.

use super::job::{Job, PreparedCommit};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tollgate_store::rules::LARGE_BYTES;

/// The maximum number of commits per transaction, and of deferred commits that are not written
/// yet.
const MAX_GROUP: usize = 256;
/// The maximum size of the commits of one transaction, except a large commit, and of the deferred commits that
/// are not written yet, in bytes.
const MAX_GROUP_BYTES: usize = 1024 * 1024;
/// The number of deferred commits that are written without waiting for more. They are in memory
/// until then.
const ENOUGH: usize = 64;
/// How long a deferred commit waits for others to join it.
const DEFERRED_FOR: Duration = Duration::from_millis(50);

/// Jobs in order of arrival, by their urgency.
#[derive(Default)]
pub(super) struct Queue {
    inner: Mutex<QueueState>,
    news: Condvar,
}

#[derive(Default)]
struct QueueState {
    /// Jobs with a waiting caller.
    urgent: VecDeque<Job>,
    /// Large commits, each of which is a group of its own. A run waits for its commit, so none of them is
    /// overtaken by a later one of its own run.
    large: VecDeque<Job>,
    /// Whether a large commit waited while the last group was taken, and goes next.
    large_is_next: bool,
    deferred: VecDeque<Job>,
    /// The time from which on the first deferred commit no longer waits for other jobs.
    due: Option<Instant>,
    /// The number and the size of the deferred commits that are queued or being written.
    unwritten: (usize, usize),
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
        if job.follows_deferred() {
            let state = &mut *inner;
            state.urgent.append(&mut state.deferred);
        }
        let is_large = job.bytes() > LARGE_BYTES;
        let jobs = if is_large { &mut inner.large } else { &mut inner.urgent };
        jobs.push_back(job);
        // The woken thread finds the lock free.
        drop(inner);
        self.news.notify_one();
    }

    /// Adds a deferred commit. Returns it if the writer is gone, if it is large, or if a whole group is
    /// pending already.
    pub(super) fn push_deferred(&self, commit: Box<PreparedCommit>) -> Result<(), Box<PreparedCommit>> {
        let bytes = commit.bytes();
        let mut inner = self.lock();
        let (number, pending) = inner.unwritten;
        let is_full = number >= MAX_GROUP || pending + bytes > MAX_GROUP_BYTES;
        if inner.closed || bytes > LARGE_BYTES || is_full {
            return Err(commit);
        }
        inner.unwritten = (number + 1, pending + bytes);
        if inner.deferred.is_empty() {
            inner.due = Some(Instant::now() + DEFERRED_FOR);
        }
        inner.deferred.push_back(Job::Deferred(commit));
        // Later ones need not wake the writer, which waits for them already, until there are
        // enough.
        let wakes = inner.deferred.len() == 1 || inner.deferred.len() == ENOUGH;
        drop(inner);
        if wakes {
            self.news.notify_one();
        }
        Ok(())
    }

    /// Returns whether deferred commits are still unwritten.
    pub(super) fn is_behind(&self) -> bool {
        self.lock().unwritten.0 > 0
    }

    /// Records that deferred commits of these sizes were written or lost.
    pub(super) fn settle_deferred(&self, sizes: &[usize]) {
        let mut inner = self.lock();
        inner.unwritten.0 -= sizes.len();
        inner.unwritten.1 -= sizes.iter().sum::<usize>();
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
        inner.urgent.clear();
        inner.large.clear();
        inner.deferred.clear();
    }

    /// Returns the jobs of the next transaction. If all are deferred commits, it also collects those that
    /// arrive soon. `None` once the queue is closed and empty.
    pub(super) fn next_group(&self) -> Option<Vec<Job>> {
        let mut inner = self.lock();
        while inner.is_empty() {
            if inner.closed {
                return None;
            }
            inner = self.news.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        while let Some(left) = inner.may_wait() {
            inner = self.news.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(inner.take_group(Instant::now()))
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.large.is_empty() && self.deferred.is_empty()
    }

    /// Returns how long the writer may wait for more deferred commits, if it may.
    fn may_wait(&self) -> Option<Duration> {
        let is_urgent = self.closed || !self.urgent.is_empty() || !self.large.is_empty();
        if is_urgent || self.deferred.len() >= ENOUGH {
            return None;
        }
        let left = self.due?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Takes the first large commit, if nothing else is queued or it is its turn. Otherwise takes urgent jobs and
    /// then deferred commits, up to the limits of a group. Deferred commits go first once they are due.
    fn take_group(&mut self, now: Instant) -> Vec<Job> {
        let is_alone = self.urgent.is_empty() && self.deferred.is_empty();
        if (is_alone || self.large_is_next)
            && let Some(large) = self.large.pop_front()
        {
            self.large_is_next = false;
            return vec![large];
        }
        self.large_is_next = !self.large.is_empty();
        let is_due = self.due.is_some_and(|due| due <= now);
        let mut queues = [&mut self.urgent, &mut self.deferred];
        if is_due {
            queues.reverse();
        }
        let (mut group, mut bytes) = (Vec::new(), 0);
        for queue in queues {
            while let Some(job) = queue.front() {
                bytes += job.bytes();
                if group.len() >= MAX_GROUP || (bytes > MAX_GROUP_BYTES && !group.is_empty()) {
                    break;
                }
                group.extend(queue.pop_front());
            }
        }
        group
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use tokio::sync::oneshot;
    use tollgate_agent::run::Event;
    use tollgate_store::rules::CommitRows;
    use tollgate_store::{AuditKind, AuditRecord, Commit};

    const KIB: usize = 1024;

    fn prepared(run: &str, bytes: usize) -> Box<PreparedCommit> {
        let events = [Event::MessageAdded { text: "x".repeat(bytes) }];
        let commit = Commit::new(Arc::from(run), Arc::from("t"), 1, 1, events);
        let rows = CommitRows::of(&commit).unwrap();
        Box::new(PreparedCommit::new(commit, rows))
    }

    fn push(queue: &Queue, run: &str, bytes: usize) {
        queue.push(Job::Commit(prepared(run, bytes), oneshot::channel().0));
    }

    /// Returns the runs of the group that is taken at this time.
    fn group(queue: &Queue, now: Instant) -> Vec<String> {
        let run = |job: &Job| match job {
            Job::Commit(prepared, _) | Job::Deferred(prepared) => prepared.commit.run_id().to_string(),
            Job::Flush(_) => "flush".to_owned(),
            _ => "other".to_owned(),
        };
        queue.lock().take_group(now).iter().map(run).collect()
    }

    #[test]
    fn z3_a_group_is_bounded_in_bytes_and_deferred_commits_are_its_last_until_they_are_due() {
        let began = Instant::now();
        let queue = Queue::default();
        assert!(queue.push_deferred(prepared("d", 10)).is_ok());
        ["a", "b", "c", "e", "f"].iter().for_each(|run| push(&queue, run, 240 * KIB));
        assert_eq!(group(&queue, began), ["a", "b", "c", "e"]);
        assert_eq!(group(&queue, began), ["f", "d"]);
        assert!(queue.push_deferred(prepared("d", 200 * KIB)).is_ok());
        ["a", "b", "c", "e", "f"].iter().for_each(|run| push(&queue, run, 240 * KIB));
        assert_eq!(group(&queue, Instant::now() + DEFERRED_FOR), ["d", "a", "b", "c"]);
    }

    #[test]
    fn z3_large_commits_are_written_one_at_a_time_and_others_overtake_them() {
        let (began, queue) = (Instant::now(), Queue::default());
        for (run, bytes) in [("a", 300 * KIB), ("b", 10), ("c", 300 * KIB)] {
            push(&queue, run, bytes);
        }
        assert_eq!(group(&queue, began), ["b"]);
        push(&queue, "e", 10);
        assert_eq!(group(&queue, began), ["a"], "it waited for one transaction");
        assert_eq!(group(&queue, began), ["e"]);
        assert_eq!(group(&queue, began), ["c"]);
    }

    #[test]
    fn z3_deferred_commits_are_short_and_at_most_one_group() {
        let queue = Queue::default();
        assert!(queue.push_deferred(prepared("large", 300 * KIB)).is_err());
        for _ in 0..4 {
            assert!(queue.push_deferred(prepared("d", 240 * KIB)).is_ok());
        }
        assert!(queue.push_deferred(prepared("d", 240 * KIB)).is_err());
        let sizes: Vec<usize> = queue.next_group().unwrap().iter().map(Job::bytes).collect();
        assert!(sizes.len() == 4 && queue.is_behind());
        assert!(queue.push_deferred(prepared("d", 240 * KIB)).is_err(), "they are being written");
        queue.settle_deferred(&sizes);
        assert!(!queue.is_behind() && queue.push_deferred(prepared("d", 240 * KIB)).is_ok());
    }

    #[test]
    fn z3_a_reader_does_not_wait_until_deferred_commits_are_due() {
        let (began, queue) = (Instant::now(), Queue::default());
        assert!(queue.push_deferred(prepared("d", 10)).is_ok());
        queue.push(Job::Flush(oneshot::channel().0));
        push(&queue, "a", 10);
        assert!(queue.lock().may_wait().is_none());
        assert_eq!(group(&queue, began), ["d", "flush", "a"]);
    }

    #[test]
    fn s9_a_trap_is_recorded_after_the_deferred_calls_before_it() {
        let (began, queue) = (Instant::now(), Queue::default());
        let mut trapped = prepared("trapped", 10);
        trapped.commit.audit = vec![AuditRecord::at(1, AuditKind::Call, "agent a", "trapped")];
        let jobs = [Job::Commit(trapped, oneshot::channel().0), Job::Note(Vec::new(), oneshot::channel().0)];
        for (job, run) in jobs.into_iter().zip(["trapped", "other"]) {
            assert!(queue.push_deferred(prepared("d", 10)).is_ok());
            queue.push(job);
            assert_eq!(group(&queue, began), ["d", run]);
        }
    }
}
