//! One input, and the events that follow from it.

use super::draft::Draft;
use super::event::{Event, Proposed, RunStatus, ToolVersion};
use super::input::{Input, Refused};
use super::spec::{Decision, DecisionAnswer, RunSpec, Task};
use super::{CallEnd, CallStatus, Phase, Run};
use crate::catalog::Catalog;
use crate::code::Code;
use crate::message::{Finish, ModelReply};
use crate::outcome::{Fault, ResumeMode, ToolResult};
use crate::proposal::{Arguments, Proposal};
use crate::schema::{self, Schema};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Run {
    /// What follows from one input, now. Nothing changes before the events are
    /// committed and applied.
    ///
    /// # Errors
    /// The input is not taken, in words for whoever gave it: a second start, a
    /// decision that does not fit, a message to a run that is at work.
    pub fn decide(&self, catalog: &Catalog, now_ms: u64, input: Input) -> Result<Vec<Event>, Refused> {
        let mut draft = Draft::new(self, catalog, now_ms);
        match input {
            Input::Start(spec) => self.begin(&mut draft, spec)?,
            Input::Replied { ask, reply } if self.phase == Phase::Asking && ask == self.asks => {
                self.hear(&mut draft, reply);
            }
            Input::ModelFailed { ask, error } if self.phase == Phase::Asking && ask == self.asks => {
                draft.finish_run(RunStatus::Failed { error });
            }
            Input::Validated { call_id, fault } => draft.validated(&call_id, fault),
            Input::Judged { round, answers } => draft.judged(round, answers),
            Input::Attempted { call_id, attempt, outcome, usage } => {
                draft.attempted(&call_id, attempt, outcome, usage);
            }
            Input::Decided(decision) => self.take_decision(&mut draft, decision)?,
            Input::Message(text) => self.supersede(&mut draft, text)?,
            Input::Cancel { reason } => draft.end_early(Code::Cancelled, RunStatus::Cancelled { reason }),
            Input::WallTimeUp => {
                draft.end_early(Code::Cancelled, RunStatus::Stopped { limit: "wall_ms".to_owned() });
            }
            Input::Restarted => draft.restarted(),
            Input::Replied { .. } | Input::ModelFailed { .. } => {}
        }
        Ok(draft.into_events())
    }

    fn begin(&self, draft: &mut Draft<'_>, spec: Arc<RunSpec>) -> Result<(), Refused> {
        if self.phase != Phase::New {
            return Err(Refused("the run has begun already".to_owned()));
        }
        draft.push(Event::RunStarted { spec: Arc::clone(&spec) });
        match &spec.task {
            Task::Prompt(text) => {
                draft.push(Event::MessageAdded { text: text.clone() });
                draft.push(Event::StepStarted { step: 1 });
            }
            Task::Call { tool_name, arguments } => {
                let read = Arguments::read(arguments);
                draft.propose(propose(draft.catalog(), &spec, "call-1", tool_name, read));
                draft.settle_as(&spec);
            }
        }
        Ok(())
    }

    fn hear(&self, draft: &mut Draft<'_>, mut reply: ModelReply) {
        self.give_ids(&mut reply);
        let reply = Arc::new(reply);
        draft.push(Event::ModelReplied { step: self.step, reply: Arc::clone(&reply) });
        let calls = &reply.message.calls;
        if self.continues(&reply) {
            return;
        }
        if calls.is_empty() {
            draft.finish_run_with(RunStatus::Completed, format!("{}{}", self.carried, reply.message.text));
            return;
        }
        for (at, call) in calls.iter().enumerate() {
            let may_be_cut = reply.finish == Finish::Length && at + 1 == calls.len();
            let read = match Arguments::read(&call.arguments) {
                Ok(_) if may_be_cut && call.arguments.trim().is_empty() => Err(cut_off()),
                Err(_) if may_be_cut => Err(cut_off()),
                read => read,
            };
            draft.propose(propose(draft.catalog(), &self.spec, &call.id, &call.name, read));
        }
        let asked = self.usage.calls + u32::try_from(calls.len()).unwrap_or(u32::MAX);
        if asked > self.spec.limits.tool_calls {
            draft.end_early(Code::NotRun, RunStatus::Stopped { limit: "tool_calls".to_owned() });
        } else if draft.repeats_too_often(&reply) {
            draft.end_early(Code::NotRun, RunStatus::Stopped { limit: "identical_turns".to_owned() });
        } else {
            draft.settle();
        }
    }

    /// Each call gets an id of its own: the provider's, unless it gave none or gave
    /// one that this run has seen.
    fn give_ids(&self, reply: &mut ModelReply) {
        let mut fresh: BTreeSet<String> = BTreeSet::new();
        let provided: BTreeSet<String> = reply.message.calls.iter().map(|c| c.id.clone()).collect();
        for (at, call) in reply.message.calls.iter_mut().enumerate() {
            let usable = !call.id.trim().is_empty() && call.id.len() <= 256;
            if !usable || self.call_ids.contains(&call.id) || fresh.contains(&call.id) {
                let made = (1..).map(|n| match n {
                    1 => format!("call-{}-{}", self.step, at + 1),
                    n => format!("call-{}-{}-{n}", self.step, at + 1),
                });
                call.id = made
                    .into_iter()
                    .find(|id| !self.call_ids.contains(id) && !fresh.contains(id) && !provided.contains(id))
                    .unwrap_or_default();
            }
            fresh.insert(call.id.clone());
        }
    }

    fn take_decision(&self, draft: &mut Draft<'_>, decision: Decision) -> Result<(), Refused> {
        if let Some(before) = self.decisions.get(&decision.id) {
            return if before.answer == decision.answer && before.target == decision.target {
                Ok(())
            } else {
                Err(Refused(format!("the decision id {} was used for another decision", decision.id)))
            };
        }
        let target = &decision.target;
        let suspended = self
            .calls()
            .iter()
            .find(|c| &c.id == target || c.suspended.as_ref().is_some_and(|s| &s.suspension_id == target))
            .ok_or_else(|| {
                Refused(format!("no call or suspension {target} of this run waits for a decision"))
            })?;
        let asked = match &suspended.suspended {
            Some(asked) if suspended.status == CallStatus::Suspended => Arc::clone(asked),
            _ => {
                return Err(Refused(format!(
                    "the call {} does not wait: it was decided already",
                    suspended.id
                )));
            }
        };
        if target != &suspended.id && target != &asked.suspension_id {
            return Err(Refused(format!(
                "the suspension {target} was answered; {} waits now",
                asked.suspension_id
            )));
        }
        let call_id = suspended.id.clone();
        let DecisionAnswer::Resume(value) = &decision.answer else {
            let words = decision.reason.clone().unwrap_or_else(|| "no reason was given".to_owned());
            draft.push(Event::CallDecided { call_id: call_id.clone(), decision });
            draft.finish_call(
                &call_id,
                Fault::new(Code::Cancelled, format!("A person cancelled this call: {words}.")),
            );
            draft.settle();
            return Ok(());
        };
        check_answer(asked.ticket.response_schema.as_ref(), value)?;
        let (mode, value) = (asked.ticket.resume_mode, value.clone());
        if mode != ResumeMode::UseDecisionAsToolResult && suspended.tool(draft.catalog()).is_none() {
            return if draft.ask_again(suspended) {
                Ok(())
            } else {
                Err(Refused(format!(
                    "the tool '{}' is not loaded; load it and decide again",
                    suspended.tool_name
                )))
            };
        }
        draft.push(Event::CallDecided { call_id: call_id.clone(), decision });
        draft.resume(&call_id);
        match mode {
            ResumeMode::ReplayToolCall => {}
            ResumeMode::UseDecisionAsToolResult => {
                let result = ToolResult::success(value);
                draft.finish_call(&call_id, CallEnd::Result(Arc::new(result)));
            }
            ResumeMode::PassDecisionToTool => {
                let arguments = Arguments::from_value(value);
                let name = &suspended.tool_name;
                let lists = |name: &str| self.offers(name);
                if let Err(fault) = Proposal::check(draft.catalog(), lists, &call_id, name, &arguments) {
                    draft.finish_call(&call_id, fault);
                }
            }
        }
        draft.settle();
        Ok(())
    }

    fn supersede(&self, draft: &mut Draft<'_>, text: String) -> Result<(), Refused> {
        if self.phase != Phase::Waiting || matches!(self.spec.task, Task::Call { .. }) {
            return Err(Refused("the run is at work; wait until it has ended, or cancel it".to_owned()));
        }
        draft.finish_open_calls(Code::Superseded, "A new message came before this call was decided.");
        draft.push(Event::StepFinished { step: self.step });
        draft.push(Event::MessageAdded { text });
        draft.next_step();
        Ok(())
    }

    /// Whether the run offers the tool: a direct call names it itself.
    pub(super) fn offers(&self, tool_name: &str) -> bool {
        self.spec.agent.lists(tool_name)
    }
}

/// Checks one call as far as that needs no guest and no gate.
fn propose(
    catalog: &Catalog,
    spec: &RunSpec,
    call_id: &str,
    tool_name: &str,
    arguments: Result<Arguments, Fault>,
) -> Proposed {
    // A direct call meets the gate, which says who lists what; the model's list
    // is also what it is told of, so what is not on it does not exist.
    let offered = |name: &str| spec.agent.lists(name) || matches!(spec.task, Task::Call { .. });
    let (arguments, fault) = match arguments {
        Err(fault) => (None, Some(fault)),
        Ok(read) => {
            let fault = Proposal::check(catalog, offered, call_id, tool_name, &read).err();
            (Some(read), fault)
        }
    };
    let tool = catalog.tool(tool_name).filter(|_| offered(tool_name)).cloned();
    Proposed {
        call_id: call_id.to_owned(),
        tool_name: crate::text::clean(tool_name, 128),
        owner: tool
            .as_ref()
            .map(|tool| ToolVersion { id: tool.owner.id.clone(), version: tool.owner.version.clone() }),
        arguments,
        fault,
        tool,
    }
}

fn check_answer(schema: Option<&serde_json::Value>, value: &serde_json::Value) -> Result<(), Refused> {
    let Some(schema) = schema else { return Ok(()) };
    // It was compiled before the question was recorded.
    let schema = Schema::compile(schema).map_err(|e| Refused(e.to_string()))?;
    let violations = schema.violations(value);
    if violations.is_empty() {
        return Ok(());
    }
    Err(Refused(format!("the answer does not fit what was asked:\n{}", schema::describe(&violations))))
}

fn cut_off() -> Fault {
    Fault::new(
        Code::InvalidArguments,
        "The reply was cut off by its length within this call's arguments, so the call was not run. Send it again, shorter.",
    )
}
