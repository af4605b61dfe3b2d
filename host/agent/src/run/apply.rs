//! Folds events into a run, and takes over what others committed to its thread. Nothing else changes
//! a run.

use super::answer::answer;
use super::call::Call;
use super::call_stage::Stage;
use super::child_plan::{Child, ChildState};
use super::event::{CheckedCall, Event, FinishedCall};
use super::facts::InvalidTransition;
use super::spec::{Decision, MAX_CONTINUATIONS, RunSpec, Task};
use super::turn::{Batch, Turn};
use super::{Phase, Run};
use crate::agents::AgentSpec;
use crate::child::MAX_CHILD_TEXT_BYTES;
use crate::message::{Finish, Message, ModelReply};
use crate::outcome::{Outcome, Usage};
use crate::question::SuspendedCall;
use crate::state::{KeyScope, KeyUpdate, State, StateChange};
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The note that asks the model to continue a reply.
const CONTINUE: &str = "Your reply was cut off by its length. Continue exactly where it stopped.";

impl Run {
    /// Applies one event.
    ///
    /// # Errors
    /// The event cannot follow from the events before it. The run must not be used afterwards.
    pub fn apply(&mut self, event: &Event) -> Result<(), InvalidTransition> {
        if self.is_finished() {
            return Err(InvalidTransition("an event follows the end of the run".to_owned()));
        }
        self.events += 1;
        self.is_waiting_recorded = matches!(event, Event::RunWaiting);
        match event {
            Event::RunStarted { spec } => self.start(spec),
            Event::RunSeeded { change, messages } => {
                messages.iter().for_each(|message| self.add_message(message.clone()));
                self.changed(change.as_ref());
            }
            Event::MessageAdded { text } => self.add_message(Message::User(text.clone())),
            Event::StepStarted { step } => self.start_step(*step),
            Event::ModelReplied { reply, .. } => self.replied(reply),
            Event::CallProposed(proposed) => self.call_proposed(proposed)?,
            Event::CallValidated { call_id, .. } => self.call_mut(call_id)?.is_validated = true,
            Event::CallGated { call_id, verdicts } => self.call_mut(call_id)?.judge(verdicts)?,
            Event::BatchStarted { call_ids, .. } => self.start_batch(call_ids)?,
            Event::CallStarted { call_id, attempt, not_before_ms, until_ms } => {
                self.call_mut(call_id)?.start(*attempt, *not_before_ms, *until_ms)?;
            }
            Event::CallTook { .. } | Event::ModelHooked { .. } => {}
            Event::CallRetried { call_id, usage, .. } => {
                self.add_usage(call_id, *usage)?;
                self.call_mut(call_id)?.retry()?;
            }
            Event::CallReturned { call_id, outcome, unrecorded, usage } => {
                let outcome = Outcome::join_volatile(outcome, unrecorded);
                self.call_mut(call_id)?.enter(Stage::Returned { outcome, usage: *usage })?;
            }
            Event::CallConflicted { call_id, usage, .. } => self.conflicted(call_id, *usage)?,
            Event::CallHooked { call_id, point, answers } => self.call_hooked(call_id, *point, answers)?,
            Event::CallEnding(ending) => self.call_mut(&ending.call_id)?.complete(ending)?,
            Event::TurnCut { then } => self.turn_cut(then),
            Event::CallFinished(finished) => self.call_finished(finished)?,
            Event::CallSuspended(suspended) => self.call_suspended(suspended)?,
            Event::CallDecided { call_id, decision, change } => {
                self.decided(call_id, decision, change.as_ref())?;
            }
            Event::ChildStarted { call_id, ordinal, child_run_id, digest, .. } => {
                // The call must exist.
                self.call_mut(call_id)?;
                let (run_id, digest) = (child_run_id.clone(), digest.clone());
                let child = Child { run_id, digest, state: ChildState::Running };
                self.children.insert((call_id.clone(), *ordinal), child);
            }
            Event::ChildWaiting { call_id, ordinal, question } => {
                self.child_mut(call_id, *ordinal)?.state = ChildState::Waiting(question.clone());
            }
            Event::ChildFinished { call_id, ordinal, steps, tokens, .. } => {
                self.child_mut(call_id, *ordinal)?.state = ChildState::Ended;
                let used = &mut self.usage.children;
                used.runs += 1;
                used.steps = used.steps.saturating_add(*steps);
                used.tokens = used.tokens.plus(*tokens);
            }
            Event::Transferred { agent, change, .. } => self.transferred(agent, change),
            Event::StepFinished { .. } => self.finish_step(),
            Event::RunWaiting => self.phase = Phase::Waiting,
            Event::RunFinished { status, .. } => self.phase = Phase::Finished(status.clone()),
        }
        self.end_round(event);
        Ok(())
    }

    /// Takes over the current state of the thread, for a run that was folded from its record: other
    /// runs may have written to the thread while it waited.
    pub fn adopt(&mut self, thread: &State) {
        self.state.adopt(thread);
    }

    /// Takes over one change that another run committed to the thread in the meantime. Keys
    /// scoped to the other run are ignored.
    pub fn absorb(&mut self, change: &StateChange) {
        let is_of_thread = |update: &&KeyUpdate| update.scope == KeyScope::Thread;
        let updates = change.updates.iter().filter(is_of_thread).cloned().collect();
        self.apply_change(&StateChange { revision: change.revision, updates });
    }

    /// Takes over the changes that other runs committed to the thread in the meantime, as
    /// [outlines](StateChange::outlined), with the state that they led to. `keys` are the keys that
    /// they wrote, and any others whose values are to be taken over.
    pub fn absorb_all<'k>(
        &mut self,
        changes: &[StateChange],
        state: &State,
        keys: impl IntoIterator<Item = &'k str>,
    ) {
        changes.iter().for_each(|change| self.absorb(change));
        let updates = changes.iter().flat_map(|change| change.updates.iter());
        let of_thread = updates.filter(|update| update.scope == KeyScope::Thread);
        for key in keys {
            let mut of_key = of_thread.clone().filter(|update| *update.key == *key).peekable();
            if of_key.peek().is_none() || of_key.any(|update| !update.is_known()) {
                self.state.adopt_key(state, key);
            }
        }
    }

    /// Drops the values of these keys until [`absorb_all`](Self::absorb_all) takes them over again,
    /// so that a direct call that waits to commit does not hold an outdated state. The call's only
    /// attempt has ended and does not read the state again.
    pub fn release_values(&mut self, keys: &BTreeSet<String>) {
        keys.iter().for_each(|key| self.state.remove(key));
        if let Some(batch) = self.turn.as_mut().and_then(|turn| turn.batch.as_mut()) {
            batch.snapshot = self.state.snapshot();
        }
    }

    fn apply_change(&mut self, change: &StateChange) {
        self.state.apply(change);
        if let Some(batch) = self.turn.as_mut().and_then(|turn| turn.batch.as_mut()) {
            // The state has the values.
            batch.changes.push(change.outlined());
        }
    }

    fn start(&mut self, spec: &Arc<RunSpec>) {
        self.spec = Arc::clone(spec);
        if matches!(spec.task, Task::Call { .. }) {
            self.turn = Some(Turn::new(None));
            self.phase = Phase::Calling;
        }
    }

    fn add_message(&mut self, message: Message) {
        Arc::make_mut(&mut self.messages).push(message);
    }

    fn start_step(&mut self, step: u32) {
        self.step = step;
        self.asks += 1;
        self.continuations = 0;
        self.cut_off_text.clear();
        self.usage.steps += 1;
        self.phase = Phase::Asking;
        self.cut = None;
        self.filter = std::mem::take(&mut self.next_filter);
        let due = std::mem::take(&mut self.scheduled).into_iter();
        let (due, later): (Vec<_>, Vec<_>) = due.partition(|(turn, _)| *turn <= step);
        self.scheduled = later;
        due.into_iter().for_each(|(_, note)| self.add_message(Message::Note(note)));
    }

    fn replied(&mut self, reply: &Arc<ModelReply>) {
        self.usage.add_reply(reply);
        let said = self.turn_text(reply);
        if !said.is_empty() {
            self.last_text.clone_from(&said);
        }
        if self.spec.identity.parent_run_id.is_some() {
            let room = MAX_CHILD_TEXT_BYTES.saturating_sub(self.streamed_text.len());
            let text = &reply.message.text;
            self.streamed_text.push_str(&text[..text.floor_char_boundary(room)]);
        }
        if self.continues(reply) {
            self.continuations += 1;
            self.asks += 1;
            self.cut_off_text = said;
            self.add_message(Message::Assistant(reply.message.clone()));
            self.add_message(Message::Note(CONTINUE.to_owned()));
        } else if reply.message.calls.is_empty() {
            self.add_message(Message::Assistant(reply.message.clone()));
            reply.correction.clone().into_iter().for_each(|words| self.add_message(Message::Note(words)));
        } else {
            self.notes.extend(reply.correction.clone());
            self.repeated = (Some(Arc::clone(reply)), self.repetitions(reply));
            self.turn = Some(Turn::new(Some(Arc::clone(reply))));
            self.phase = Phase::Calling;
        }
    }

    /// Returns the text of the turn up to and including this reply, with the parts that it
    /// continues.
    pub(super) fn turn_text(&self, reply: &ModelReply) -> String {
        format!("{}{}", self.cut_off_text, reply.message.text)
    }

    /// Returns whether a reply was cut off by its length and is to be continued.
    pub(super) fn continues(&self, reply: &ModelReply) -> bool {
        reply.finish == Finish::Length
            && reply.correction.is_none()
            && reply.message.calls.is_empty()
            && self.continuations < MAX_CONTINUATIONS
            && !self.stops_on_text(reply)
    }

    /// Returns whether the model said one of the texts that end the run.
    pub(super) fn stops_on_text(&self, reply: &ModelReply) -> bool {
        let texts = &self.spec.limits.stop_on_texts;
        !texts.is_empty() && {
            let said = self.turn_text(reply);
            texts.iter().any(|text| said.contains(text.as_str()))
        }
    }

    /// Returns how many turns in a row requested exactly these calls, including this one.
    pub(super) fn repetitions(&self, reply: &ModelReply) -> u32 {
        let (last, times) = &self.repeated;
        if last.as_ref().is_some_and(|last| asks_the_same(last, reply)) { times + 1 } else { 1 }
    }

    fn call_proposed(&mut self, proposed: &CheckedCall) -> Result<(), InvalidTransition> {
        // A direct call has no model that could give an id twice.
        if self.step > 0 {
            self.call_ids.insert(proposed.call_id.clone());
        }
        self.usage.calls += 1;
        self.turn_mut()?.add(Call::new(proposed));
        Ok(())
    }

    fn start_batch(&mut self, call_ids: &[SmolStr]) -> Result<(), InvalidTransition> {
        let snapshot = self.state.snapshot();
        let Some(turn) = &mut self.turn else { return Err(no_turn()) };
        let calls = call_ids.iter().map(|id| turn.position(id).ok_or_else(|| unknown(id)));
        let batch = Batch { calls: calls.collect::<Result<_, _>>()?, snapshot, changes: Vec::new() };
        batch.calls.iter().for_each(|at| self.let_through.count(&mut turn.calls[*at]));
        turn.batch = Some(batch);
        Ok(())
    }

    fn add_usage(&mut self, call_id: &str, usage: Usage) -> Result<(), InvalidTransition> {
        self.usage.tools = self.usage.tools.plus(usage);
        let call = self.call_mut(call_id)?;
        call.usage = call.usage.plus(usage);
        Ok(())
    }

    fn conflicted(&mut self, call_id: &str, usage: Usage) -> Result<(), InvalidTransition> {
        self.add_usage(call_id, usage)?;
        self.call_mut(call_id)?.conflict()?;
        self.leave_batch(call_id)
    }

    fn call_finished(&mut self, finished: &FinishedCall) -> Result<(), InvalidTransition> {
        self.add_usage(&finished.call_id, finished.last_attempt())?;
        self.call_mut(&finished.call_id)?.enter(Stage::Ended(finished.end.clone()))?;
        self.notes.extend(finished.notes.iter().cloned());
        let later = finished.scheduled.iter().map(|later| (self.step + later.in_turns, later.note.clone()));
        self.scheduled.extend(later);
        if let Some(filter) = &finished.filter {
            self.next_filter = std::mem::take(&mut self.next_filter).and(filter);
        }
        self.escalated |= finished.escalates;
        if let Some(agent) = &finished.transfer {
            self.turn_mut()?.transfer = Some(agent.clone());
        }
        self.leave_batch(&finished.call_id)?;
        self.changed(finished.change.as_ref());
        Ok(())
    }

    fn call_suspended(&mut self, suspended: &SuspendedCall) -> Result<(), InvalidTransition> {
        self.add_usage(&suspended.call_id, suspended.usage)?;
        self.call_mut(&suspended.call_id)?.suspend(suspended)?;
        self.asked.extend([suspended.call_id.to_string(), suspended.suspension_id.clone()]);
        self.leave_batch(&suspended.call_id)?;
        self.changed(suspended.change.as_ref());
        Ok(())
    }

    fn decided(
        &mut self,
        call_id: &str,
        decision: &Decision,
        change: Option<&StateChange>,
    ) -> Result<(), InvalidTransition> {
        self.changed(change);
        self.decisions.insert(decision.id.clone(), decision.clone());
        self.phase = Phase::Calling;
        self.call_mut(call_id)?.decide(decision)
    }

    /// Continues the run with another agent.
    fn transferred(&mut self, agent: &Arc<AgentSpec>, change: &StateChange) {
        let spec = Arc::make_mut(&mut self.spec);
        spec.identity.agent_id = SmolStr::new(&agent.view.id);
        spec.agent = Arc::clone(agent);
        self.absorb(change);
    }

    /// Adds the turn to the conversation, with the answer to each call.
    fn finish_step(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        let messages = Arc::make_mut(&mut self.messages);
        messages.extend(turn.reply.map(|reply| Message::Assistant(reply.message.clone())));
        for call in &turn.calls {
            if let Some(end) = call.end() {
                messages.push(Message::Answer(answer(&call.id, &call.tool_name, end)));
            }
        }
        messages.extend(self.notes.drain(..).map(Message::Note));
        // Children that have ended are in the record and are not requested again.
        self.children.retain(|_, child| child.state != ChildState::Ended);
    }

    fn changed(&mut self, change: Option<&StateChange>) {
        let Some(change) = change else { return };
        self.apply_change(change);
    }

    fn leave_batch(&mut self, call_id: &str) -> Result<(), InvalidTransition> {
        let turn = self.turn_mut()?;
        let at = turn.position(call_id).ok_or_else(|| unknown(call_id))?;
        turn.leave_batch(at);
        Ok(())
    }

    /// Invalidates the current round of questions to the gates once a call changes.
    fn end_round(&mut self, event: &Event) {
        let moves = matches!(
            event,
            Event::CallGated { .. }
                | Event::CallConflicted { .. }
                | Event::CallDecided { .. }
                | Event::CallSuspended(_)
                | Event::CallFinished(_)
        );
        if moves && let Some(turn) = &mut self.turn {
            turn.rounds += 1;
        }
    }

    fn child_mut(&mut self, call_id: &str, ordinal: u32) -> Result<&mut Child, InvalidTransition> {
        let child = self.children.get_mut(&(call_id.into(), ordinal));
        child.ok_or_else(|| {
            InvalidTransition(format!("the child {ordinal} of the call {call_id} is not known"))
        })
    }

    fn turn_mut(&mut self) -> Result<&mut Turn, InvalidTransition> {
        self.turn.as_mut().ok_or_else(no_turn)
    }

    pub(super) fn call_mut(&mut self, call_id: &str) -> Result<&mut Call, InvalidTransition> {
        let turn = self.turn_mut()?;
        turn.calls.iter_mut().find(|call| call.id == call_id).ok_or_else(|| unknown(call_id))
    }
}

fn no_turn() -> InvalidTransition {
    InvalidTransition("an event concerns a call outside a turn".to_owned())
}

fn unknown(call_id: &str) -> InvalidTransition {
    InvalidTransition(format!("the call {call_id} is not known"))
}

/// Returns whether both replies request exactly the same calls.
fn asks_the_same(one: &ModelReply, other: &ModelReply) -> bool {
    let calls = |reply: &ModelReply| reply.message.calls.len();
    let mut pairs = one.message.calls.iter().zip(other.message.calls.iter());
    calls(one) == calls(other) && pairs.all(|(a, b)| (&a.name, &a.arguments) == (&b.name, &b.arguments))
}
