//! One call of a turn: its status, and which moves between statuses exist.

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

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// Asked for; not yet let through.
    New,
    /// An attempt is under way, or the outcome waits for its turn.
    Running,
    /// Waits for a person.
    Suspended,
    /// A person let it go on; not yet let through again.
    Resuming,
    /// It did what it was asked.
    Succeeded,
    /// It did not.
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

    /// Whether a call may move from this status to that one. Every pair that is
    /// not listed here is a fault of the host.
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

    /// Whether nothing can follow.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, CallStatus::Succeeded | CallStatus::Failed | CallStatus::Cancelled)
    }
}

/// How a call ended: with the tool's answer, or without.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// The tool's answer, or one supplied in its place.
    Result(Arc<ToolResult>),
    /// Why there is none.
    Fault(Fault),
}

impl CallEnd {
    /// The status that a call has after this end.
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

    /// The code of an end that is no success.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            CallEnd::Result(result) if result.is_success() => None,
            CallEnd::Result(_) => Some(Code::ToolError),
            CallEnd::Fault(fault) => Some(fault.code),
        }
    }
}

/// Everything that a run knows of one call of its present turn.
#[derive(Debug, Clone)]
pub struct Call {
    /// Unique within the run.
    pub id: SmolStr,
    /// The name that the model used.
    pub tool_name: SmolStr,
    /// Which version of whose tool; none where it is not known.
    pub version: Option<ToolVersion>,
    /// Where it stands.
    pub status: CallStatus,
    /// The arguments; none where they were not acceptable JSON.
    pub arguments: Option<Arguments>,
    /// How often an attempt was started.
    pub attempts: u32,
    /// How many of them followed a timeout.
    pub(super) retries: u32,
    /// How many followed a conflict.
    pub(super) conflicts: u32,
    /// How many took the place of an attempt that ended with its process.
    pub(super) restarts: u32,
    /// An attempt timed out, and the next has not started.
    pub(super) is_retrying: bool,
    /// What all its ended attempts used.
    pub usage: Usage,
    /// The question that it waits for, or waited for last.
    pub suspended: Option<Arc<Suspended>>,
    /// The decision with which it goes on.
    pub resumption: Option<Arc<Resumption>>,
    /// How it ended.
    pub end: Option<CallEnd>,
    pub(super) tool: Option<Arc<Tool>>,
    pub(super) validation: Validation,
    pub(super) let_through: Option<Arc<[GateVerdict]>>,
    /// Whether an attempt was started since the gates let it through.
    pub(super) started: bool,
    pub(super) returned: Option<(Arc<Outcome>, Usage)>,
    pub(super) not_before_ms: u64,
    /// When it must have ended, all attempts together; 0 before the first.
    pub(super) until_ms: u64,
    pub(super) suspensions: u32,
    /// The gates whose questions about these arguments a person answered.
    pub(super) approved_gates: Vec<SmolStr>,
    /// The decision that the tool is shown: the answer to its own question, and
    /// to a gate's where it asked none.
    pub(super) shown: Option<Arc<Resumption>>,
    pub(super) asked_itself: bool,
    /// What a person decided about the question of this call's child: the child's
    /// run, and the decision as that run is to be told it.
    pub(super) child_decision: Option<(String, Decision)>,
    /// Whether it is one of those that were let through; see `Tally`.
    pub(super) counted: bool,
    /// What the hooks before it answered, once they were asked.
    pub(super) hooked: Option<Arc<[HookAnswer]>>,
    /// Whether what they wrote is part of the state already: the call asked a person.
    pub(super) hooks_kept: bool,
    /// How it ends, while the hooks after it are asked.
    pub(super) ending: Option<Arc<CallCompletion>>,
}

/// Whether the tool's own check of the arguments was asked.
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

    /// The gates whose questions about these arguments a person answered.
    #[must_use]
    pub fn approved_gates(&self) -> &[SmolStr] {
        &self.approved_gates
    }

    /// Whether the gates are to be asked about it: it is new, resumed, or sent
    /// back for a conflict, and was not let through since.
    pub(super) fn wants_judgement(&self) -> bool {
        matches!(self.status, CallStatus::New | CallStatus::Resuming | CallStatus::Running)
            && self.let_through.is_none()
            && self.ending.is_none()
    }

    /// Whether an attempt is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.status == CallStatus::Running
            && self.let_through.is_some()
            && self.started
            && self.returned.is_none()
            && self.ending.is_none()
    }

    /// Whether it was let through and waits for a place among those under way.
    pub(super) fn is_queued(&self) -> bool {
        self.let_through.is_some() && !self.started && !self.status.is_final() && self.ending.is_none()
    }

    /// An attempt begins. One that begins while another is under way takes the place of an
    /// attempt that ended with its process.
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

    /// The id of the next question about this call, unique within the run.
    pub(super) fn next_suspension(&self) -> String {
        format!("{}/{}", self.id, self.suspensions + 1)
    }

    /// A person let the call go on with this.
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
            // What was approved were other arguments.
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
