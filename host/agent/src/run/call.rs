//! One call of a turn: its status and the permitted status transitions.

use super::InvalidTransition;
use super::completion::CallCompletion;
use super::event::{Proposed, Suspended, ToolVersion};
use super::spec::Decision;
use crate::catalog::Tool;
use crate::code::Code;
use crate::context::Resumption;
use crate::gate::GateVerdict;
use crate::hook::HookAnswer;
use crate::outcome::{Fault, Outcome, ResumeMode, ToolResult, Usage};
use crate::proposal::Arguments;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;
use std::sync::Arc;

/// The status of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// Requested, but not let through yet.
    New,
    /// An attempt is running, or its outcome waits for its turn.
    Running,
    /// Waits for a person.
    Suspended,
    /// Approved by a person, but not let through again yet.
    Resuming,
    /// The call succeeded.
    Succeeded,
    /// The call failed.
    Failed,
    /// It was cancelled or superseded.
    Cancelled,
}

impl CallStatus {
    /// Every status.
    pub const ALL: [CallStatus; 7] = [
        CallStatus::New,
        CallStatus::Running,
        CallStatus::Suspended,
        CallStatus::Resuming,
        CallStatus::Succeeded,
        CallStatus::Failed,
        CallStatus::Cancelled,
    ];

    /// Returns whether a call may move from this status to that one. Any other transition is a bug
    /// in the host.
    #[must_use]
    pub fn may_become(self, next: CallStatus) -> bool {
        use CallStatus::{Cancelled, Failed, New, Resuming, Running, Succeeded, Suspended};
        match self {
            New | Resuming => matches!(next, Running | Succeeded | Failed | Suspended | Cancelled),
            Running => matches!(next, Succeeded | Failed | Suspended | Cancelled),
            Suspended => matches!(next, Resuming | Cancelled),
            Succeeded | Failed | Cancelled => false,
        }
    }

    /// Returns whether the status is final.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, CallStatus::Succeeded | CallStatus::Failed | CallStatus::Cancelled)
    }
}

/// The end of a call: the tool's answer, or a fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// The tool's answer, or one supplied in its place.
    Result(Arc<ToolResult>),
    /// The reason that there is no answer.
    Fault(Fault),
}

impl CallEnd {
    /// Returns the status of a call with this end.
    #[must_use]
    pub fn status(&self) -> CallStatus {
        match self {
            CallEnd::Result(result) if result.is_success() => CallStatus::Succeeded,
            CallEnd::Fault(Fault { code: Code::Cancelled | Code::Superseded | Code::NotRun, .. }) => {
                CallStatus::Cancelled
            }
            CallEnd::Result(_) | CallEnd::Fault(_) => CallStatus::Failed,
        }
    }

    /// Returns the code of an unsuccessful end.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            CallEnd::Result(result) if result.is_success() => None,
            CallEnd::Result(_) => Some(Code::ToolError),
            CallEnd::Fault(fault) => Some(fault.code),
        }
    }
}

/// The state of one call of the current turn.
#[derive(Debug, Clone)]
pub struct Call {
    /// Unique within the run.
    pub id: SmolStr,
    /// The name that the model used.
    pub tool_name: SmolStr,
    /// The version of the tool's owner; `None` if unknown.
    pub version: Option<ToolVersion>,
    /// The current status.
    pub status: CallStatus,
    /// The arguments; `None` if they were not acceptable JSON.
    pub arguments: Option<Arguments>,
    /// The number of attempts that were started.
    pub attempts: u32,
    /// The number of attempts that followed a timeout.
    pub(super) retries: u32,
    /// The number of attempts that followed a conflict.
    pub(super) conflicts: u32,
    /// The number of attempts that replaced one whose process ended.
    pub(super) restarts: u32,
    /// Whether an attempt timed out and the next has not started.
    pub(super) is_retrying: bool,
    /// Usage of all attempts that have ended.
    pub usage: Usage,
    /// The current or most recent question.
    pub suspended: Option<Arc<Suspended>>,
    /// The decision with which the call continues.
    pub resumption: Option<Arc<Resumption>>,
    /// The end of the call.
    pub end: Option<CallEnd>,
    pub(super) tool: Option<Arc<Tool>>,
    pub(super) validation: Validation,
    pub(super) let_through: Option<Arc<[GateVerdict]>>,
    /// Whether an attempt was started since the gates let the call through.
    pub(super) started: bool,
    pub(super) returned: Option<(Arc<Outcome>, Usage)>,
    pub(super) not_before_ms: u64,
    /// The deadline of all attempts together; 0 before the first.
    pub(super) until_ms: u64,
    pub(super) suspensions: u32,
    /// The gates whose questions about these arguments a person answered.
    pub(super) approved_gates: Vec<SmolStr>,
    /// The decision that the tool sees: the answer to its own question, or to a gate's if it asked
    /// none.
    pub(super) shown: Option<Arc<Resumption>>,
    pub(super) asked_itself: bool,
    /// A person's decision about the question of this call's child: the child's run, and the
    /// decision to pass to that run.
    pub(super) child_decision: Option<(String, Decision)>,
    /// Whether the call is among those that were let through; see `CallCounts`.
    pub(super) counted: bool,
    /// The answers of the hooks before the call, once they were asked.
    pub(super) hooked: Option<Arc<[HookAnswer]>>,
    /// Whether their writes are already part of the state, because the call asked a person.
    pub(super) hooks_kept: bool,
    /// The end of the call, while the hooks after it are asked.
    pub(super) ending: Option<Arc<CallCompletion>>,
}

/// The state of the tool's own argument check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Validation {
    Unasked,
    Passed,
}

impl Call {
    pub(super) fn new(proposed: &Proposed) -> Self {
        Self {
            id: proposed.call_id.clone(),
            tool_name: proposed.tool_name.clone(),
            version: proposed.owner.clone(),
            status: CallStatus::New,
            arguments: proposed.arguments.clone(),
            attempts: 0,
            retries: 0,
            conflicts: 0,
            restarts: 0,
            is_retrying: false,
            usage: Usage::default(),
            suspended: None,
            resumption: None,
            end: None,
            tool: proposed.tool.clone(),
            validation: Validation::Unasked,
            let_through: None,
            started: false,
            returned: None,
            not_before_ms: 0,
            until_ms: 0,
            suspensions: 0,
            approved_gates: Vec::new(),
            shown: None,
            asked_itself: false,
            child_decision: None,
            counted: false,
            hooked: None,
            hooks_kept: false,
            ending: None,
        }
    }

    /// Returns the gates whose questions about these arguments a person answered.
    #[must_use]
    pub fn approved_gates(&self) -> &[SmolStr] {
        &self.approved_gates
    }

    /// Returns whether the gates are to be asked about the call: it is new, resumed or sent back
    /// because of a conflict, and has not been let through since.
    pub(super) fn wants_judgement(&self) -> bool {
        matches!(self.status, CallStatus::New | CallStatus::Resuming | CallStatus::Running)
            && self.let_through.is_none()
            && self.ending.is_none()
    }

    /// Returns whether an attempt is in progress.
    pub(super) fn is_under_way(&self) -> bool {
        self.status == CallStatus::Running
            && self.let_through.is_some()
            && self.started
            && self.returned.is_none()
            && self.ending.is_none()
    }

    /// Returns whether the call was let through and waits for a free slot.
    pub(super) fn is_queued(&self) -> bool {
        self.let_through.is_some() && !self.started && !self.status.is_final() && self.ending.is_none()
    }

    /// Starts an attempt. If the process of an earlier attempt ended, the new one replaces it.
    pub(super) fn start(
        &mut self,
        attempt: u32,
        not_before_ms: u64,
        until_ms: u64,
    ) -> Result<(), InvalidTransition> {
        if self.is_under_way() && !self.is_retrying {
            self.restarts += 1;
        }
        (self.attempts, self.not_before_ms, self.until_ms) = (attempt, not_before_ms, until_ms);
        (self.started, self.is_retrying) = (true, false);
        if self.status == CallStatus::Running { Ok(()) } else { self.become_status(CallStatus::Running) }
    }

    pub(super) fn become_status(&mut self, next: CallStatus) -> Result<(), InvalidTransition> {
        if !self.status.may_become(next) {
            return Err(InvalidTransition(format!(
                "the call {} goes from {:?} to {next:?}",
                self.id, self.status
            )));
        }
        self.status = next;
        Ok(())
    }

    /// Returns the id of the next question about this call, unique within the run.
    pub(super) fn next_suspension(&self) -> String {
        format!("{}/{}", self.id, self.suspensions + 1)
    }

    /// Continues the call with a person's decision.
    pub(super) fn decided(&mut self, asked: &Suspended, decision: &Decision, value: &Value) {
        let resumption = Arc::new(Resumption {
            suspension_id: asked.suspension_id.clone(),
            action: asked.ticket.action.clone(),
            message: asked.ticket.message.clone(),
            decision_id: decision.id.clone(),
            value: value.clone(),
            reason: decision.reason.clone(),
            decided_at_ms: decision.at_ms,
        });
        if asked.ticket.resume_mode == ResumeMode::PassDecisionToTool {
            self.arguments = Some(Arguments::from_value(value.clone()));
            self.validation = Validation::Unasked;
            // The approval was for other arguments.
            self.approved_gates.clear();
        }
        if asked.child.is_none() && (asked.gate.is_none() || !self.asked_itself) {
            self.shown = Some(Arc::clone(&resumption));
        }
        match &asked.gate {
            Some(gate) => self.approved_gates.push(gate.clone()),
            None => self.asked_itself |= asked.child.is_none(),
        }
        self.resumption = Some(resumption);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l3_only_the_listed_moves_exist() {
        use CallStatus::{Cancelled, Failed, New, Resuming, Running, Succeeded, Suspended};
        let listed = [
            (New, vec![Running, Succeeded, Failed, Suspended, Cancelled]),
            (Running, vec![Succeeded, Failed, Suspended, Cancelled]),
            (Suspended, vec![Resuming, Cancelled]),
            (Resuming, vec![Running, Succeeded, Failed, Suspended, Cancelled]),
            (Succeeded, vec![]),
            (Failed, vec![]),
            (Cancelled, vec![]),
        ];
        for (from, allowed) in listed {
            for to in CallStatus::ALL {
                assert_eq!(from.may_become(to), allowed.contains(&to), "{from:?} -> {to:?}");
            }
        }
    }
}
