//! The end of a call, either immediate or after the hooks after the call have answered.
//!
//! If hooks are to be asked after a call, its end is recorded first. Whatever happens to the hooks
//! or the process, the call is over and does not run again. Its state change waits and is committed
//! together with the hooks' writes.

use super::call::Call;
use super::call_stage::Stage;
use super::event::Event;
use super::facts::{AfterTurn, CallCompletion, CallEnd, CallStatus, RunStatus};
use super::transition::{CallEffects, Transition};
use super::{Phase, Run, RunUsage};
use crate::catalog::ToolVersion;
use crate::code::Code;
use crate::hook::{HookAnswer, HookPoint};
use crate::limit_places::LimitScope;
use crate::outcome::Usage;
use crate::proposal::Arguments;
use crate::state::PendingMutation;
use smol_str::SmolStr;
use std::sync::Arc;
use std::time::Duration;

/// A call with a known end, as the hooks after it see it.
#[derive(Debug, Clone)]
pub struct EndedCall {
    /// The call.
    pub call_id: SmolStr,
    /// The name that the model used.
    pub tool_name: SmolStr,
    /// The version of the tool's owner.
    pub version: Option<ToolVersion>,
    /// The arguments.
    pub arguments: Option<Arguments>,
    /// The end of the call, with the usage of its last attempt.
    pub ending: Arc<CallCompletion>,
    /// Usage of all attempts.
    pub usage: Usage,
}

impl Run {
    /// Returns the calls whose end waits for hooks.
    pub(super) fn ending_calls(&self) -> impl Iterator<Item = EndedCall> {
        let open = if self.is_finished() { &[] } else { self.calls() };
        open.iter().filter_map(|call| {
            let completion = call.completion()?;
            Some(EndedCall {
                call_id: call.id.clone(),
                tool_name: call.tool_name.clone(),
                version: call.version.clone(),
                arguments: call.arguments.clone(),
                usage: call.usage.plus(completion.usage),
                ending: Arc::clone(completion),
            })
        })
    }

    pub(super) fn turn_cut(&mut self, then: &AfterTurn) {
        self.cut = Some(then.clone());
        self.phase = Phase::Calling;
    }
}

impl Transition<'_> {
    /// Completes a call: it ends at once, or the hooks after it are asked first.
    pub(super) fn complete_call_with(
        &mut self,
        call_id: &str,
        end: impl Into<CallEnd>,
        did: CallEffects<'_>,
        usage: Usage,
    ) {
        let end = end.into();
        let Some(call) = self.call(call_id) else {
            return self.record_end(call_id, end, did.change, did.asked, usage);
        };
        let has_before = self.before_of(call).is_some();
        // Hooks are asked after a call that was let through or whose result was supplied.
        let asks_after =
            self.catalog.has_hooks(HookPoint::After) && (did.supplied || call.counted || has_before);
        if !asks_after && !has_before {
            return self.record_end(call_id, end, did.change, did.asked, usage);
        }
        let keys = self.catalog.keys();
        let mutations = did.mutations.iter().map(|mutation| PendingMutation::of(keys, mutation));
        let mutations = mutations.collect();
        let ending = CallCompletion { call_id: call_id.into(), end, mutations, asked: did.asked, usage };
        if asks_after {
            self.ending.push(call_id.into());
            self.set_status(call_id, CallStatus::Resuming);
            self.push(Event::CallEnding(Box::new(ending)));
        } else {
            self.record_completion(call, &ending, &[]);
        }
    }

    /// Returns the usage of attempts that ended before this draft. (No call has an attempt that
    /// ends within the draft and is followed by the end of another.)
    pub(super) fn used_before(&self, call_id: &str) -> Usage {
        self.call(call_id).map(|call| call.usage).unwrap_or_default()
    }

    /// Returns the usage of an attempt that was stopped or whose answer is dropped.
    pub(super) fn cut_usage(&self, at: usize) -> Usage {
        let Some(call) = self.run.calls().get(at) else { return Usage::default() };
        match &call.stage {
            Stage::Returned { usage, .. } => *usage,
            Stage::Running { .. } => {
                let stopped = self.stopped.iter().find(|(call_id, _)| *call_id == call.id);
                stopped.map_or_else(Usage::of_a_lost_attempt, |(_, usage)| Usage { at_least: true, ..*usage })
            }
            _ => Usage::default(),
        }
    }

    /// Describes a timeout by the wall time, which is the only run limit of a direct call.
    pub(super) fn out_of_wall_time(&self, tool_name: &str) -> String {
        let (wall_ms, agent) = (self.run.spec.limits.wall_ms, &self.run.spec.agent.view.id);
        format!(
            "Tool '{tool_name}' timed out after {:?}: its limit is wall_ms = {wall_ms}. An operator can raise it{}.",
            Duration::from_millis(wall_ms),
            self.catalog.limit_places().of(LimitScope::Agent(agent))
        )
    }

    /// Returns the usage of the run including this draft.
    pub(super) fn usage(&self) -> RunUsage {
        let mut usage = self.run.usage.clone();
        for event in &self.events {
            match event {
                Event::ModelReplied { reply, .. } => usage.add_reply(reply),
                Event::CallProposed(_) => usage.calls += 1,
                Event::CallFinished(finished) => usage.tools = usage.tools.plus(finished.last_attempt()),
                Event::CallConflicted { usage: used, .. } => usage.tools = usage.tools.plus(*used),
                Event::CallSuspended(suspended) => usage.tools = usage.tools.plus(suspended.usage),
                _ => {}
            }
        }
        usage
    }

    /// Returns whether the call's end is known and waits for hooks.
    pub(super) fn is_ending(&self, call: &Call) -> bool {
        call.completion().is_some() || self.ending.contains(&call.id)
    }

    /// Ends a call once the hooks after it have answered.
    pub(super) fn hooks_answered(&mut self, call_id: &str, answers: Vec<HookAnswer>) {
        let run = self.run;
        let Some(call) = self.call(call_id) else { return };
        let Some(ending) = call.completion() else { return };
        let answers: Vec<HookAnswer> = answers.into_iter().map(|answer| self.checked(answer)).collect();
        self.record_completion(call, ending, &answers);
        match run.turn.as_ref().is_some_and(|turn| turn.batch.is_some()) {
            true => self.accept_waiting(),
            false => self.settle(),
        }
    }

    /// Records the end of the call, with the changes that its hooks make to it.
    fn record_completion(&mut self, call: &Call, ending: &CallCompletion, after: &[HookAnswer]) {
        let concluded = self.completed(call, ending, after);
        if !after.is_empty() {
            let recorded = after.iter().map(|answer| {
                // The hooks' writes are part of the change.
                HookAnswer { mutations: Vec::new(), ..answer.clone() }
            });
            self.push(Event::CallHooked {
                call_id: call.id.clone(),
                point: HookPoint::After,
                answers: recorded.collect(),
            });
        }
        self.ending.retain(|ending| *ending != call.id);
        self.record_end(&call.id, concluded.end.clone(), concluded.change, concluded.asked, ending.usage);
        if concluded.end != ending.end
            && let Some(Event::CallFinished(finished)) = self.events.last_mut()
        {
            Arc::make_mut(finished).replaced = Some(Box::new(ending.end.clone()));
        }
    }

    /// Ends the run and answers its open calls, unless the run is already ending.
    pub(super) fn end_early_because(&mut self, code: Code, message: &str, status: RunStatus) {
        let ends_already = matches!(self.run.cut, Some(AfterTurn::End(_)));
        if ends_already || self.run.is_finished() || self.run.events == 0 {
            return;
        }
        self.cut_short(code, message, AfterTurn::End(status));
    }

    /// Ends the open calls of the turn, then continues with `then` once no hooks are pending.
    pub(super) fn cut_short(&mut self, code: Code, message: &str, then: AfterTurn) {
        self.complete_open_calls(code, message);
        if self.has_open_calls() {
            return self.push(Event::TurnCut { then });
        }
        self.continue_with(then);
    }

    pub(super) fn continue_with(&mut self, then: AfterTurn) {
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
