//! The decision on one input: the events that follow from it.

use super::child_plan::RunSeed;
use super::event::{CheckedCall, Event};
use super::facts::RunStatus;
use super::input::{Input, InputRefusal};
use super::spec::{RunSpec, Task};
use super::transition::Transition;
use super::{Phase, Run};
use crate::catalog::Catalog;
use crate::catalog::ToolVersion;
use crate::code::Code;
use crate::hook::ModelHooked;
use crate::limit_places::LimitScope;
use crate::message::{Finish, Message, ModelReply};
use crate::outcome::Fault;
use crate::proposal::{Arguments, Proposal};
use crate::text::one_line;
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The maximum length of the name of a model, in bytes.
const MAX_MODEL_BYTES: usize = 100;

impl Run {
    /// Returns the events that follow from one input at this time. Nothing changes before they are
    /// committed and applied.
    ///
    /// # Errors
    /// The input is rejected, with a reason for its sender: a second start, a decision that does
    /// not fit, a message to a run that is working.
    pub fn decide(&self, catalog: &Catalog, now_ms: u64, input: &Input) -> Result<Vec<Event>, InputRefusal> {
        let mut draft = Transition::new(self, catalog, now_ms);
        match input {
            Input::Start(spec) => self.begin(&mut draft, spec, RunSeed::default(), None)?,
            Input::StartSeeded(spec, seed) => self.begin(&mut draft, spec, seed.clone(), None)?,
            Input::StartRefused(spec, fault) => {
                self.begin(&mut draft, spec, RunSeed::default(), Some(fault))?;
            }
            Input::Replied { ask, reply, hooked } if self.phase == Phase::Asking && *ask == self.asks => {
                self.hear(&mut draft, reply.clone(), hooked.clone());
            }
            Input::ModelFailed { ask, error } if self.phase == Phase::Asking && *ask == self.asks => {
                draft.complete_run(RunStatus::Failed { error: error.clone() });
            }
            Input::Validated { call_id, fault } => draft.validated(call_id, fault.as_ref()),
            Input::Judged { round, answers, hooked } => draft.accept_verdicts(*round, answers, hooked),
            Input::Hooked { call_id, answers } => draft.hooks_answered(call_id, answers.clone()),
            Input::Attempted { call_id, attempt, outcome, usage, taken } => {
                draft.attempted(call_id, *attempt, outcome, *usage, taken.as_ref());
            }
            Input::ChildAsked { call_id, attempt, ordinal, agent_id, digest, run_id } => {
                let place = (call_id.clone(), *ordinal);
                draft.child_asked(place, *attempt, agent_id.clone(), digest.clone(), run_id.clone());
            }
            Input::ChildChanged { call_id, ordinal, end } => {
                draft.record_child_state((call_id.clone(), *ordinal), end.clone());
            }
            Input::Decided(decisions) => self.take_decisions(&mut draft, decisions)?,
            Input::Message(text) => self.supersede(&mut draft, text.clone())?,
            Input::Cancel { reason } => self.cut(&mut draft, Some(reason)),
            Input::WallTimeUp => self.cut(&mut draft, None),
            Input::CutShort { reason, stopped } => {
                draft.stopped = stopped;
                self.cut(&mut draft, reason.as_ref());
            }
            Input::Restarted => draft.restart_calls(),
            Input::Abandoned => draft.end_abandoned_call(),
            Input::Replied { .. } | Input::ModelFailed { .. } => {}
        }
        Ok(draft.into_events())
    }

    /// Ends the run for this reason; without a reason, because its wall time is used up.
    fn cut(&self, draft: &mut Transition<'_>, reason: Option<&String>) {
        match reason {
            Some(reason) => {
                draft.end_early(Code::Cancelled, RunStatus::Cancelled { reason: reason.clone() });
            }
            None => {
                // A call that waits for a person did not time out, so it is cancelled.
                let runs = self.open_questions().next().is_none();
                let is_direct = matches!(self.spec.task, Task::Call { .. });
                let code = if is_direct && runs { Code::TimedOut } else { Code::Cancelled };
                draft.end_early(code, RunStatus::Stopped { limit: "wall_ms".to_owned() });
            }
        }
    }

    fn begin(
        &self,
        draft: &mut Transition<'_>,
        spec: &Arc<RunSpec>,
        seed: RunSeed,
        refused: Option<&Fault>,
    ) -> Result<(), InputRefusal> {
        if self.phase != Phase::New {
            return Err(InputRefusal::new("the run has begun already"));
        }
        draft.push(Event::RunStarted { spec: Arc::clone(spec) });
        if seed != RunSeed::default() {
            draft.push(Event::RunSeeded { change: seed.change, messages: seed.messages });
        }
        self.begin_task(draft, spec, refused);
        Ok(())
    }

    /// Returns whether the record has the start of the run and nothing of its task. This program
    /// commits both together, but another one may not.
    pub(super) fn lacks_task(&self) -> bool {
        self.events > 0 && self.step == 0 && self.calls().is_empty() && !self.is_finished()
    }

    /// Begins the task of the run.
    pub(super) fn begin_task(
        &self,
        draft: &mut Transition<'_>,
        spec: &Arc<RunSpec>,
        refused: Option<&Fault>,
    ) {
        match &spec.task {
            Task::Prompt(text) => {
                let is_added = self.events > 0
                    && matches!(self.messages.last(), Some(Message::User(last)) if last == text);
                if !is_added {
                    draft.push(Event::MessageAdded { text: text.clone() });
                }
                draft.push(Event::StepStarted { step: 1 });
            }
            Task::Call { tool_name, arguments } => {
                let read = match refused {
                    Some(fault) => Err(fault.clone()),
                    None => Arguments::read(Arc::clone(arguments)),
                };
                draft.propose(propose(draft.catalog, |name| spec.offers(name), "call-1", tool_name, read));
                draft.settle_as(spec);
            }
        }
    }

    fn hear(&self, draft: &mut Transition<'_>, mut reply: ModelReply, hooked: Option<Box<ModelHooked>>) {
        self.give_ids(&mut reply);
        self.name_model(&mut reply);
        let reply = Arc::new(reply);
        let hidden = hooked.as_ref().map(|hooked| hooked.hidden.clone()).unwrap_or_default();
        // A hook and a composition may answer with nothing; a model may not.
        let is_hooks_own =
            hooked.as_ref().is_some_and(|h| h.answered_by.is_some() || !h.reply_changed_by.is_empty());
        let may_be_empty = is_hooks_own || self.spec.agent.is_made_of_agents();
        if let Some(hooked) = hooked {
            draft.push(Event::ModelHooked { step: self.step, hooked });
        }
        draft.push(Event::ModelReplied { step: self.step, reply: Arc::clone(&reply) });
        let calls = &reply.message.calls;
        if self.continues(&reply) {
            return;
        }
        if calls.is_empty() && reply.correction.is_some() && !self.stops_on_text(&reply) {
            // The next turn begins with the correction, if another turn is allowed.
            return draft.settle();
        }
        if calls.is_empty() {
            let status = self.status_of_answer(draft.catalog, &reply, may_be_empty);
            return draft.complete_run_with(status, self.turn_text(&reply));
        }
        let offered =
            |name: &str| self.spec.offers(name) && self.filter.shows(name) && !hidden.contains(name);
        for (at, call) in calls.iter().enumerate() {
            let may_be_cut = reply.finish == Finish::Length && at + 1 == calls.len();
            let read = match Arguments::read(call.arguments.as_str()) {
                Ok(_) if may_be_cut && call.arguments.trim().is_empty() => Err(cut_off()),
                Err(_) if may_be_cut => Err(cut_off()),
                read => read,
            };
            draft.propose(propose(draft.catalog, offered, &call.id, &call.name, read));
        }
        let asked = self.usage.calls.saturating_add(u32::try_from(calls.len()).unwrap_or(u32::MAX));
        let limits = &self.spec.limits;
        let limit = if asked > limits.tool_calls {
            "tool_calls"
        } else if self.repetitions(&reply) >= limits.identical_turns.max(2) {
            "identical_turns"
        } else if self.stops_on_text(&reply) {
            "stop_on_texts"
        } else {
            return draft.settle();
        };
        draft.end_early(Code::NotRun, RunStatus::Stopped { limit: limit.to_owned() });
    }

    /// Returns how a run ends with a reply without calls: only a whole answer completes it.
    fn status_of_answer(&self, catalog: &Catalog, reply: &ModelReply, may_be_empty: bool) -> RunStatus {
        let is_empty = !may_be_empty && self.turn_text(reply).trim().is_empty();
        let error = match reply.finish {
            _ if self.stops_on_text(reply) => return RunStatus::Completed,
            Finish::Filtered => {
                "the provider's filter withheld the model's reply (finish reason: filtered)".to_owned()
            }
            Finish::Length => format!(
                "the model's reply was cut off by its length, even after it was continued (finish reason: length); \
                 raise the model's `max_output_tokens`{}, or ask for less",
                catalog.limit_places().of(LimitScope::Model)
            ),
            Finish::Stop if is_empty => {
                "the model's reply is empty (finish reason: stop); send the message again".to_owned()
            }
            Finish::Stop => return RunStatus::Completed,
        };
        RunStatus::Failed { error }
    }

    /// Bounds and cleans the name of the model, which comes from the provider. A composition of
    /// agents has no model.
    fn name_model(&self, reply: &mut ModelReply) {
        let named = reply.model.take().filter(|_| !self.spec.agent.is_made_of_agents());
        let named = named.map(|model| SmolStr::from(one_line(&model, MAX_MODEL_BYTES)));
        reply.model = named.filter(|model| !model.is_empty());
    }

    /// Gives each call a unique id: the provider's, unless it is missing or was already used in
    /// this run.
    fn give_ids(&self, reply: &mut ModelReply) {
        let mut fresh: BTreeSet<String> = BTreeSet::new();
        let provided: BTreeSet<String> = reply.message.calls.iter().map(|c| c.id.clone()).collect();
        for (at, call) in Arc::make_mut(&mut reply.message.calls).iter_mut().enumerate() {
            // A slash distinguishes the id of a suspension from that of a call.
            let usable = !call.id.trim().is_empty() && call.id.len() <= 256 && !call.id.contains('/');
            if !usable || self.call_ids.contains(call.id.as_str()) || fresh.contains(&call.id) {
                let made = (1..).map(|n| match n {
                    1 => format!("call-{}-{}", self.step, at + 1),
                    n => format!("call-{}-{}-{n}", self.step, at + 1),
                });
                call.id = made
                    .into_iter()
                    .find(|id| {
                        !self.call_ids.contains(id.as_str()) && !fresh.contains(id) && !provided.contains(id)
                    })
                    .unwrap_or_default();
            }
            fresh.insert(call.id.clone());
        }
    }
}

/// Performs the checks of one call that need neither guest nor gate.
fn propose(
    catalog: &Catalog,
    offered: impl Fn(&str) -> bool + Copy,
    call_id: &str,
    tool_name: &str,
    arguments: Result<Arguments, Fault>,
) -> CheckedCall {
    let (arguments, fault) = match arguments {
        Err(fault) => (None, Some(fault)),
        Ok(mut read) => {
            let fault = Proposal::check(catalog, offered, call_id, tool_name, &read).err();
            read.forget_value();
            (Some(read), fault)
        }
    };
    let tool = catalog.tool(tool_name).filter(|_| offered(tool_name)).cloned();
    CheckedCall {
        call_id: call_id.into(),
        // The name of a loaded tool has already been checked.
        tool_name: match &tool {
            Some(tool) => SmolStr::new(&tool.descriptor.name),
            None => crate::text::clean(tool_name, 128).into(),
        },
        owner: tool
            .as_ref()
            .map(|tool| ToolVersion { id: tool.owner.id.clone(), version: tool.owner.version.clone() }),
        arguments,
        fault,
        tool,
    }
}

fn cut_off() -> Fault {
    Fault::new(
        Code::InvalidArguments,
        "The reply was cut off by its length within this call's arguments, so the call was not run. Send it again, shorter.",
    )
}
