//! The end of a call: at once, or once the hooks after it have answered.
//!
//! Where hooks are to be asked after a call, how it ends is recorded first: whatever
//! becomes of the hooks, or of the process, the call is over and does not run again.
//! What it changed waits, so that it is committed together with what the hooks write.

use super::actions::LoopActions;
use super::call::Call;
use super::event::{Event, RunStatus, ToolVersion};
use super::transition::Transition;
use super::{CallEnd, CallStatus, InvalidTransition, Phase, Run, RunUsage};
use crate::code::Code;
use crate::hook::{HookAnswer, HookPoint};
use crate::outcome::{Fault, Mutation, Usage};
use crate::proposal::Arguments;
use crate::state::{PendingMutation, StateChange};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::sync::Arc;
use std::time::Duration;

/// How a call ends, before the hooks after it are asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallCompletion {
    /// The call.
    pub call_id: SmolStr,
    /// The result or the fault.
    pub end: CallEnd,
    /// What the tool wrote; it commits with the call's end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mutations: Vec<PendingMutation>,
    /// What the tool asked of the loop.
    #[serde(default)]
    pub asked: LoopActions,
    /// What its last attempt used.
    #[serde(default)]
    pub usage: Usage,
}

impl CallCompletion {
    /// Whether hooks may put a result in the place of this end: not where a gate, a
    /// person or the end of the run said that there is none.
    #[must_use]
    pub fn may_be_replaced(&self) -> bool {
        let decided = matches!(&self.end, CallEnd::Fault(Fault { code: Code::Denied | Code::Blocked, .. }));
        !decided && self.end.status() != CallStatus::Cancelled
    }
}

/// What follows once a turn that was cut short is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterTurn {
    /// The run goes on with this message of the user.
    Message(String),
    /// The run ends.
    End(RunStatus),
}

/// A call whose end is known, as the hooks after it are shown it.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The call.
    pub call_id: SmolStr,
    /// The name that the model used.
    pub tool_name: SmolStr,
    /// Which version of whose tool.
    pub version: Option<ToolVersion>,
    /// The arguments.
    pub arguments: Option<Arguments>,
    /// How it ends, and what its last attempt used.
    pub ending: Arc<CallCompletion>,
    /// What all its attempts used.
    pub usage: Usage,
}

/// What a call did, as far as it may count with the call's end.
#[derive(Default)]
pub(super) struct Did<'a> {
    /// What the tool wrote.
    pub(super) mutations: &'a [Mutation],
    /// What that, and what the hooks before it wrote, makes of the state.
    pub(super) change: Option<StateChange>,
    pub(super) asked: LoopActions,
    /// Whether somebody gave the result in the tool's place, which counts as a call
    /// that hooks are asked about.
    pub(super) supplied: bool,
}

impl Run {
    /// The calls whose end waits for hooks.
    pub(super) fn ending_calls(&self) -> impl Iterator<Item = Ended> {
        let open = if self.is_finished() { &[] } else { self.calls() };
        open.iter().filter_map(|call| {
            Some(Ended {
                call_id: call.id.clone(),
                tool_name: call.tool_name.clone(),
                version: call.version.clone(),
                arguments: call.arguments.clone(),
                usage: call.usage.plus(call.ending.as_ref()?.usage),
                ending: Arc::clone(call.ending.as_ref()?),
            })
        })
    }

    pub(super) fn call_ends(&mut self, ending: &CallCompletion) -> Result<(), InvalidTransition> {
        let call = self.call_mut(&ending.call_id)?;
        if call.status == CallStatus::Suspended {
            // It waits for nobody any more.
            call.become_status(CallStatus::Resuming)?;
        }
        call.returned = None;
        call.ending = Some(Arc::new(ending.clone()));
        Ok(())
    }

    pub(super) fn turn_cut(&mut self, then: &AfterTurn) {
        self.cut = Some(then.clone());
        self.phase = Phase::Calling;
    }
}

impl Transition<'_> {
    /// The call is over: it ends, or the hooks after it are asked first.
    pub(super) fn complete_call_with(
        &mut self,
        call_id: &str,
        end: impl Into<CallEnd>,
        did: Did<'_>,
        usage: Usage,
    ) {
        let end = end.into();
        let Some(call) = self.call(call_id) else {
            return self.call_ended(call_id, end, did.change, did.asked, usage);
        };
        let hooks_are_owed = did.supplied || call.counted || self.before_of(call).is_some();
        if !hooks_are_owed {
            return self.call_ended(call_id, end, did.change, did.asked, usage);
        }
        let keys = self.catalog.keys();
        let mutations = did.mutations.iter().map(|mutation| PendingMutation::of(keys, mutation));
        if self.catalog.has_hooks(HookPoint::After) {
            let ending = CallCompletion {
                call_id: call_id.into(),
                end,
                mutations: mutations.collect(),
                asked: did.asked,
                usage,
            };
            self.ending.push(call_id.into());
            self.set_status(call_id, CallStatus::Resuming);
            return self.push(Event::CallEnding(Box::new(ending)));
        }
        if self.before_of(call).is_none() {
            return self.call_ended(call_id, end, did.change, did.asked, usage);
        }
        let ending = CallCompletion {
            call_id: call_id.into(),
            end,
            mutations: mutations.collect(),
            asked: did.asked,
            usage,
        };
        self.record_completion(call, &ending, &[]);
    }

    /// What the attempts used that ended before this draft. (None ends within it and is
    /// followed by another's end.)
    pub(super) fn used_before(&self, call_id: &str) -> Usage {
        self.call(call_id).map(|call| call.usage).unwrap_or_default()
    }

    /// What the attempt used that was stopped, or whose answer is dropped.
    pub(super) fn cut_usage(&self, at: usize) -> Usage {
        let Some(call) = self.run.calls().get(at) else { return Usage::default() };
        if let Some((_, usage)) = &call.returned {
            return *usage;
        }
        if !call.is_under_way() {
            return Usage::default();
        }
        let stopped = self.stopped.iter().find(|(call_id, _)| *call_id == call.id);
        stopped.map_or_else(Usage::of_a_lost_attempt, |(_, usage)| Usage { at_least: true, ..*usage })
    }

    /// A direct call has no limit of a run but this one.
    pub(super) fn out_of_wall_time(&self, tool_name: &str) -> String {
        let (wall_ms, agent) = (self.run.spec.limits.wall_ms, &self.run.spec.agent.view.id);
        format!(
            "Tool '{tool_name}' timed out after {:.1}s: its limit is wall_ms = {wall_ms}. An operator can raise \
             it in tollgate.toml, under [agents.{agent}.limits].",
            Duration::from_millis(wall_ms).as_secs_f64()
        )
    }

    /// What the run will have used.
    pub(super) fn usage(&self) -> RunUsage {
        let mut usage = self.run.usage;
        for event in &self.events {
            match event {
                Event::ModelReplied { reply, .. } => usage.tokens = usage.tokens.plus(reply.usage),
                Event::CallProposed(_) => usage.calls += 1,
                Event::CallFinished(finished) => usage.tools = usage.tools.plus(finished.last_attempt()),
                Event::CallConflicted { usage: used, .. } => usage.tools = usage.tools.plus(*used),
                Event::CallSuspended(suspended) => usage.tools = usage.tools.plus(suspended.usage),
                _ => {}
            }
        }
        usage
    }

    /// Whether the call's end is known, and waits for hooks.
    pub(super) fn is_ending(&self, call: &Call) -> bool {
        call.ending.is_some() || self.ending.contains(&call.id)
    }

    /// The hooks after a call answered: it ends.
    pub(super) fn hooks_answered(&mut self, call_id: &str, answers: Vec<HookAnswer>) {
        let run = self.run;
        let Some(call) = self.call(call_id) else { return };
        let Some(ending) = &call.ending else { return };
        let answers: Vec<HookAnswer> = answers.into_iter().map(|answer| self.checked(answer)).collect();
        self.record_completion(call, ending, &answers);
        match run.turn.as_ref().is_some_and(|turn| turn.batch.is_some()) {
            true => self.land_more(),
            false => self.settle(),
        }
    }

    /// The call ends, with what its hooks make of it.
    fn record_completion(&mut self, call: &Call, ending: &CallCompletion, after: &[HookAnswer]) {
        let concluded = self.completed(call, ending, after);
        if !after.is_empty() {
            let recorded = after.iter().map(|answer| {
                // What they wrote is in the change.
                HookAnswer { mutations: Vec::new(), ..answer.clone() }
            });
            self.push(Event::CallHooked {
                call_id: call.id.clone(),
                point: HookPoint::After,
                answers: recorded.collect(),
            });
        }
        self.ending.retain(|ending| *ending != call.id);
        self.call_ended(&call.id, concluded.end.clone(), concluded.change, concluded.asked, ending.usage);
        if concluded.end != ending.end
            && let Some(Event::CallFinished(finished)) = self.events.last_mut()
        {
            Arc::make_mut(finished).replaced = Some(Box::new(ending.end.clone()));
        }
    }

    /// Ends the run, unless it ends already; this answers its open calls.
    pub(super) fn end_early_because(&mut self, code: Code, message: &str, status: RunStatus) {
        let ends_already = matches!(self.run.cut, Some(AfterTurn::End(_)));
        if ends_already || self.run.is_finished() || self.run.phase == Phase::New {
            return;
        }
        self.cut_short(code, message, AfterTurn::End(status));
    }

    /// Ends what is open of the turn, and then does what is to follow, once no hook is
    /// waited for.
    pub(super) fn cut_short(&mut self, code: Code, message: &str, then: AfterTurn) {
        self.complete_open_calls(code, message);
        if self.has_open_calls() {
            return self.push(Event::TurnCut { then });
        }
        self.go_on_with(then);
    }

    pub(super) fn go_on_with(&mut self, then: AfterTurn) {
        match then {
            AfterTurn::End(status) => self.complete_run(status),
            AfterTurn::Message(text) => {
                self.finish_step();
                self.push(Event::MessageAdded { text });
                self.push(Event::StepStarted { step: self.run.step + 1 });
            }
        }
    }
}
