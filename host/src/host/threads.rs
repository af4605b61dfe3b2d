//! A host's threads: whose turn it is, and state that fits the keys of today.

use super::{Busy, Host, HostError, RunRequest};
use crate::blocking::aside_if;
use crate::run::{RunError, RunHandle};
use crate::store::{CommitError, RunFilter, RunSummary};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;
use tollgate_agent::run::{Input, Run, StoredEvent, Thread};
use tollgate_agent::state::set_aside::{misfits, set_aside, takes_long};
use tollgate_agent::state::{KeyScope, KeySet, State};
use tollgate_agent::text::clean;

/// How often a run that is queued looks whether another process is done.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// One lock for each thread.
pub(super) type ThreadLocks = Mutex<HashMap<Arc<str>, Weak<tokio::sync::Mutex<()>>>>;

/// How many changes of a thread are read at once.
const CHANGES_AT_ONCE: usize = 32;

/// What a prompt meets on its thread.
enum Met {
    /// Nothing is open: the thread's turn is the prompt's.
    Turn(OwnedMutexGuard<()>),
    /// A run waits for a person.
    Waiting(String),
    /// A run was left where its process ended.
    Interrupted(String),
}

impl Host {
    /// Starts a run once the thread is free for it. A request that queues waits this long for
    /// others; the time of a run that is recovered for it does not count.
    pub(super) async fn run_on(
        &self,
        thread_id: &Arc<str>,
        request: &RunRequest,
        patience: Duration,
    ) -> Result<RunHandle, HostError> {
        let mut until = Instant::now().checked_add(patience);
        let busy = || HostError::Busy(thread_id.to_string());
        let _place = match request.busy {
            Busy::Refuse => None,
            Busy::Queue => Some(before(until, self.inner.store.queue(thread_id)).await.ok_or_else(busy)??),
        };
        let mut recovered = None;
        loop {
            match before(until, self.meet(thread_id, request.busy)).await.ok_or_else(busy)?? {
                Met::Turn(turn) => match self.start(thread_id, request, turn).await {
                    // A process that does not queue was faster.
                    Err(HostError::Busy(_)) if request.busy == Busy::Queue => {}
                    started => return started,
                },
                Met::Waiting(run_id) => {
                    let message = Input::Message(request.prompt.clone());
                    let carried = before(until, self.carry_on(&run_id, message, request.busy));
                    return carried.await.ok_or_else(busy)?;
                }
                Met::Interrupted(run_id) if recovered.as_ref() == Some(&run_id) => {
                    let words = format!(
                        "the interrupted run {run_id} does not come to an end; `tollgate show` shows it"
                    );
                    return Err(RunError(words).into());
                }
                Met::Interrupted(run_id) => {
                    let carried = before(until, self.carry_on(&run_id, Input::Restarted, request.busy));
                    let end = carried.await.ok_or_else(busy)??.wait().await?;
                    until = Instant::now().checked_add(patience);
                    if !end.waiting.is_empty() {
                        return Err(HostError::Waiting(run_id));
                    }
                    recovered = Some(run_id);
                }
            }
        }
    }

    /// What is open on the thread; its turn where nothing is.
    async fn meet(&self, thread_id: &Arc<str>, busy: Busy) -> Result<Met, HostError> {
        loop {
            let turn = self.lock_thread(thread_id, busy).await?;
            let open = self.open_runs(thread_id).await?;
            if let Some(run) = open.iter().find(|run| !run.at_work) {
                let run_id = run.run_id.clone();
                return Ok(if run.status == "waiting" {
                    Met::Waiting(run_id)
                } else {
                    Met::Interrupted(run_id)
                });
            }
            match busy {
                _ if open.is_empty() => return Ok(Met::Turn(turn)),
                Busy::Refuse => return Err(HostError::Busy(thread_id.to_string())),
                // Another process is at work on it, and tells nobody when it is done.
                Busy::Queue => drop(turn),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// The runs of a thread that have not ended.
    async fn open_runs(&self, thread_id: &str) -> Result<Vec<RunSummary>, HostError> {
        let mut open = Vec::new();
        for status in ["running", "waiting"] {
            let filter = RunFilter {
                thread_id: Some(thread_id.to_owned()),
                status: Some(status.to_owned()),
                kind: Some("prompt".to_owned()),
                ..RunFilter::default()
            };
            open.extend(self.inner.store.runs(filter).await?);
        }
        Ok(open)
    }

    /// The thread as it stands. Values that no longer fit their keys are set aside
    /// first, for good, and the operator is told.
    pub(super) async fn thread(&self, thread_id: &str) -> Result<Thread, HostError> {
        let mut thread = loop {
            let mut thread = self.inner.store.thread(thread_id).await?;
            let toolbox = self.toolbox();
            let keys = toolbox.catalog().keys();
            let misfits = aside_if(takes_long(keys, &thread.state), || misfits(keys, &thread.state));
            let revision = thread.state.revision();
            let Some(change) = set_aside(&misfits, revision) else { break thread };
            match self.inner.store.change(thread_id, change.clone()).await {
                Ok(()) => {
                    for misfit in &misfits {
                        tracing::warn!(
                            "the value of {} in thread {} no longer fits ({}); it is kept under revision {revision}, and the key starts anew; `tollgate state export` shows both",
                            misfit.key,
                            clean(thread_id, 200),
                            clean(&misfit.why, 200),
                        );
                    }
                    thread.state.apply(&change);
                    break thread;
                }
                // Somebody else changed the thread: what fits now is another question.
                Err(CommitError::Conflict(_)) => {}
                Err(CommitError::Failed(e)) => return Err(e.into()),
                Err(e) => return Err(RunError(e.to_string()).into()),
            }
        };
        leave_to_runs(self.toolbox().catalog().keys(), &mut thread.state);
        Ok(thread)
    }

    /// A run as its record tells it. Where calls of it were under way, what others wrote
    /// to the thread is folded in where it came: a call that runs again sees what it saw,
    /// and what was returned conflicts with what it did not see.
    pub(super) async fn fold(
        &self,
        thread: Thread,
        thread_id: &str,
        record: &[Arc<StoredEvent>],
    ) -> Result<Run, HostError> {
        let mut run = Run::new(thread.clone());
        for event in record {
            run.apply(&event.event).map_err(|e| RunError(e.to_string()))?;
        }
        if !run.is_in_batch() {
            return Ok(run);
        }
        let mut run = Run::new(thread);
        for event in record {
            if let Some(until) = run.behind(&event.event) {
                self.catch_up(&mut run, thread_id, until).await?;
            }
            run.apply(&event.event).map_err(|e| RunError(e.to_string()))?;
        }
        self.catch_up(&mut run, thread_id, u64::MAX).await?;
        Ok(run)
    }

    /// Folds in the changes of the thread up to this revision that the run lacks.
    pub(crate) async fn catch_up(&self, run: &mut Run, thread_id: &str, until: u64) -> Result<(), HostError> {
        while run.state().revision() < until {
            let known = run.state().revision();
            let changes = self.inner.store.changes(thread_id, known, CHANGES_AT_ONCE).await?;
            let missed = changes.iter().take_while(|change| change.revision <= until);
            if missed.map(|change| run.absorb(change)).count() == 0 {
                break;
            }
        }
        Ok(())
    }

    /// The turn to commit to a thread, for those whose changes conflicted with others.
    pub(crate) async fn turn_to_commit(&self, thread_id: &Arc<str>) -> OwnedMutexGuard<()> {
        lock_of(&self.inner.conflicts, thread_id).lock_owned().await
    }

    /// The thread's turn: of this host's runs one at a time has it.
    pub(super) async fn lock_thread(
        &self,
        thread_id: &Arc<str>,
        busy: Busy,
    ) -> Result<OwnedMutexGuard<()>, HostError> {
        let lock = lock_of(&self.inner.threads, thread_id);
        match busy {
            Busy::Queue => Ok(lock.lock_owned().await),
            Busy::Refuse => lock.try_lock_owned().map_err(|_| HostError::Busy(thread_id.to_string())),
        }
    }
}

/// What the work comes to; `None` if it does not end until then.
async fn before<T>(until: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => tokio::time::timeout_at(until, work).await.ok(),
        None => Some(work.await),
    }
}

/// The lock of a thread among these; those that nobody holds are forgotten.
fn lock_of(locks: &ThreadLocks, thread_id: &Arc<str>) -> Arc<tokio::sync::Mutex<()>> {
    let mut locks = locks.lock().unwrap_or_else(PoisonError::into_inner);
    locks.retain(|_, lock| lock.strong_count() > 0);
    let lock = locks.get(thread_id).and_then(Weak::upgrade).unwrap_or_default();
    locks.insert(Arc::clone(thread_id), Arc::downgrade(&lock));
    lock
}

/// What a thread kept of a key that is each run's own by now stays in the store, and is no
/// run's beginning.
fn leave_to_runs(keys: &KeySet, state: &mut State) {
    let of_runs = |key: &str| keys.get(key).is_some_and(|definition| definition.scope == KeyScope::Run);
    if state.keys().any(of_runs) {
        state.forget(keys, KeyScope::Run);
    }
}

/// A run's own keys whose values no longer fit start anew. The record keeps what
/// they were.
pub(super) fn start_anew(keys: &KeySet, run: &Run, state: &mut State) {
    for misfit in aside_if(takes_long(keys, run.state()), || misfits(keys, run.state())) {
        if keys.get(misfit.key).is_some_and(|key| key.scope == KeyScope::Run) {
            state.set(misfit.key, misfit.initial.clone());
        }
    }
}
