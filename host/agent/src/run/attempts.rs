//! Processing of attempts' outcomes: retries, conflicts, and commits in the order of the calls.

use super::Phase;
use super::actions::granted_actions;
use super::call::Call;
use super::call_stage::Stage;
use super::event::Event;
use super::facts::{CallEnd, LoopActions, RunStatus};
use super::hooks::{lost, state_conflict};
use super::spec::{MAX_RERUNS, RETRY_PAUSE_MS};
use super::transition::{Asker, CallEffects, Transition, question};
use crate::agents::max_retries;
use crate::code::Code;
use crate::limit_places::LimitScope;
use crate::outcome::{Fault, Outcome, ResumeMode, Ticket, ToolOutput, ToolResult, ToolStatus, Usage};
use crate::recorded_inputs::RecordedInputs;
use crate::state::StateChange;
use crate::state::change::{MutationJoiner, conflict};
use std::sync::Arc;

impl Transition<'_> {
    pub(super) fn attempted(
        &mut self,
        call_id: &str,
        attempt: u32,
        outcome: &Arc<Outcome>,
        usage: Usage,
        taken: Option<&Arc<RecordedInputs>>,
    ) {
        let Some(call) = self.call(call_id).filter(|c| c.is_running() && c.attempts == attempt) else {
            return;
        };
        if let Some(taken) = taken {
            self.push(Event::CallTook { call_id: call.id.clone(), attempt, taken: Arc::clone(taken) });
        }
        if let Outcome::Faulted(fault) = outcome.as_ref()
            && fault.code == Code::TimedOut
            && self.may_retry(call)
        {
            if !self.has_time(call, RETRY_PAUSE_MS) {
                let mut fault = fault.clone();
                fault.detail.get_or_insert_with(|| self.no_more_time());
                return self.accept_result(&[(call.id.as_str(), Arc::new(fault.into()), usage)]);
            }
            self.push(Event::CallRetried { call_id: call.id.clone(), attempt, fault: fault.clone(), usage });
            return self.start_call(call, self.now_ms + RETRY_PAUSE_MS);
        }
        self.accept_result(&[(call.id.as_str(), Arc::clone(outcome), usage)]);
    }

    /// Restarts the calls that were running when the host stopped, if that is harmless.
    pub(super) fn restart_calls(&mut self) {
        let run = self.run;
        let mut interrupted = Vec::new();
        for call in run.calls().iter().filter(|call| call.is_running()) {
            match self.not_restarted(call) {
                // The time during which no host ran does not count.
                None => self.start_call_until(call, 0, self.now_ms + self.ceiling_ms()),
                Some(fault) => {
                    let outcome = Arc::new(fault.into());
                    interrupted.push((call.id.as_str(), outcome, Usage::of_a_lost_attempt()));
                }
            }
        }
        if !interrupted.is_empty() {
            self.accept_result(&interrupted);
        } else if run.lacks_task() {
            run.begin_task(self, &run.spec, None);
        } else if run.phase == Phase::Waiting && !run.is_waiting_recorded {
            // Records of earlier versions end with another event and would be listed as running.
            self.wait_if_suspended();
        }
    }

    /// Ends a direct call whose caller is gone. A question to a person stays open, because
    /// answering it needs no caller.
    pub(super) fn end_abandoned_call(&mut self) {
        let run = self.run;
        let open = run.calls().iter().find(|call| call.end().is_none());
        match open {
            Some(call) if !matches!(call.stage, Stage::Suspended(_) | Stage::Returned { .. }) => {
                let name = &call.tool_name;
                let message = match self.not_restarted(call) {
                    _ if !call.is_running() => {
                        format!("The host stopped before '{name}' ran, and its caller is gone.")
                    }
                    Some(fault) => fault.message,
                    None => format!(
                        "The host stopped while '{name}' was running. It may have taken effect, and it is not run \
                         again because its caller is gone."
                    ),
                };
                self.end_early_because(Code::Interrupted, &message, RunStatus::Completed);
            }
            None if run.lacks_task() => self.complete_run(RunStatus::Completed),
            _ => self.restart_calls(),
        }
    }

    /// Returns why a call whose process ended is not run again; `None` if it is run again.
    fn not_restarted(&self, call: &Call) -> Option<Fault> {
        let name = &call.tool_name;
        let message = match call.tool(self.catalog) {
            None => format!(
                "The host stopped while '{name}' was running, and this version of it is no longer loaded. \
                 It may have taken effect."
            ),
            Some(tool) if !tool.descriptor.execution.idempotent => format!(
                "The host stopped while '{name}' was running. It may have taken effect, and it is not run \
                 again because it is not idempotent."
            ),
            Some(_) if call.reruns.restarts < MAX_RERUNS => return None,
            Some(_) => format!(
                "The host stopped {} times while '{name}' was running, so it is not run again.",
                call.reruns.restarts + 1
            ),
        };
        Some(Fault::new(Code::Interrupted, message))
    }

    /// Returns whether another attempt follows one that timed out.
    fn may_retry(&self, call: &Call) -> bool {
        let tool = call.tool(self.catalog);
        tool.is_some_and(|tool| call.reruns.retries < max_retries(&tool.descriptor.execution))
    }

    /// Returns the maximum duration of all attempts of a call together, in milliseconds.
    pub(super) fn ceiling_ms(&self) -> u64 {
        u64::from(self.run.spec.limits.timeout_ceiling_ms.max(1))
    }

    /// Returns the deadline of the call, including pauses and further attempts; `None` before its
    /// first attempt. The clock stands still while the call waits for child runs. In that case each
    /// attempt counts with its full timeout.
    pub(super) fn until_ms(&self, call: &Call) -> Option<u64> {
        let until_ms = Some(call.until_ms).filter(|until_ms| *until_ms > 0)?;
        if !self.run.children.keys().any(|(call_id, _)| *call_id == call.id) {
            return Some(until_ms);
        }
        let policy = call.tool(self.catalog).map(|tool| tool.descriptor.execution);
        let each_ms = self.run.spec.limits.attempt_timeout_ms(&policy.unwrap_or_default());
        let taken_ms = u64::from(call.attempts) * (u64::from(each_ms) + RETRY_PAUSE_MS);
        Some(until_ms.max(self.now_ms + self.ceiling_ms().saturating_sub(taken_ms)))
    }

    /// Returns whether another attempt may begin after a pause.
    fn has_time(&self, call: &Call, pause_ms: u64) -> bool {
        self.until_ms(call).is_none_or(|until_ms| self.now_ms + pause_ms < until_ms)
    }

    fn no_more_time(&self) -> String {
        format!(
            "it is not tried again: all attempts of a call together may take timeout_ceiling_ms = {}, pauses \
             included; an operator can raise it{}",
            self.ceiling_ms(),
            self.catalog.limit_places().of(LimitScope::Host)
        )
    }

    /// Applies the outcomes that have already arrived, as far as it is their turn.
    pub(super) fn accept_waiting(&mut self) {
        self.accept_result(&[]);
    }

    /// Applies the outcomes in the order of the calls. An early one waits.
    fn accept_result(&mut self, arrived: &[(&str, Arc<Outcome>, Usage)]) {
        let run = self.run;
        let Some(turn) = &run.turn else { return };
        let Some(batch) = &turn.batch else { return };
        let mut in_order = true;
        let mut under_way = batch.calls.iter().filter(|at| turn.calls[**at].is_running()).count();
        for at in &batch.calls {
            let call = &turn.calls[*at];
            if self.has_ended(*at) {
                continue;
            }
            if self.is_ending(call) {
                in_order = false;
            }
            let arrived = arrived.iter().find(|(call_id, ..)| call.id == *call_id);
            under_way -= usize::from(arrived.is_some());
            match (arrived, &call.stage) {
                (Some((_, outcome, usage)), _) if !in_order => {
                    self.returned_early(call, Arc::clone(outcome), *usage);
                }
                (None, Stage::Returned { .. }) if !in_order => {}
                (Some((_, outcome, usage)), _) | (None, Stage::Returned { outcome, usage }) => {
                    self.commit(call, outcome, *usage);
                    in_order = !self.is_ending(call);
                }
                (None, _) => in_order = false,
            }
        }
        let mut free = (run.spec.limits.concurrency.max(1) as usize).saturating_sub(under_way);
        let queued = |call: &&Call| matches!(call.stage, Stage::Queued(..));
        for call in batch.calls.iter().map(|at| &turn.calls[*at]).filter(queued) {
            if free == 0 {
                break;
            }
            if call.tool(self.catalog).is_none() {
                self.without_tool(call);
                continue;
            }
            self.start_call(call, 0);
            free -= 1;
        }
        self.settle();
    }

    fn returned_early(&mut self, call: &Call, outcome: Arc<Outcome>, usage: Usage) {
        let keys = self.catalog.keys();
        let persists = |key: &str| keys.get(key).is_none_or(|key| key.persistent);
        let (outcome, unrecorded) = Outcome::split_volatile(outcome, persists);
        self.push(Event::CallReturned { call_id: call.id.clone(), outcome, unrecorded, usage });
    }

    fn commit(&mut self, call: &Call, outcome: &Outcome, usage: Usage) {
        let output = match outcome {
            Outcome::Faulted(fault) => return self.complete_call_after(&call.id, fault.clone(), usage),
            Outcome::Returned(output) => output,
        };
        if let Some(key) = self.conflict(output) {
            return self.conflicted(call, key, usage);
        }
        let PermittedOutput { change, asked, instead } = match self.check_output(call, output) {
            Ok(checked) => checked,
            Err(fault) => return self.complete_call_after(&call.id, fault, usage),
        };
        match self.question(call, &output.result) {
            Some((ticket, asker)) => match Self::check_question(call, &ticket, &asker) {
                Ok(answer) => self.suspend(call, (ticket, answer), asker, change, usage),
                Err(fault) => self.complete_call_after(&call.id, fault, usage),
            },
            None => {
                let result = instead.map_or_else(|| Arc::clone(&output.result), Arc::new);
                let did = CallEffects { mutations: &output.mutations, change, asked, supplied: false };
                self.complete_call_with(&call.id, CallEnd::Result(result), did, usage);
            }
        }
    }

    /// Returns the question of a pending result and its asker: the tool with its own ticket, a
    /// child for which the call waits, or the tool without a ticket.
    fn question(&self, call: &Call, result: &ToolResult) -> Option<(Ticket, Asker)> {
        let ToolStatus::Pending(ticket) = &result.status else { return None };
        if ticket.is_none()
            && let Some(of_child) = self.run.question_of_child(&call.id)
        {
            // The answer is for the child. This call then runs again.
            let ticket = Ticket { resume_mode: ResumeMode::ReplayToolCall, ..of_child.ticket.clone() };
            return Some((ticket, Asker::Child(Box::new(of_child.clone()))));
        }
        Some((question(&call.tool_name, result, ticket.as_deref()), Asker::Tool))
    }

    /// Returns the key of a mutation that was based on an outdated state.
    fn conflict(&self, output: &ToolOutput) -> Option<String> {
        if output.mutations.is_empty() {
            return None;
        }
        conflict(self.catalog.keys(), &self.changed_since(), &output.mutations).map(str::to_owned)
    }

    fn conflicted(&mut self, call: &Call, key: String, usage: Usage) {
        let is_idempotent = call.tool(self.catalog).is_some_and(|tool| tool.descriptor.execution.idempotent);
        if is_idempotent && call.reruns.conflicts < MAX_RERUNS && self.has_time(call, 0) {
            return self.push(Event::CallConflicted { call_id: call.id.clone(), key, usage });
        }
        self.complete_call_after(&call.id, state_conflict(call, &key, is_idempotent), usage);
    }

    fn check_output(&self, call: &Call, output: &ToolOutput) -> Result<PermittedOutput, Fault> {
        let (snapshot, before) = (self.state().snapshot(), self.uncommitted_writes(call));
        let mut joining = MutationJoiner::on(self.catalog.keys(), &snapshot);
        self.join_before(call, &mut joining, &before)?;
        let (mut asked, mut instead) = (LoopActions::default(), None);
        match call.tool_or_successor(self.catalog) {
            Some(tool) => {
                asked = granted_actions(tool, &output.actions)?;
                instead = self.check_tool_actions(tool, &mut asked)?;
                joining.add(&tool.access, &output.mutations)?;
            }
            // The tool is gone, so nothing determines what the call may change or request.
            None if !output.mutations.is_empty() || !output.actions.is_empty() => return Err(lost(call)),
            None => {}
        }
        let change = joining.into_change();
        Ok(PermittedOutput { change, asked, instead })
    }
}

/// The permitted part of a call's output.
struct PermittedOutput {
    change: Option<StateChange>,
    asked: LoopActions,
    /// The result that the model reads instead of the tool's.
    instead: Option<ToolResult>,
}
