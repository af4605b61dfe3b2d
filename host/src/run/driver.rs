//! The loop around the state machine. It commits before it acts and before it publishes.

use super::attempt::{AttemptTask, Outcomes, validate};
use super::audit_records::{Refusals, records_of};
use super::children::{Ask, Children};
use super::clock::RunClock;
use super::commit::{UnrecordedEffects, components_of, durability, may_wait, started, written_keys};
use super::conversation_memory::{AnswerMemory, ConversationMemory};
use super::gate_round::{GateRound, ask_own_gate};
use super::hooks::HookContext;
use super::kept_turn::{KeptTurn, TimedTurn};
use super::lease::RunLease;
use super::recent_changes::RecentChanges;
use super::services::{RunParts, RunStops};
use super::work::{Work, on_its_own};
use super::{RunEnd, RunError, UnrecordedEffect, spans};
use crate::blocking::aside_if;
use crate::store::rules::{begins_direct, charges};
use crate::store::{Commit, CommitError, Durability, StoreError};
use crate::stream::{Delivery, Inbox};
use futures::future::BoxFuture;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate_agent::SmolStr;
use tollgate_agent::health::HealthSign;
use tollgate_agent::history::History;
use tollgate_agent::message::{Message, ToolSpec};
use tollgate_agent::run::event::{Event, FinishedCall};
use tollgate_agent::run::{Effect, Input, Phase, Run, Task};
use tollgate_sandbox::Reservation;
use tracing::Instrument as _;

/// How many times one input is decided again after conflicts on the thread.
const MAX_CONFLICTS: u32 = 1_000;
/// The number of conflicts after which a run pauses before it decides again.
const CONFLICTS_AT_ONCE: u32 = 3;
/// The longest of these pauses, in milliseconds.
const MAX_PAUSE_MS: u64 = 200;
/// A call whose arguments and outcome take more memory is stored before it is answered, so that few bytes wait in
/// memory for the store.
const MAX_DEFERRED_BYTES: u64 = 1024 * 1024;

/// The event that came first.
pub(super) enum DriverWake {
    Input(Input),
    Ask(Box<Ask>),
    Delivery(Delivery),
    Cancelled,
    TimeUp,
    /// This process may no longer drive the run.
    Lapsed,
}

/// The driver of one run, until it ends or waits for a person.
pub(crate) struct Driver {
    pub(super) parts: RunParts,
    pub(super) run: Run,
    pub(super) work: Work,
    /// Events that are committed with the next ones: those of a direct call, which is committed
    /// once, when it ends, and checks of arguments that passed.
    held_back: Vec<Event>,
    /// The number of messages the thread had before this run.
    known_messages: usize,
    /// The tool specs shown to the model, and the agent they belong to.
    pub(super) tool_specs: Option<(SmolStr, Arc<Vec<ToolSpec>>)>,
    /// The length of the conversation so far.
    pub(super) history: History,
    pub(super) children: Children,
    pub(super) deadline: Option<Instant>,
    pub(super) clock: RunClock,
    /// Cancelled if this process may no longer drive its runs.
    pub(super) lapse: CancellationToken,
    /// The memory of large arguments while their calls are in flight.
    pub(super) arguments: Option<Reservation>,
    /// The memory of a large state while the run is at work.
    pub(crate) state_memory: Option<Reservation>,
    /// The memory of a large thread as it was when the run began.
    pub(crate) thread_memory: Option<Reservation>,
    /// The memory of large outcomes that are not committed yet.
    pub(super) outcomes: Outcomes,
    /// The records of refused powers that are not committed yet.
    pub(super) refusals: Refusals,
    /// The memory of the model's long replies.
    pub(super) replies: Outcomes,
    /// The memory of the answers to calls in the run's conversation.
    pub(super) answers: AnswerMemory,
    last_call: Option<Arc<FinishedCall>>,
    end_text: String,
    /// The effect of tools that the last commit failed to record.
    unrecorded: UnrecordedEffect,
    /// Receives decisions while the run is at work.
    pub(super) inbox: Inbox,
    /// The turn to commit, kept while a call runs again after a conflict.
    kept_turn: KeptTurn,
    /// Held until the run rests.
    lease: Option<RunLease>,
}

impl Driver {
    /// Creates a driver that continues the run from its recorded state.
    pub(crate) fn new(parts: RunParts, run: Run, known_messages: usize) -> Box<Self> {
        Box::new(Self {
            children: Children::default(),
            deadline: None,
            clock: RunClock::default(),
            lapse: CancellationToken::new(),
            inbox: parts.publisher.take_inbox(),
            parts,
            answers: AnswerMemory::after(run.messages().len()),
            run,
            work: Work::default(),
            held_back: Vec::new(),
            known_messages,
            tool_specs: None,
            history: History::default(),
            arguments: None,
            state_memory: None,
            thread_memory: None,
            outcomes: Outcomes::default(),
            refusals: Refusals::default(),
            replies: Outcomes::default(),
            last_call: None,
            end_text: String::new(),
            unrecorded: UnrecordedEffect::Unknown,
            kept_turn: KeptTurn::default(),
            lease: None,
        })
    }

    /// Returns the id of the run's thread.
    pub(crate) fn thread_id(&self) -> Arc<str> {
        Arc::clone(&self.parts.thread_id)
    }

    /// Continues the time of the run's record.
    #[must_use]
    pub(crate) fn at(mut self: Box<Self>, clock: RunClock) -> Box<Self> {
        self.clock = clock;
        self
    }

    /// Holds the memory of the conversation that was read from the run's record.
    #[must_use]
    pub(crate) fn with_conversation(mut self: Box<Self>, memory: ConversationMemory) -> Box<Self> {
        memory.replies.into_iter().for_each(|memory| self.replies.hold(Arc::new(memory)));
        self.answers = memory.answers;
        self
    }

    /// Takes the first input and commits what follows from it. [`drive`](Self::drive) continues from
    /// there.
    ///
    /// # Errors
    /// Nothing was committed: the store failed, another process drives the run, or another run of
    /// its thread is active.
    pub(crate) async fn begin(&mut self, first: Input) -> Result<(), CommitError> {
        self.begin_lease();
        let span = spans::run(&self.parts.run_id, &self.parts.thread_id);
        self.try_step(first).instrument(span).await
    }

    /// Drives the run, from this input unless it has [begun](Self::begin).
    pub(crate) async fn drive(mut self: Box<Self>, first: Option<Input>) -> Result<RunEnd, RunError> {
        self.run_to_rest(first).await?;
        Ok(self.end())
    }

    /// Drives the run, from this input unless it has [begun](Self::begin). Also returns its final state.
    pub(crate) async fn drive_to_rest(
        mut self: Box<Self>,
        first: Option<Input>,
    ) -> Result<(RunEnd, Run), RunError> {
        self.run_to_rest(first).await?;
        Ok((self.end(), self.run))
    }

    /// Drives the run to rest.
    async fn run_to_rest(&mut self, first: Option<Input>) -> Result<(), RunError> {
        let span = spans::run(&self.parts.run_id, &self.parts.thread_id);
        self.run_steps(first).instrument(span).await
    }

    async fn run_steps(&mut self, first: Option<Input>) -> Result<(), RunError> {
        self.begin_lease();
        if let Some(first) = first {
            self.step(first).await?;
        }
        self.deadline = self.deadline();
        while !self.rests() {
            let waited = match self.start_effects() {
                Some(judged) => self.must_end().unwrap_or(DriverWake::Input(judged)),
                None => self.wait().await,
            };
            let input = match waited {
                DriverWake::Input(input) => input,
                DriverWake::Ask(ask) => {
                    self.child_asked(*ask).await?;
                    continue;
                }
                DriverWake::Delivery(delivery) => {
                    self.take_delivery(delivery).await?;
                    continue;
                }
                DriverWake::Cancelled => {
                    let reason = Some(self.parts.publisher.cancel_reason());
                    Input::CutShort { reason, stopped: self.stop_work().await? }
                }
                DriverWake::Lapsed => return Err(lapsed(&self.parts.run_id)),
                DriverWake::TimeUp => {
                    self.parts.cancel.cancel();
                    Input::CutShort { reason: None, stopped: self.stop_work().await? }
                }
            };
            self.accept(input).await?;
            if self.work.is_empty() {
                self.answers.take_over(self.outcomes.release(), &self.parts.services.memory_budget);
            }
        }
        if self.run.is_finished() {
            self.children.end_all(&self.parts.host, &self.run).await;
            if let Some(model) = self.parts.services.model_of(&self.run.spec().identity.agent_id) {
                model.run_ended(self.run.messages()).await;
            }
        }
        if let Some(lease) = self.lease.take() {
            lease.end();
        }
        Ok(())
    }

    /// Begins the lease, unless it has begun.
    fn begin_lease(&mut self) {
        let RunParts { services, host, run_id, epoch, .. } = &self.parts;
        let begin =
            || RunLease::new(Arc::clone(host), Arc::clone(&services.store), (Arc::clone(run_id), *epoch));
        self.lease.get_or_insert_with(begin);
        if self.run.events() > 0 {
            self.make_known();
        }
    }

    /// Lets other hosts reach the run.
    fn make_known(&mut self) {
        let (cancel, lapse) = (&self.parts.cancel, &self.lapse);
        if let Some(lease) = &mut self.lease {
            lease.make_known(|| RunStops { cancel: cancel.clone(), lapse: lapse.clone() });
        }
    }

    /// Returns whether the run has ended or can only continue with outside input. A run with
    /// effects to start does not rest, such as one whose abandoned children must be ended.
    fn rests(&self) -> bool {
        match self.run.phase() {
            Phase::Finished(_) => true,
            Phase::Waiting => self.work.is_empty() && self.run.next(self.parts.toolbox.catalog()).is_empty(),
            _ => false,
        }
    }

    pub(super) fn is_direct(&self) -> bool {
        matches!(self.run.spec().task, Task::Call { .. })
    }

    /// Decides on one input, then commits, applies and publishes the resulting events.
    pub(super) async fn step(&mut self, input: Input) -> Result<(), RunError> {
        let stepped = self.try_step(input).await;
        stepped.map_err(|why| RunError::not_stored(&why.into(), std::mem::take(&mut self.unrecorded)))
    }

    async fn try_step(&mut self, input: Input) -> Result<(), CommitError> {
        let failed = |why: String| CommitError::Failed(StoreError::other(why));
        let mut input = self.with_room(input).await;
        let mut unrecorded = match &input {
            Input::Attempted { call_id, .. } => UnrecordedEffects::of_tools(self.ran_for_good(call_id)),
            _ => UnrecordedEffects::default(),
        };
        let (mut turn, mut rewriting) = (self.kept_turn.take(), None);
        let long_values = if turn.is_none() { self.long_values(&input) } else { BTreeSet::new() };
        if !long_values.is_empty() {
            let RunParts { services, thread_id, .. } = &self.parts;
            // A call that runs again because of a conflict keeps its turn, and is not overtaken.
            let is_free = !services.conflicts.is_held(thread_id);
            rewriting = is_free.then(|| Arc::clone(&services.long_values).try_acquire_owned().ok()).flatten();
            if rewriting.is_none() {
                self.see_or_explain(&mut turn, long_values, &unrecorded).await?;
            }
        }
        for conflicts in 0..MAX_CONFLICTS {
            pause_after(conflicts).await;
            let now_ms = self.clock.now_ms();
            let events = self.decided(&mut input, now_ms).await.map_err(|e| failed(e.to_string()))?;
            if events.is_empty() {
                self.keep_turn(turn);
                return Ok(());
            }
            if self.may_hold_back(&events) {
                events.iter().try_for_each(|event| self.apply(event)).map_err(|e| failed(e.to_string()))?;
                match self.held_back.is_empty() {
                    true => self.held_back = events,
                    false => self.held_back.extend(events),
                }
                self.keep_turn(turn);
                return Ok(());
            }
            unrecorded = UnrecordedEffects::of(&events, |call_id| self.ran_for_good(call_id));
            let keys = written_keys(events.iter().filter_map(Event::change));
            let recent = turn.as_mut().map(|turn| &mut *turn.turn);
            match self.commit(events, now_ms, recent).await {
                Ok(()) => {
                    self.keep_turn(turn);
                    return Ok(());
                }
                Err(CommitError::Conflict(_)) => {
                    drop(rewriting.take());
                    self.see_or_explain(&mut turn, keys, &unrecorded).await?;
                }
                Err(e) => {
                    self.unrecorded = unrecorded.effect(&e);
                    return Err(unrecorded.explain(e));
                }
            }
        }
        self.unrecorded = unrecorded.effect(&CommitError::Conflict(0));
        Err(unrecorded.explain(failed(format!(
            "other runs and calls changed the thread's state {MAX_CONFLICTS} times while this was stored"
        ))))
    }

    /// Keeps the turn to commit while a call runs again, and otherwise returns it.
    fn keep_turn(&self, turn: Option<TimedTurn>) {
        let runs_again = self.run.calls().iter().any(|call| call.attempts > 0 && call.end().is_none());
        if let Some(turn) = turn.filter(|turn| turn.is_kept && runs_again && !self.rests()) {
            self.kept_turn.keep(turn);
        }
    }

    /// Applies what others committed. If that fails, the run ends without this step.
    async fn see_or_explain(
        &mut self,
        turn: &mut Option<TimedTurn>,
        keys: BTreeSet<String>,
        unrecorded: &UnrecordedEffects,
    ) -> Result<(), CommitError> {
        let Err(why) = self.see_others(turn, keys).await else { return Ok(()) };
        let why = CommitError::from(why);
        self.unrecorded = unrecorded.effect(&why);
        Err(unrecorded.explain(why))
    }

    /// Returns the tool of a call that has run and may not run twice.
    fn ran_for_good(&self, call_id: &str) -> Option<SmolStr> {
        let call = self.run.calls().iter().find(|call| call.id == call_id)?;
        (call.attempts > 0 && !self.may_repeat(call_id)).then(|| call.tool_name.clone())
    }

    /// Returns whether the call may run more than once.
    fn may_repeat(&self, call_id: &str) -> bool {
        let call = self.run.calls().iter().find(|call| call.id == call_id);
        let tool = call.and_then(|call| self.parts.toolbox.catalog().tool(&call.tool_name));
        tool.is_some_and(|tool| tool.descriptor.execution.idempotent)
    }

    /// Returns whether these events may wait for the next commit. A call that may not run twice
    /// is committed before it runs.
    fn may_hold_back(&self, events: &[Event]) -> bool {
        let is_direct = self.is_direct() || events.first().is_some_and(begins_direct);
        let is_stored = self.run.events() > self.held_back.len() as u64;
        let runs_for_good = || events.iter().filter_map(started).any(|call_id| !self.may_repeat(call_id));
        may_wait(is_direct, is_stored, events) && !runs_for_good()
    }

    /// Commits the events, and adds their changes to those that runs waiting for their turn lack.
    async fn commit(
        &mut self,
        events: Vec<Event>,
        now_ms: u64,
        recent: Option<&mut RecentChanges>,
    ) -> Result<(), CommitError> {
        if !matches!(events.last(), Some(Event::RunFinished { .. })) {
            // A run that ends with its first commit, as most direct calls do, can be reached by no one.
            self.make_known();
        }
        let RunParts { run_id, thread_id, toolbox, services, .. } = &self.parts;
        let messages = self.new_messages(&events);
        let held_back = std::mem::take(&mut self.held_back);
        let (applied, all) = (held_back.len(), held_back.into_iter().chain(events));
        let (run_id, thread_id) = (Arc::clone(run_id), Arc::clone(thread_id));
        let mut commit = Commit::new(run_id, thread_id, self.run.events() - applied as u64, now_ms, all);
        let events = Arc::clone(commit.events());
        commit.epoch = self.parts.epoch;
        commit.carries_out.extend(self.parts.command.clone());
        commit.messages = messages;
        commit.thread_state_bytes = Some(toolbox.catalog().keys().thread_state_bytes());
        commit.charged = charges(&events, &self.run);
        let refusals = self.refusals.for_commit();
        let refused = refusals.len();
        commit.audit = records_of(refusals, &self.run, commit.run_id(), &events);
        let trapped = commit.audit.iter().any(|record| record.health_sign() == HealthSign::Trapped);
        let held_bytes = self.outcomes.bytes() + self.arguments.as_ref().map_or(0, Reservation::bytes);
        if commit.after() == 0 && !trapped && refused == 0 && held_bytes <= MAX_DEFERRED_BYTES {
            commit.durability = durability(&events);
        }
        if commit.durability == Durability::Deferred {
            // The run ends with this commit.
            commit.memory = self.outcomes.with(self.arguments.take());
        }
        if services.store.archives() {
            commit.components = components_of(&events, toolbox);
        }
        let span = spans::commit(events.len());
        let committed = match services.store.commit(commit).instrument(span).await {
            Ok(committed) => committed,
            Err(why) => {
                // Decide again if the change conflicted with another; otherwise this is the end.
                self.held_back = events[..applied].iter().map(|held| held.event.clone()).collect();
                return Err(why);
            }
        };
        self.refusals.stored(refused);
        self.parts.command = None;
        self.clock.committed(now_ms);
        let followed = self.follow(&events, applied, committed.moved).await;
        let events = followed.map_err(CommitError::Recorded)?;
        if let Some(recent) = recent {
            events.iter().filter_map(|event| event.event.change()).for_each(|change| recent.push(change));
        }
        self.parts.publisher.publish_stored(&events, &self.run);
        if trapped {
            // If the store cannot be read, the next commit reports it.
            let _ = self.parts.services.tools.refresh_health().await;
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, event: &Event) -> Result<(), RunError> {
        let applied = aside_if(self.run.changes_long_value(event), || self.run.apply(event));
        applied.map_err(|e| RunError::new(e.to_string()))?;
        if !self.is_direct() {
            self.answers.count(event, self.run.messages());
        }
        match event {
            Event::CallFinished(finished) => self.last_call = Some(Arc::clone(finished)),
            Event::RunFinished { text, .. } => self.end_text.clone_from(text),
            _ => {}
        }
        Ok(())
    }

    /// Returns the messages to append to the thread's conversation once the run has ended.
    fn new_messages(&self, events: &[Event]) -> Vec<Message> {
        if self.is_direct() || !events.iter().any(|event| matches!(event, Event::RunFinished { .. })) {
            return Vec::new();
        }
        let mut ended = self.run.clone();
        let is_long = events.iter().any(|event| self.run.changes_long_value(event));
        if aside_if(is_long, || events.iter().try_for_each(|event| ended.apply(event))).is_err() {
            return Vec::new();
        }
        ended.messages()[self.known_messages.min(ended.messages().len())..].to_vec()
    }

    /// Starts the effects that are not in flight yet. If all gates are written in Rust, returns
    /// their answer at once.
    fn start_effects(&mut self) -> Option<Input> {
        let effects = self.run.next(self.parts.toolbox.catalog());
        let executions = effects.iter().filter(|effect| matches!(effect, Effect::Execute(_))).count();
        for effect in effects {
            let key = effect.key();
            if self.work.contains(&key) {
                continue;
            }
            if matches!(effect, Effect::AskModel { .. }) {
                self.take_up_toolbox();
            }
            let RunParts { services, toolbox, cancel, .. } = &self.parts;
            let work: BoxFuture<'static, Input> = match effect {
                Effect::Judge { round, questions } => {
                    if let Some(judged) = ask_own_gate(&self.parts, &self.run, round, &questions) {
                        return Some(judged);
                    }
                    let asking =
                        GateRound::new(&self.parts, &self.run, round, questions, self.outcomes.clone());
                    Box::pin(asking.ask().instrument(spans::gates()))
                }
                Effect::AskModel { ask: number } => self.ask_model(number),
                Effect::Validate(proposal) => {
                    let runner = toolbox.runner(&proposal.tool().descriptor.name).cloned();
                    Box::pin(validate(runner, proposal))
                }
                Effect::Execute(execution) => {
                    let span = spans::attempt(&execution);
                    let trying = AttemptTask {
                        toolbox: Arc::clone(toolbox),
                        store: Arc::clone(&services.store),
                        spec: Arc::clone(self.run.spec()),
                        cancel: cancel.clone(),
                        clock: self.clock,
                        resources: self.attempt_resources(&execution),
                        execution,
                    };
                    Box::pin(async move { trying.run().instrument(span).await })
                }
                Effect::After(ended) => {
                    let context = HookContext::new(&services.hooks, toolbox.catalog(), &self.run);
                    Box::pin(context.after_call(ended))
                }
                Effect::EndChild { call_id, ordinal, run_id } => {
                    match self.children.end(&self.parts.host, (call_id, ordinal), run_id) {
                        Some(work) => work,
                        None => continue,
                    }
                }
            };
            // Several compute-bound tools use several cores; a single one skips the hop to
            // another thread.
            self.work.push(key, if executions > 1 { on_its_own(work) } else { work });
        }
        None
    }

    fn end(&mut self) -> RunEnd {
        let ids = (Arc::clone(&self.parts.run_id), Arc::clone(&self.parts.thread_id));
        RunEnd::of(&self.run, ids, self.last_call.take(), std::mem::take(&mut self.end_text))
    }
}

/// Pauses after conflicts with other processes. The pauses grow, and are random, so that several
/// processes do not meet again and again.
async fn pause_after(conflicts: u32) {
    if conflicts <= CONFLICTS_AT_ONCE {
        return;
    }
    let longest_ms = (u64::from(conflicts) * 10).min(MAX_PAUSE_MS);
    let random = uuid::Uuid::now_v7().as_u128() % u128::from(longest_ms);
    let pause_ms = u64::try_from(random).unwrap_or(longest_ms);
    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
}

/// Returns the error of a run that this process may no longer drive.
fn lapsed(run_id: &str) -> RunError {
    let words = format!(
        "the host could not renew its lease in time and stopped the run {run_id}, which continues on any host"
    );
    RunError::not_stored(&StoreError::unavailable(words), UnrecordedEffect::Unknown)
}
