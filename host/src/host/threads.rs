//! A host's threads: the order of their runs, and state that fits the current keys.

use super::{Busy, Host, HostError, RunRequest};
use crate::blocking::aside_if;
use crate::run::{ConversationMemory, RunClock, RunError, RunHandle};
use crate::store::{CommitError, RecordReader, Remedy, RunFilter, RunSummary};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;
use tollgate_agent::run::{Input, Run, Thread};
use tollgate_agent::state::set_aside::{misfits, set_aside, takes_long};
use tollgate_agent::state::{KeyScope, KeySet, State};
use tollgate_agent::text::clean;

/// The interval at which a queued run checks whether another process is done.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The longest time that a run takes to release its thread after its end is recorded.
const RELEASE_TIME: Duration = Duration::from_secs(5);

/// The interval at which a request checks whether the thread is released.
const RELEASE_INTERVAL: Duration = Duration::from_millis(2);

/// The condition of a thread that a prompt finds.
enum ThreadCondition {
    /// No run is open: the prompt may run.
    Turn(OwnedMutexGuard<()>),
    /// A run waits for a person.
    Waiting(String),
    /// A run stopped when its process ended.
    Interrupted(String),
}

impl Host {
    /// Starts a run once the thread is free. A queued request waits up to this long for others;
    /// the time for recovering a run does not count.
    pub(super) async fn run_on(
        &self,
        thread_id: &Arc<str>,
        request: &RunRequest,
        patience: Duration,
    ) -> Result<RunHandle, HostError> {
        // Other requests do not wait, so they need no time for it.
        let latest = || Instant::now().checked_add(patience).filter(|_| request.busy == Busy::Queue);
        let mut until = latest();
        let busy = || HostError::Busy(thread_id.to_string());
        let _place = match request.busy {
            Busy::Refuse => None,
            Busy::Queue => {
                Some(before(until, self.inner.services.store.queue(thread_id)).await.ok_or_else(busy)??)
            }
        };
        let mut recovered = None;
        loop {
            match before(until, self.thread_condition(thread_id, request.busy)).await.ok_or_else(busy)?? {
                ThreadCondition::Turn(turn) => match self.start(thread_id, request, turn).await {
                    // A process that does not queue was faster.
                    Err(HostError::Busy(_)) if request.busy == Busy::Queue => {}
                    started => return started,
                },
                ThreadCondition::Waiting(run_id) => {
                    let message = Input::Message(request.prompt.clone());
                    let continued = before(until, self.continue_run(&run_id, message, request.busy));
                    return continued.await.ok_or_else(busy)?;
                }
                ThreadCondition::Interrupted(run_id) if recovered.as_ref() == Some(&run_id) => {
                    let words = format!("the interrupted run {run_id} cannot be finished");
                    return Err(RunError::new(words).with_remedy(Remedy::ShowRun(run_id)).into());
                }
                ThreadCondition::Interrupted(run_id) => {
                    let continued = before(until, self.continue_run(&run_id, Input::Restarted, request.busy));
                    let end = continued.await.ok_or_else(busy)??.wait().await?;
                    until = latest();
                    if !end.waiting.is_empty() {
                        return Err(HostError::Waiting(run_id));
                    }
                    recovered = Some(run_id);
                }
            }
        }
    }

    /// Returns the open run of the thread, or the lock on the thread if there is none.
    async fn thread_condition(&self, thread_id: &Arc<str>, busy: Busy) -> Result<ThreadCondition, HostError> {
        loop {
            let turn = self.lock_thread(thread_id, busy).await?;
            let open = self.open_runs(thread_id).await?;
            if let Some(run) = open.iter().find(|run| !run.is_driven) {
                let run_id = run.run_id.clone();
                return Ok(if run.status == "waiting" {
                    ThreadCondition::Waiting(run_id)
                } else {
                    ThreadCondition::Interrupted(run_id)
                });
            }
            match busy {
                _ if open.is_empty() => return Ok(ThreadCondition::Turn(turn)),
                Busy::Refuse => return Err(HostError::Busy(thread_id.to_string())),
                // Another process works on the thread, and sends no signal when it is done.
                Busy::Queue => drop(turn),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Returns the runs of a thread that have not ended.
    async fn open_runs(&self, thread_id: &str) -> Result<Vec<RunSummary>, HostError> {
        let mut open = Vec::new();
        for status in ["running", "waiting"] {
            let filter = RunFilter {
                thread_id: Some(thread_id.to_owned()),
                status: Some(status.to_owned()),
                kind: Some("prompt".to_owned()),
                ..RunFilter::default()
            };
            open.extend(self.inner.services.store.runs(filter).await?);
        }
        Ok(open)
    }

    /// Returns the current thread.
    pub(super) async fn thread(&self, thread_id: &str) -> Result<Thread, HostError> {
        loop {
            let thread = self.inner.services.store.thread(thread_id).await?;
            if let Some(thread) = self.fitting(thread_id, thread).await? {
                return Ok(thread);
            }
        }
    }

    /// Returns a thread as it was just read, with values that fit their keys. Those that no longer
    /// do are first set aside permanently, and the operator is notified. `None` if the thread was
    /// changed meanwhile and must be read again.
    pub(super) async fn fitting(
        &self,
        thread_id: &str,
        mut thread: Thread,
    ) -> Result<Option<Thread>, HostError> {
        let toolbox = self.toolbox();
        let keys = toolbox.catalog().keys();
        let misfits = aside_if(takes_long(keys, &thread.state), || misfits(keys, &thread.state));
        let revision = thread.state.revision();
        if let Some(change) = set_aside(&misfits, revision) {
            match self.inner.services.store.change(thread_id, change.clone()).await {
                Ok(()) => {}
                Err(CommitError::Conflict(_)) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
            for misfit in &misfits {
                tracing::warn!(
                    "the value of {} in thread {} no longer fits ({}); it is kept under revision {revision}, and the key is reset",
                    misfit.key,
                    clean(thread_id, 200),
                    clean(&misfit.why, 200),
                );
            }
            thread.state.apply(&change);
        }
        leave_to_runs(keys, &mut thread.state);
        Ok(Some(thread))
    }

    /// Reconstructs a run from its record. If it has unfinished calls, the thread's changes by
    /// others are applied in their original order: a call that runs again sees the same state
    /// as before, and its result conflicts with changes that it did not see.
    ///
    /// # Errors
    /// The record cannot be read, or there is no memory for the conversation in it.
    pub(super) async fn fold(
        &self,
        thread: Thread,
        thread_id: &str,
        run_id: &str,
        purpose: FoldPurpose,
    ) -> Result<FoldedRun, HostError> {
        let record = RecordReader::new(&*self.inner.services.store, run_id);
        self.fold_record(thread, thread_id, (run_id, record), purpose).await
    }

    /// Like [`fold`](Self::fold), with a reader of the record that may have been used to look at its
    /// first event.
    pub(super) async fn fold_record(
        &self,
        thread: Thread,
        thread_id: &str,
        (run_id, mut record): (&str, RecordReader<'_>),
        purpose: FoldPurpose,
    ) -> Result<FoldedRun, HostError> {
        let (mut run, mut clock) = (Run::new(thread.clone()), RunClock::default());
        let mut memory = ConversationMemory::after(run.messages().len());
        while let Some(event) = record.next().await? {
            run.apply(&event.event).map_err(|e| RunError::of_record(run_id, &e))?;
            clock.see(&event);
            let continues = purpose == FoldPurpose::Continue;
            if continues && !memory.try_reserve(&event.event, run.messages(), self.memory_budget()) {
                return Err(self.overloaded(self.no_memory_to_continue(run_id)));
            }
        }
        if !run.is_in_batch() {
            return Ok(FoldedRun { run, clock, memory });
        }
        let mut run = Run::new(thread);
        let mut record = RecordReader::new(&*self.inner.services.store, run_id);
        while let Some(event) = record.next().await? {
            if let Some(until) = run.base_revision(&event.event) {
                self.inner.services.catch_up(&mut run, thread_id, until).await?;
            }
            run.apply(&event.event).map_err(|e| RunError::of_record(run_id, &e))?;
        }
        self.inner.services.catch_up(&mut run, thread_id, u64::MAX).await?;
        Ok(FoldedRun { run, clock, memory })
    }

    fn no_memory_to_continue(&self, run_id: &str) -> String {
        format!(
            "the host has no memory to continue the run {} now: its record has long replies of the model, or long \
             answers to its calls; try again later, or raise memory_budget_bytes (now {}){}",
            clean(run_id, 100),
            self.memory_budget().total_bytes(),
            self.memory_budget().limit_place()
        )
    }

    /// Takes the thread's lock, which one of this host's runs holds at a time. A run releases it
    /// shortly after its end is recorded, and a caller that has read this end is not refused.
    pub(super) async fn lock_thread(
        &self,
        thread_id: &Arc<str>,
        busy: Busy,
    ) -> Result<OwnedMutexGuard<()>, HostError> {
        let lock = self.inner.threads.of(thread_id);
        if busy == Busy::Queue {
            return Ok(lock.lock_owned().await);
        }
        let until = Instant::now() + RELEASE_TIME;
        loop {
            if let Ok(turn) = Arc::clone(&lock).try_lock_owned() {
                return Ok(turn);
            }
            let open = self.open_runs(thread_id).await?;
            if Instant::now() >= until || open.iter().any(|run| run.status == "running" && run.is_driven) {
                return Err(HostError::Busy(thread_id.to_string()));
            }
            tokio::time::sleep(RELEASE_INTERVAL).await;
        }
    }
}

/// The purpose for which a run is read from its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoldPurpose {
    /// The run goes on: memory is reserved for the conversation in its record.
    Continue,
    /// The run is inspected or ended, which must not fail for lack of memory.
    Inspect,
}

impl FoldPurpose {
    /// Returns the purpose of a run that gets this input.
    pub(super) fn of(input: &Input) -> Self {
        match input {
            Input::Cancel { .. } => Self::Inspect,
            _ => Self::Continue,
        }
    }
}

/// A run as it was read from its record.
pub(super) struct FoldedRun {
    pub(super) run: Run,
    /// The time of the record.
    pub(super) clock: RunClock,
    /// The memory of the model's long replies and of the answers to calls.
    pub(super) memory: ConversationMemory,
}

/// Awaits the work; `None` if it does not finish in time.
async fn before<T>(until: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => tokio::time::timeout_at(until, work).await.ok(),
        None => Some(work.await),
    }
}

/// Leaves out values that a thread stored for a key that is now per run. They stay in the
/// store, but no run starts with them.
fn leave_to_runs(keys: &KeySet, state: &mut State) {
    let of_runs = |key: &str| keys.get(key).is_some_and(|definition| definition.scope == KeyScope::Run);
    if state.keys().any(of_runs) {
        state.forget(keys, KeyScope::Run);
    }
}

/// Resets a run's own keys whose values no longer fit. The record keeps the old values.
pub(super) fn start_anew(keys: &KeySet, run: &Run, state: &mut State) {
    for misfit in aside_if(takes_long(keys, run.state()), || misfits(keys, run.state())) {
        if keys.get(misfit.key).is_some_and(|key| key.scope == KeyScope::Run) {
            state.set(misfit.key, misfit.initial.clone());
        }
    }
}
