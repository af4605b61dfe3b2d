//! A person's decision about a call, or a message instead of one.

use super::call::Call;
use super::event::Event;
use super::facts::{AfterTurn, CallEnd, CallStatus};
use super::input::{InputRefusal, RefusalKind};
use super::spec::{Decision, DecisionAnswer, Task};
use super::transition::{CallEffects, Transition};
use super::{Phase, Run};
use crate::code::Code;
use crate::gate::permissions;
use crate::json;
use crate::outcome::{Fault, ResumeMode, ToolResult, Usage};
use crate::proposal::{Arguments, Proposal};
use crate::question::SuspendedCall;
use crate::schema;
use crate::text;
use serde_json::Value;
use std::sync::Arc;

impl Run {
    /// Takes all of these decisions, or none.
    pub(super) fn take_decisions(
        &self,
        draft: &mut Transition<'_>,
        decisions: &[Decision],
    ) -> Result<(), InputRefusal> {
        for decision in decisions {
            self.take_decision(draft, decision.clone())?;
        }
        if !draft.events.is_empty() {
            draft.settle();
        }
        Ok(())
    }

    /// Takes one decision. A decision that was taken before changes nothing.
    fn take_decision(&self, draft: &mut Transition<'_>, decision: Decision) -> Result<(), InputRefusal> {
        if let Some(before) = self.decision(&decision.id) {
            return if before.answer == decision.answer && before.target == decision.target {
                Ok(())
            } else {
                Err(InputRefusal::new(format!(
                    "the decision id {} was used for another decision",
                    decision.id
                )))
            };
        }
        let (call, asked) = self.asked(&decision.target)?;
        if draft.position(&call.id).is_some_and(|at| draft.statuses[at] != CallStatus::Suspended) {
            let message = format!("the call {} is decided twice; decide it once", call.id);
            let kind = RefusalKind::AlreadyDecided { target: decision.target, decision: None };
            return Err(InputRefusal::of(kind, message));
        }
        match decision.answer.clone() {
            DecisionAnswer::Resume(value) => self.resume(draft, call, asked, decision, value)?,
            // The cancellation applies to the child's call. This call continues and receives it.
            DecisionAnswer::Cancel if asked.child.is_some() => {
                self.continue_call(draft, call, asked, decision, Value::Null)?;
            }
            DecisionAnswer::Cancel => {
                let given = decision.reason.clone().filter(|reason| !reason.trim().is_empty());
                let reason = given.unwrap_or_else(|| "no reason was given".to_owned());
                draft.push(Event::CallDecided {
                    call_id: call.id.clone(),
                    decision: Box::new(decision),
                    change: None,
                });
                let message = format!("A person cancelled this call: {}", text::sentence(&reason));
                draft.complete_call(&call.id, Fault::new(Code::Cancelled, message));
            }
        }
        Ok(())
    }

    /// Returns the call that waits for a decision on this target.
    fn asked(&self, target: &str) -> Result<(&Call, &SuspendedCall), InputRefusal> {
        let named = |call: &&Call| {
            call.id == target || call.last_question().is_some_and(|asked| asked.suspension_id == target)
        };
        let call = self.calls().iter().find(named);
        if let Some((call, asked)) = call.and_then(|call| Some((call, call.question()?))) {
            return Ok((call, asked));
        }
        Err(match call {
            _ if self.asked.contains(target) => {
                InputRefusal::already_decided(target, self.decision_about(target).cloned())
            }
            Some(call) => InputRefusal::new(format!("the call {} does not wait for a decision", call.id)),
            None => {
                let shown = text::clean(target, 100);
                let message = format!("no call or suspension {shown} of this run waits for a decision");
                InputRefusal::of(RefusalKind::UnknownTarget(target.to_owned()), message)
            }
        })
    }

    /// Returns the recorded decision with this id.
    #[must_use]
    pub fn decision(&self, id: &str) -> Option<&Decision> {
        self.decisions.get(id)
    }

    /// Returns the latest decision about this call or question.
    fn decision_about(&self, target: &str) -> Option<&Decision> {
        let made = self.decisions.values().filter(|made| made.target == target);
        made.max_by_key(|made| made.at_ms)
    }

    /// Continues the call with an answer that fits the question.
    fn resume(
        &self,
        draft: &mut Transition<'_>,
        call: &Call,
        asked: &SuspendedCall,
        decision: Decision,
        value: Value,
    ) -> Result<(), InputRefusal> {
        check_answer(asked, &value)?;
        self.continue_call(draft, call, asked, decision, value)
    }

    /// Continues the call with a checked value, in the way that the question's ticket specifies.
    fn continue_call(
        &self,
        draft: &mut Transition<'_>,
        call: &Call,
        asked: &SuspendedCall,
        decision: Decision,
        value: Value,
    ) -> Result<(), InputRefusal> {
        let mode = asked.ticket.resume_mode;
        let runs_tool = mode != ResumeMode::UseDecisionAsToolResult;
        if runs_tool && draft.catalog.tool(&call.tool_name).is_none() {
            let name = &call.tool_name;
            return Err(InputRefusal::new(format!(
                "the tool '{name}' is not loaded; load it and decide again"
            )));
        }
        let change = permissions::change(&draft.state(), draft.catalog, asked, &value);
        draft.push(Event::CallDecided { call_id: call.id.clone(), decision: Box::new(decision), change });
        draft.set_status(&call.id, CallStatus::Resuming);
        if runs_tool && call.tool(draft.catalog).is_none() {
            draft.without_tool(call);
            return Ok(());
        }
        match mode {
            ResumeMode::ReplayToolCall => {}
            ResumeMode::UseDecisionAsToolResult => {
                let did = CallEffects { supplied: true, ..CallEffects::default() };
                let result = CallEnd::Result(Arc::new(ToolResult::success(value)));
                draft.complete_call_with(&call.id, result, did, Usage::default());
            }
            ResumeMode::PassDecisionToTool => {
                let (arguments, offered) =
                    (Arguments::from_value(value), |name: &str| self.spec.offers(name));
                if let Err(fault) =
                    Proposal::check(draft.catalog, offered, &call.id, &call.tool_name, &arguments)
                {
                    draft.complete_call(&call.id, fault);
                }
            }
        }
        Ok(())
    }

    /// Ends the suspended calls of a waiting run, because a new message arrived instead of a decision.
    pub(super) fn supersede(&self, draft: &mut Transition<'_>, text: String) -> Result<(), InputRefusal> {
        if self.phase != Phase::Waiting || matches!(self.spec.task, Task::Call { .. }) {
            return Err(InputRefusal::new("the run is at work; wait until it has ended, or cancel it"));
        }
        let message = "A new message came before this call was decided.";
        draft.cut_short(Code::Superseded, message, AfterTurn::Message(text));
        Ok(())
    }
}

/// Checks that an answer matches the schema of its question, and that its record can be read.
fn check_answer(asked: &SuspendedCall, value: &Value) -> Result<(), InputRefusal> {
    json::check_recordable(value)
        .map_err(|why| InputRefusal::new(format!("the answer cannot be recorded: {why}")))?;
    let violations = asked.violations(value).map_err(|e| InputRefusal::new(e.to_string()))?;
    if violations.is_empty() {
        return Ok(());
    }
    let message = format!("the answer does not fit what was asked:\n{}", schema::describe(&violations));
    Err(InputRefusal::of(RefusalKind::DoesNotFit(violations), message))
}
