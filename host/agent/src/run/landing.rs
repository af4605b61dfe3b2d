//! From what calls return to what becomes of it: retries, conflicts, commits in
//! the order of the calls.

use super::CallEnd;
use super::call::Call;
use super::draft::{Draft, question};
use super::event::Event;
use super::spec::{RETRY_PAUSE_MS, max_attempts};
use crate::catalog::Tool;
use crate::code::Code;
use crate::outcome::{Action, Fault, Outcome, ToolOutput, ToolStatus, Usage};
use crate::state::StateChange;
use crate::state::change::{conflict, propose};
use crate::taken::Taken;
use crate::text::clean;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most actions that one call may ask for.
const MAX_ACTIONS: usize = 16;
/// The longest note that a call may leave for the model, in bytes.
const MAX_NOTE_BYTES: usize = 16 * 1024;

impl Draft<'_> {
    pub(super) fn attempted(
        &mut self,
        call_id: &str,
        attempt: u32,
        outcome: Arc<Outcome>,
        usage: Usage,
        taken: Option<Arc<Taken>>,
    ) {
        let Some(call) = self.call(call_id).filter(|c| c.is_under_way() && c.attempts == attempt) else {
            return;
        };
        if let Some(taken) = taken {
            self.push(Event::CallTook { call_id: call.id.clone(), attempt, taken });
        }
        if let Outcome::Faulted(fault) = outcome.as_ref()
            && fault.code == Code::TimedOut
            && self.may_run_again(call)
        {
            self.push(Event::CallRetried { call_id: call.id.clone(), attempt, fault: fault.clone(), usage });
            return self.start_call(call, attempt + 1, self.now_ms + RETRY_PAUSE_MS);
        }
        self.land(BTreeMap::from([(call.id.as_str(), (outcome, usage))]));
    }

    /// What was under way when the host stopped runs again where that is harmless.
    pub(super) fn restarted(&mut self) {
        let run = self.run;
        let mut interrupted = BTreeMap::new();
        for call in run.calls().iter().filter(|call| call.is_under_way()) {
            if self.may_run_again(call) {
                self.start_call(call, call.attempts + 1, 0);
                continue;
            }
            let message = format!(
                "The host stopped while '{}' ran; it may have run, and is not run again.",
                call.tool_name
            );
            let fault = Fault::new(Code::Interrupted, message);
            interrupted.insert(call.id.as_str(), (Arc::new(fault.into()), Usage::default()));
        }
        if !interrupted.is_empty() {
            self.land(interrupted);
        }
    }

    fn may_run_again(&self, call: &Call) -> bool {
        call.tool(self.catalog).is_some_and(|tool| {
            let policy = &tool.descriptor.execution;
            policy.idempotent && call.attempts < max_attempts(policy)
        })
    }

    /// Applies what has returned, in the order of the calls; what is early waits.
    fn land(&mut self, mut landed: BTreeMap<&str, (Arc<Outcome>, Usage)>) {
        let run = self.run;
        let Some(turn) = &run.turn else { return };
        let Some(batch) = &turn.batch else { return };
        let mut in_order = true;
        let mut under_way = batch.calls.iter().filter(|at| turn.calls[**at].is_under_way()).count();
        for at in &batch.calls {
            let call = &turn.calls[*at];
            match (landed.remove(call.id.as_str()), &call.returned) {
                (Some((outcome, usage)), _) => {
                    under_way -= 1;
                    if in_order {
                        self.commit(call, &outcome, usage);
                    } else {
                        self.push(Event::CallReturned { call_id: call.id.clone(), outcome, usage });
                    }
                }
                (None, Some((outcome, usage))) if in_order => self.commit(call, outcome, *usage),
                (None, Some(_)) => {}
                (None, None) => in_order = false,
            }
        }
        let mut free = (run.spec.limits.concurrency.max(1) as usize).saturating_sub(under_way);
        for call in batch.calls.iter().map(|at| &turn.calls[*at]).filter(|call| call.is_queued()) {
            if free == 0 {
                break;
            }
            if call.tool(self.catalog).is_none() {
                self.without_tool(call);
                continue;
            }
            self.start_call(call, call.attempts + 1, 0);
            free -= 1;
        }
        self.settle();
    }

    fn commit(&mut self, call: &Call, outcome: &Outcome, usage: Usage) {
        let output = match outcome {
            Outcome::Faulted(fault) => return self.finish_after(&call.id, fault.clone(), usage),
            Outcome::Returned(output) => output,
        };
        if let Some(key) = self.conflict(output) {
            return self.conflicted(call, key, usage);
        }
        let (change, notes) = match self.check_output(call, output) {
            Ok(checked) => checked,
            Err(fault) => return self.finish_after(&call.id, fault, usage),
        };
        let ticket = match &output.result.status {
            ToolStatus::Pending(asked) => Some(question(&call.tool_name, &output.result, asked.as_deref())),
            ToolStatus::Success | ToolStatus::Error => None,
        };
        if let Some(Err(fault)) = ticket.as_ref().map(|ticket| Self::check_question(call, ticket)) {
            return self.finish_after(&call.id, fault, usage);
        }
        if let Some(change) = &change {
            self.state.apply(change);
            self.changes.push(change.clone());
        }
        match ticket {
            Some(ticket) => self.suspend(call, ticket, None, change, usage),
            None => {
                let end = CallEnd::Result(Arc::new(output.result.clone()));
                self.finish_with(&call.id, end, change, notes, usage);
            }
        }
    }

    /// The key of a mutation that was meant for a state that is gone.
    fn conflict(&self, output: &ToolOutput) -> Option<String> {
        if output.mutations.is_empty() {
            return None;
        }
        let before = self.run.turn.as_ref().and_then(|turn| turn.batch.as_ref());
        let since: Vec<&StateChange> =
            before.iter().flat_map(|batch| &batch.changes).chain(&self.changes).collect();
        conflict(self.catalog.keys(), &since, &output.mutations).map(str::to_owned)
    }

    fn conflicted(&mut self, call: &Call, key: String, usage: Usage) {
        if self.may_run_again(call) {
            return self.push(Event::CallConflicted { call_id: call.id.clone(), key, usage });
        }
        let fault = Fault::new(
            Code::StateConflict,
            format!(
                "Another call changed the state key \"{key}\" at the same time, and '{}' may not run twice. Call it again.",
                call.tool_name
            ),
        );
        self.finish_after(&call.id, fault, usage);
    }

    fn check_output(
        &self,
        call: &Call,
        output: &ToolOutput,
    ) -> Result<(Option<StateChange>, Vec<String>), Fault> {
        let tool = call
            .tool(self.catalog)
            .ok_or_else(|| Fault::new(Code::HostFailed, format!("The tool '{}' is gone.", call.tool_name)))?;
        let notes = granted_notes(&tool, &output.actions)?;
        let change = propose(self.catalog.keys(), &tool.access, &self.state.snapshot(), &output.mutations)?;
        Ok((change, notes))
    }
}

/// The notes among the actions of a call.
///
/// # Errors
/// `bad_action`: too many actions, or one that is not granted to the tool's owner.
pub fn granted_notes(tool: &Tool, actions: &[Action]) -> Result<Vec<String>, Fault> {
    if actions.len() > MAX_ACTIONS {
        let message = format!(
            "The tool asked for {} actions; at most {MAX_ACTIONS} are taken from one call.",
            actions.len()
        );
        return Err(Fault::new(Code::BadAction, message));
    }
    actions
        .iter()
        .map(|action| match action {
            Action::AddContext(note) if tool.actions.add_context => {
                let note = clean(note, MAX_NOTE_BYTES);
                Ok(format!("Note left by the tool '{}':\n{note}", tool.descriptor.name))
            }
            Action::AddContext(_) => Err(ungranted(tool, "add-context")),
            Action::TransferToAgent(_) => Err(ungranted(tool, "transfer")),
            Action::Escalate => Err(ungranted(tool, "escalate")),
        })
        .collect()
}

fn ungranted(tool: &Tool, action: &str) -> Fault {
    Fault::new(
        Code::BadAction,
        format!(
            "The tool '{}' asked for the action {action}, which is not granted to '{}'.",
            tool.descriptor.name, tool.owner.id
        ),
    )
}
