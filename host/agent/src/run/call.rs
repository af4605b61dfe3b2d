//! One call of a turn: its identity, its counts and its stage, and how events change them.

use super::call_stage::{Progress, Stage};
use super::event::CheckedCall;
use super::facts::{CallCompletion, CallEnd, CallStatus, InvalidTransition};
use super::spec::{Decision, DecisionAnswer};
use crate::catalog::{Catalog, Tool, ToolVersion};
use crate::context::Resumption;
use crate::gate::{GateVerdict, Resolution, resolve};
use crate::hook::HookAnswer;
use crate::outcome::{ResumeMode, Usage};
use crate::proposal::{Arguments, Proposal};
use crate::question::SuspendedCall;
use serde_json::Value;
use smol_str::SmolStr;
use std::sync::Arc;

/// The state of one call of the current turn.
#[derive(Debug, Clone)]
pub struct Call {
    /// Unique within the run.
    pub id: SmolStr,
    /// The name that the model used.
    pub tool_name: SmolStr,
    /// The version of the tool's owner; `None` if unknown.
    pub version: Option<ToolVersion>,
    /// The arguments; `None` if they were not acceptable JSON.
    pub arguments: Option<Arguments>,
    /// The number of attempts that were started.
    pub attempts: u32,
    /// Usage of all attempts that have ended.
    pub usage: Usage,
    pub(super) stage: Stage,
    pub(super) reruns: Reruns,
    /// The deadline of all attempts together, in milliseconds since the Unix epoch; 0 before the
    /// first and while it is unknown.
    pub(super) until_ms: u64,
    /// The version of the tool on which the call began, while this process lives.
    tool: Option<Arc<Tool>>,
    /// Whether the tool's own check of the arguments answered.
    pub(super) is_validated: bool,
    /// Whether the call is among those that were let through; see `CallCounts`.
    pub(super) counted: bool,
    /// The answers of the hooks before the call, once they were asked.
    pub(super) hooks_before: Option<HooksBefore>,
    /// The number of questions to a person about the call.
    pub(super) suspensions: u32,
    /// The most recent question that no longer waits for an answer.
    past_question: Option<Arc<SuspendedCall>>,
    decisions: CallDecisions,
}

/// The attempts of a call after its first, by their reason.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reruns {
    /// The number of attempts that followed a timeout.
    pub(super) retries: u32,
    /// The number of attempts that followed a conflict.
    pub(super) conflicts: u32,
    /// The number of attempts that replaced one whose process ended.
    pub(super) restarts: u32,
}

/// The answers of the hooks before a call.
#[derive(Debug, Clone)]
pub(super) struct HooksBefore {
    pub(super) answers: Arc<[HookAnswer]>,
    /// Whether their writes are part of the state already, because the call asked a person.
    pub(super) are_committed: bool,
}

/// The decisions of people about a call.
#[derive(Debug, Clone, Default)]
struct CallDecisions {
    latest: Option<Arc<Resumption>>,
    /// The latest answer to a question of the tool itself about these arguments.
    to_tool: Option<Arc<Resumption>>,
    /// The gates whose questions about these arguments were answered.
    approved_gates: Vec<SmolStr>,
    /// The latest decision about the question of a child: the child's run, and the decision to pass
    /// to that run.
    to_child: Option<(String, Decision)>,
}

impl Call {
    pub(super) fn new(proposed: &CheckedCall) -> Self {
        Self {
            id: proposed.call_id.clone(),
            tool_name: proposed.tool_name.clone(),
            version: proposed.owner.clone(),
            arguments: proposed.arguments.clone(),
            attempts: 0,
            usage: Usage::default(),
            stage: Stage::Judging(Progress::Proposed),
            reruns: Reruns::default(),
            until_ms: 0,
            tool: proposed.tool.clone(),
            is_validated: false,
            counted: false,
            hooks_before: None,
            suspensions: 0,
            past_question: None,
            decisions: CallDecisions::default(),
        }
    }

    /// Returns the current status.
    #[must_use]
    pub fn status(&self) -> CallStatus {
        self.stage.status()
    }

    /// Returns the question for whose answer the call waits.
    #[must_use]
    pub fn question(&self) -> Option<&Arc<SuspendedCall>> {
        match &self.stage {
            Stage::Suspended(question) => Some(question),
            _ => None,
        }
    }

    /// Returns the end of the call.
    #[must_use]
    pub fn end(&self) -> Option<&CallEnd> {
        match &self.stage {
            Stage::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Returns the gates whose questions about these arguments a person answered.
    #[must_use]
    pub fn approved_gates(&self) -> &[SmolStr] {
        &self.decisions.approved_gates
    }

    /// Returns the latest decision with which the call continues.
    #[must_use]
    pub fn resumption(&self) -> Option<&Arc<Resumption>> {
        self.decisions.latest.as_ref()
    }

    /// Returns the decision to pass to the child with this run, about whose question a person
    /// decided.
    pub(super) fn decision_for_child(&self, run_id: &str) -> Option<&Decision> {
        let (child, decision) = self.decisions.to_child.as_ref()?;
        (child == run_id).then_some(decision)
    }

    /// Returns the current or most recent question.
    pub(super) fn last_question(&self) -> Option<&Arc<SuspendedCall>> {
        self.question().or(self.past_question.as_ref())
    }

    /// Returns the decision that the tool sees: the latest answer to its own question. An answer to
    /// a gate's question only permits the call.
    pub(super) fn decision_for_tool(&self) -> Option<&Arc<Resumption>> {
        self.decisions.to_tool.as_ref()
    }

    /// Returns whether the gates are to be asked about the call.
    pub(super) fn is_judging(&self) -> bool {
        matches!(self.stage, Stage::Judging(_))
    }

    /// Returns whether an attempt is in progress.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running { .. })
    }

    /// Returns whether the writes of the hooks before the call are already part of the state.
    pub(super) fn are_hooks_committed(&self) -> bool {
        self.hooks_before.as_ref().is_some_and(|hooks| hooks.are_committed)
    }

    /// Returns the end of the call while the hooks after it are asked.
    pub(super) fn completion(&self) -> Option<&Arc<CallCompletion>> {
        match &self.stage {
            Stage::Completing(_, completion) => Some(completion),
            _ => None,
        }
    }

    /// Returns the id of the next question about this call, unique within the run.
    pub(super) fn next_suspension_id(&self) -> String {
        format!("{}/{}", self.id, self.suspensions + 1)
    }

    /// Returns the tool in the version on which the call began, if it still exists.
    pub(super) fn tool<'a>(&'a self, catalog: &'a Catalog) -> Option<&'a Arc<Tool>> {
        if self.tool.is_some() {
            return self.tool.as_ref();
        }
        let version = self.version.as_ref()?;
        let is_same =
            |tool: &&Arc<Tool>| tool.owner.id == version.id && tool.owner.version == version.version;
        catalog.tool(&self.tool_name).filter(is_same)
    }

    /// Returns the tool, or the version that replaced it. That version determines what a call that
    /// returned before an upgrade may change.
    pub(super) fn tool_or_successor<'a>(&'a self, catalog: &'a Catalog) -> Option<&'a Arc<Tool>> {
        let version = self.version.as_ref()?;
        let successor = || catalog.tool(&self.tool_name).filter(|tool| tool.owner.id == version.id);
        self.tool(catalog).or_else(successor)
    }

    /// Returns the call as it was proposed; `None` if its tool no longer exists in that version, or its
    /// arguments were not acceptable JSON.
    pub(super) fn proposal(&self, catalog: &Catalog) -> Option<Proposal> {
        Some(Proposal::recorded(&self.id, Arc::clone(self.tool(catalog)?), self.arguments.clone()?))
    }

    /// Records the gates' verdicts. If one of them holds the call back, the call keeps its stage, and
    /// the next event ends it or asks a person.
    pub(super) fn judge(&mut self, verdicts: &[GateVerdict]) -> Result<(), InvalidTransition> {
        match resolve(verdicts, self.approved_gates()) {
            Resolution::Allowed(clearance) => self.enter(Stage::Queued(self.stage.progress(), clearance)),
            Resolution::Held(_) | Resolution::Unasked => Ok(()),
        }
    }

    /// Starts an attempt.
    pub(super) fn start(
        &mut self,
        attempt: u32,
        not_before_ms: u64,
        until_ms: u64,
    ) -> Result<(), InvalidTransition> {
        let Some(clearance) = self.stage.clearance() else { return Err(self.invalid("running")) };
        self.reruns.restarts += u32::from(self.is_running());
        (self.attempts, self.until_ms) = (attempt, until_ms);
        self.enter(Stage::Running { clearance, not_before_ms })
    }

    /// Prepares another attempt after one that timed out.
    pub(super) fn retry(&mut self) -> Result<(), InvalidTransition> {
        let Some(clearance) = self.stage.clearance() else { return Err(self.invalid("queued")) };
        self.reruns.retries += 1;
        self.enter(Stage::Queued(Progress::Attempted, clearance))
    }

    /// Sends the call back to the gates, because another call changed the same key.
    pub(super) fn conflict(&mut self) -> Result<(), InvalidTransition> {
        self.reruns.conflicts += 1;
        self.enter(Stage::Judging(Progress::Attempted))
    }

    /// Lets the end of the call wait for the hooks after it.
    pub(super) fn complete(&mut self, completion: &CallCompletion) -> Result<(), InvalidTransition> {
        self.enter(Stage::Completing(self.stage.progress(), Arc::new(completion.clone())))
    }

    /// Suspends the call with a question to a person.
    pub(super) fn suspend(&mut self, asked: &SuspendedCall) -> Result<(), InvalidTransition> {
        let question = SuspendedCall { arguments: self.arguments.clone(), ..asked.clone() };
        self.enter(Stage::Suspended(Arc::new(question)))?;
        // A waiting call holds no tool. It continues with the version that is loaded by then.
        self.version.clone_from(&asked.owner);
        self.tool = None;
        self.suspensions += 1;
        // It waits for a person, and its time starts anew after that.
        self.until_ms = 0;
        // The change includes the writes of hooks before the call. A gate's question has no change.
        if let Some(hooks) = self.hooks_before.as_mut().filter(|_| asked.gate.is_none()) {
            hooks.are_committed = true;
        }
        Ok(())
    }

    /// Continues the call with a person's decision. A call that a person cancels ends with the next
    /// event.
    pub(super) fn decide(&mut self, decision: &Decision) -> Result<(), InvalidTransition> {
        let Some(asked) = self.question().cloned() else { return Err(self.invalid("judging")) };
        let value = match (&decision.answer, &asked.child) {
            // The answer to a child's question is for the child, not for this call.
            (_, Some(_)) => &Value::Null,
            (DecisionAnswer::Resume(value), None) => value,
            (DecisionAnswer::Cancel, None) => return Ok(()),
        };
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
            self.is_validated = false;
            // The approvals were for other arguments.
            self.decisions.approved_gates.clear();
            self.decisions.to_tool = None;
        }
        let decisions = &mut self.decisions;
        match (&asked.child, &asked.gate) {
            (Some(child), _) => {
                let target = child.suspension_id.clone();
                decisions.to_child = Some((child.run_id.clone(), Decision { target, ..decision.clone() }));
            }
            (None, Some(gate)) => decisions.approved_gates.push(gate.clone()),
            (None, None) => decisions.to_tool = Some(Arc::clone(&resumption)),
        }
        decisions.latest = Some(resumption);
        self.enter(Stage::Judging(Progress::Resumed))
    }

    /// Moves the call to its next stage.
    pub(super) fn enter(&mut self, next: Stage) -> Result<(), InvalidTransition> {
        if !self.stage.may_become(&next) {
            return Err(self.invalid(next.name()));
        }
        if let Stage::Suspended(question) = std::mem::replace(&mut self.stage, next) {
            self.past_question = Some(question);
        }
        Ok(())
    }

    fn invalid(&self, next: &str) -> InvalidTransition {
        InvalidTransition(format!("the call {} cannot go from {} to {next}", self.id, self.stage.name()))
    }
}
