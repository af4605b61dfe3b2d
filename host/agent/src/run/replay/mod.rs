//! Replay of a record, attempt by attempt: the inputs of each attempt, and whether it has the same
//! outcome again.
//!
//! The record is folded as at a restart. Before an event that ended an attempt is folded in, the
//! attempt can be repeated with the state of the run at that moment. The state machine then decides
//! on the new outcome. Its events must include the recorded one.

mod compare;

pub use compare::Difference;

use super::effect::{Effect, Execution};
use super::event::{Event, StoredEvent};
use super::facts::{CallEnd, InvalidTransition};
use super::spec::Thread;
use super::{Input, Run};
use crate::catalog::Catalog;
use crate::catalog::ToolVersion;
use crate::code::Code;
use crate::outcome::{Fault, Outcome, Usage};
use crate::recorded_inputs::RecordedInputs;
use crate::state::{KeyScope, StateChange};
use serde::Serialize;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A record that is being replayed.
pub struct Replay {
    run: Run,
    took: BTreeMap<(SmolStr, u32), Arc<RecordedInputs>>,
    /// Non-persistent keys that were changed. No record holds their values.
    unknown_keys: BTreeSet<String>,
}

/// An attempt that the next event of the record ends.
#[derive(Debug, Clone)]
pub struct RecordedAttempt {
    /// The call.
    pub call_id: SmolStr,
    /// The name that the model used.
    pub tool_name: SmolStr,
    /// The version of the tool's owner.
    pub version: Option<ToolVersion>,
    /// The attempt, counted from 1.
    pub attempt: u32,
}

/// The outcome of a repeated attempt.
#[derive(Debug, Clone)]
pub struct RepeatedOutcome {
    /// The tool's answer, or the fault that ended it.
    pub outcome: Arc<Outcome>,
    /// Resources used by the attempt.
    pub usage: Usage,
    /// Inputs that the attempt took from the world, or that were played back.
    pub taken: Option<Arc<RecordedInputs>>,
}

/// The result of replaying one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding {
    /// The outcome is the same.
    Same,
    /// The outcome differs.
    Differs(Difference),
    /// The attempt cannot be repeated.
    NotReplayable {
        /// A description of the reason.
        why: String,
    },
}

impl Default for Replay {
    fn default() -> Self {
        Self { run: Run::new(Thread::default()), took: BTreeMap::new(), unknown_keys: BTreeSet::new() }
    }
}

impl Replay {
    /// Returns the run as far as the record was read.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the revision of the thread's state on which an event builds, if changes up to it are
    /// missing. These are changes of other runs, which arrive through [`absorb`](Self::absorb).
    #[must_use]
    pub fn base_revision(&self, event: &Event) -> Option<u64> {
        self.run.base_revision(event)
    }

    /// Takes over a change of the thread that another run or call committed.
    pub fn absorb(&mut self, change: &StateChange) {
        self.note_unknown(change, |scope| scope == KeyScope::Thread);
        self.run.absorb(change);
    }

    /// Returns the attempt that this event ended, by ending or suspending its call; `None` if the
    /// event ended no attempt.
    #[must_use]
    pub fn ended_by(&self, event: &Event) -> Option<RecordedAttempt> {
        let call_id = ended_call(event)?;
        let call = self.run.calls().iter().find(|call| call.id == call_id)?;
        call.is_running().then(|| RecordedAttempt {
            call_id: call.id.clone(),
            tool_name: call.tool_name.clone(),
            version: call.version.clone(),
            attempt: call.attempts,
        })
    }

    /// Returns the attempt's execution and the inputs that it took from the world.
    ///
    /// # Errors
    /// The attempt cannot be repeated. The error describes the reason.
    pub fn inputs(
        &self,
        attempt: &RecordedAttempt,
        event: &Event,
        catalog: &Catalog,
    ) -> Result<(Execution, Arc<RecordedInputs>), String> {
        if let Some(why) = fault_of(event).and_then(|fault| ended_from_outside(fault.code)) {
            return Err(why.to_owned());
        }
        let taken = self.taken(attempt).unwrap_or_default();
        if let Some(why) = taken.beyond_record() {
            return Err(why);
        }
        let execution = self.run.next(catalog).into_iter().find_map(|effect| match effect {
            Effect::Execute(execution) if *execution.permit.call_id() == attempt.call_id => Some(execution),
            _ => None,
        });
        let Some(execution) = execution else {
            return Err("the version of its tool that was called is not archived".to_owned());
        };
        let tool = execution.permit.tool();
        let unknown = tool.access.reads().find(|key| self.unknown_keys.contains(*key));
        if let Some(key) = unknown {
            return Err(format!("it could read the state key {key}, whose values are not kept"));
        }
        let undefined =
            tool.access.reads().chain(tool.access.writes()).find(|key| catalog.keys().get(key).is_none());
        if let Some(key) = undefined {
            return Err(format!("the component that defines the state key {key} is not loaded"));
        }
        Ok((execution, taken))
    }

    /// Compares the outcome of a repeated attempt with the recorded event.
    #[must_use]
    pub fn judge(
        &self,
        attempt: &RecordedAttempt,
        recorded: &StoredEvent,
        catalog: &Catalog,
        again: &RepeatedOutcome,
    ) -> Finding {
        if let Outcome::Faulted(fault) = again.outcome.as_ref()
            && ended_from_outside(fault.code).is_some()
        {
            let why = format!("it did not complete this time: {}", fault.message);
            return Finding::NotReplayable { why };
        }
        let input = Input::Attempted {
            call_id: attempt.call_id.clone(),
            attempt: attempt.attempt,
            outcome: Arc::clone(&again.outcome),
            usage: again.usage,
            taken: None,
        };
        // Hooks are not asked again, so their effects are left out on both sides.
        let (run, written) = self.without_hooks(&attempt.call_id);
        let catalog = catalog.as_recorded(matches!(recorded.event, Event::CallEnding(_)));
        let follows = match run.decide(&catalog, recorded.at_ms, &input) {
            Ok(events) => events,
            Err(refused) => return Finding::NotReplayable { why: refused.to_string() },
        };
        let mut now = follows.into_iter().find(|event| ended_call(event) == Some(attempt.call_id.as_str()));
        let (before, after) =
            (self.taken(attempt).unwrap_or_default(), again.taken.clone().unwrap_or_default());
        let mut recorded = recorded.event.clone();
        compare::hold_the_same(&recorded, now.as_mut(), self.run.state());
        compare::leave_the_tools(&mut recorded, now.as_mut(), &written);
        match compare::first_difference(&recorded, now.as_ref(), &before, &after) {
            None => Finding::Same,
            Some(difference) => Finding::Differs(difference),
        }
    }

    /// Folds the event in and advances to the next one.
    ///
    /// # Errors
    /// The event cannot follow from the events before it.
    pub fn pass(&mut self, event: &Event) -> Result<(), InvalidTransition> {
        if let Event::CallTook { call_id, attempt, taken } = event {
            self.took.insert((call_id.clone(), *attempt), Arc::clone(taken));
        }
        if let Some(change) = event.change() {
            self.note_unknown(change, |_| true);
        }
        self.run.apply(event)
    }

    /// Returns the run as if no hooks had been asked before the call, and the keys that those hooks
    /// wrote and that are committed with the end of the call.
    fn without_hooks(&self, call_id: &str) -> (Run, Vec<String>) {
        let (mut run, mut written) = (self.run.clone(), Vec::new());
        let calls = run.turn.iter_mut().flat_map(|turn| &mut turn.calls);
        for call in calls.filter(|call| call.id == call_id) {
            let hooks = call.hooks_before.take().filter(|hooks| !hooks.are_committed);
            let answers = hooks.iter().flat_map(|hooks| hooks.answers.iter());
            let mutations = answers.filter(|answer| answer.failed.is_none()).flat_map(|a| &a.mutations);
            written.extend(mutations.filter(|m| m.update.is_some()).map(|mutation| mutation.key.clone()));
        }
        (run, written)
    }

    fn taken(&self, attempt: &RecordedAttempt) -> Option<Arc<RecordedInputs>> {
        self.took.get(&(attempt.call_id.clone(), attempt.attempt)).cloned()
    }

    fn note_unknown(&mut self, change: &StateChange, of: impl Fn(KeyScope) -> bool) {
        let updates = change.updates.iter().filter(|update| of(update.scope));
        for update in updates {
            match update.is_known() {
                // Folding into an unknown value gives an unknown value.
                true if update.value.is_some() => self.unknown_keys.remove(&*update.key),
                true => false,
                false => self.unknown_keys.insert(update.key.to_string()),
            };
        }
    }
}

/// Returns the call that an event ends or suspends, or whose outcome it holds.
fn ended_call(event: &Event) -> Option<&str> {
    match event {
        Event::CallReturned { call_id, .. } => Some(call_id),
        Event::CallEnding(ending) => Some(&ending.call_id),
        Event::CallFinished(finished) => Some(&finished.call_id),
        Event::CallSuspended(suspended) => Some(&suspended.call_id),
        _ => None,
    }
}

fn fault_of(event: &Event) -> Option<&Fault> {
    match event {
        Event::CallFinished(finished) => match &finished.end {
            CallEnd::Fault(fault) => Some(fault),
            CallEnd::Result(_) => None,
        },
        Event::CallEnding(ending) => match &ending.end {
            CallEnd::Fault(fault) => Some(fault),
            CallEnd::Result(_) => None,
        },
        Event::CallReturned { outcome, .. } => match outcome.as_ref() {
            Outcome::Faulted(fault) => Some(fault),
            Outcome::Returned(_) => None,
        },
        _ => None,
    }
}

/// Returns why an attempt with this code says nothing about its tool: time, people and the host are
/// not part of the record.
fn ended_from_outside(code: Code) -> Option<&'static str> {
    match code {
        Code::TimedOut => Some("it timed out, and its progress by then varies"),
        Code::Cancelled | Code::Superseded | Code::NotRun => Some("it was cancelled while it ran"),
        Code::Interrupted => Some("the host stopped while it ran"),
        Code::Overloaded => Some("the host was overloaded"),
        Code::HostFailed => Some("the host failed while it ran"),
        _ => None,
    }
}
