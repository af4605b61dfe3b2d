//! A draft of the events that follow from one input, call by call.
//!
//! A draft reads the run as it was before the input, and does not change it. It tracks separately what
//! its own events change: the statuses of calls, and the state.

use super::Run;
use super::call::Call;
use super::event::{CheckedCall, Event, FinishedCall};
use super::facts::{CallEnd, CallStatus, LoopActions, RunStatus};
use super::spec::{MAX_SUSPENSIONS, RunSpec, Task};
use crate::catalog::{Catalog, ToolVersion};
use crate::code::Code;
use crate::gate::PERMISSIONS_ID;
use crate::hook::HookAnswer;
use crate::outcome::{Fault, Mutation, Ticket, ToolResult, Usage};
use crate::question::{
    self, AnswerSchema, ChildQuestion, MAX_ACTION_BYTES, MAX_MESSAGE_BYTES, SuspendedCall,
};
use crate::schema::Schema;
use crate::state::{State, StateChange};
use crate::text::clean;
use smol_str::SmolStr;
use std::cell::RefCell;
use std::sync::Arc;

/// The capacity for all events of a typical direct call.
const FEW: usize = 8;

/// The effects of a call that apply once it ends.
#[derive(Default)]
pub(super) struct CallEffects<'a> {
    /// The tool's writes.
    pub(super) mutations: &'a [Mutation],
    /// The state change from the writes of the tool and of the hooks before it.
    pub(super) change: Option<StateChange>,
    pub(super) asked: LoopActions,
    /// Whether the result was supplied in the tool's place. Hooks are asked about such a call as
    /// well.
    pub(super) supplied: bool,
}

/// A draft of the events that follow from one input.
pub(super) struct Transition<'a> {
    pub(super) run: &'a Run,
    pub(super) catalog: &'a Catalog,
    pub(super) now_ms: u64,
    pub(super) events: Vec<Event>,
    /// The future status of each call: the run's calls, then those proposed here.
    pub(super) statuses: Vec<CallStatus>,
    /// Ids and tool names of the calls proposed here.
    proposed: Vec<(SmolStr, SmolStr)>,
    /// The state after this number of the events; see [`state`](Self::state).
    folded: RefCell<(State, usize)>,
    /// The calls whose end waits for hooks from now on.
    pub(super) ending: Vec<SmolStr>,
    /// The usage of attempts that were just stopped.
    pub(super) stopped: &'a [(SmolStr, Usage)],
    /// The answers of hooks before calls that have just arrived.
    pub(super) before: Vec<(SmolStr, Arc<[HookAnswer]>)>,
}

impl<'a> Transition<'a> {
    pub(super) fn new(run: &'a Run, catalog: &'a Catalog, now_ms: u64) -> Self {
        Self {
            run,
            catalog,
            now_ms,
            events: Vec::with_capacity(FEW),
            statuses: run.calls().iter().map(Call::status).collect(),
            proposed: Vec::new(),
            folded: RefCell::new((run.state.clone(), 0)),
            ending: Vec::new(),
            stopped: &[],
            before: Vec::new(),
        }
    }

    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Adds a call to the turn. A call that cannot run is answered at once.
    pub(super) fn propose(&mut self, proposed: CheckedCall) {
        let (call_id, fault) = (proposed.call_id.clone(), proposed.fault.clone());
        self.proposed.push((call_id.clone(), proposed.tool_name.clone()));
        self.statuses.push(CallStatus::New);
        self.push(Event::CallProposed(Arc::new(proposed)));
        if let Some(fault) = fault {
            self.complete_call(&call_id, fault);
        }
    }

    /// Ends a call without committing anything else.
    pub(super) fn complete_call(&mut self, call_id: &str, end: impl Into<CallEnd>) {
        self.complete_call_after(call_id, end, Usage::default());
    }

    /// Ends a call after an attempt with this usage. None of the tool's changes are committed.
    pub(super) fn complete_call_after(&mut self, call_id: &str, end: impl Into<CallEnd>, usage: Usage) {
        self.complete_call_with(call_id, end, CallEffects::default(), usage);
    }

    /// Records the end of a call.
    pub(super) fn record_end(
        &mut self,
        call_id: &str,
        end: CallEnd,
        change: Option<StateChange>,
        asked: LoopActions,
        usage: Usage,
    ) {
        let Some(at) = self.position(call_id) else { return };
        self.statuses[at] = end.status();
        let (call_id, tool_name) = (self.call_id(at).clone(), self.tool_name(at).clone());
        let earlier = self.used_before(&call_id);
        let LoopActions { notes, transfer, escalates, scheduled, filter } = asked;
        self.push(Event::CallFinished(Arc::new(FinishedCall {
            call_id,
            tool_name,
            end,
            change,
            replaced: None,
            notes,
            scheduled,
            filter,
            transfer,
            escalates,
            usage: earlier.plus(usage),
            earlier,
        })));
    }

    /// Returns the state after the events so far. They are folded in on demand, because the state
    /// is not read after the last change of a draft.
    pub(super) fn state(&self) -> State {
        let (state, events) = &mut *self.folded.borrow_mut();
        let changes = self.events[*events..].iter().filter_map(Event::change);
        changes.for_each(|change| state.apply(change));
        *events = self.events.len();
        state.clone()
    }

    /// Returns the state changes of this draft.
    pub(super) fn changes(&self) -> impl Iterator<Item = &StateChange> {
        self.events.iter().filter_map(Event::change)
    }

    /// Returns the compiled schema of a question's answer, or the fault that prevents the question.
    pub(super) fn check_question(call: &Call, ticket: &Ticket, asker: &Asker) -> Result<AnswerSchema, Fault> {
        if call.suspensions >= MAX_SUSPENSIONS {
            let message = format!(
                "'{}' asked {MAX_SUSPENSIONS} times for a decision; that is the limit.",
                call.tool_name
            );
            return Err(Fault::new(Code::MalformedOutput, message));
        }
        let malformed = |why: &str| {
            let message = format!("The question of '{}' cannot be asked: {why}.", call.tool_name);
            Fault::new(Code::MalformedOutput, message)
        };
        // A child's question was checked when the child asked it, and the permission rules ask
        // about arguments of any size.
        let is_measured = match asker {
            Asker::Tool => true,
            Asker::Gate(gate) => gate != PERMISSIONS_ID,
            Asker::Child(_) => false,
        };
        if is_measured {
            question::check(ticket).map_err(|why| malformed(&why.to_string()))?;
        }
        let Some(schema) = &ticket.response_schema else { return Ok(AnswerSchema::default()) };
        Schema::compile(schema).map(AnswerSchema::from).map_err(|e| malformed(&e.to_string()))
    }

    /// Suspends the call with a checked question.
    pub(super) fn suspend(
        &mut self,
        call: &Call,
        (ticket, answer): (Ticket, AnswerSchema),
        asker: Asker,
        change: Option<StateChange>,
        usage: Usage,
    ) {
        self.set_status(&call.id, CallStatus::Suspended);
        let (gate, child) = match asker {
            Asker::Tool => (None, None),
            Asker::Gate(gate) => (Some(gate), None),
            Asker::Child(question) => (None, Some(question)),
        };
        self.push(Event::CallSuspended(Box::new(SuspendedCall {
            call_id: call.id.clone(),
            suspension_id: call.next_suspension_id(),
            tool_name: call.tool_name.clone(),
            arguments: None,
            ticket: Ticket {
                action: clean(&ticket.action, MAX_ACTION_BYTES),
                message: clean(&ticket.message, MAX_MESSAGE_BYTES),
                ..ticket
            },
            owner: call.version.clone(),
            gate,
            child,
            change,
            usage,
            answer,
        })));
    }

    /// Handles a call whose tool is gone. If the call continues after a decision and another
    /// version of the tool exists, it asks again. Otherwise it ends.
    pub(super) fn without_tool(&mut self, call: &Call) {
        if let (Some(asked), Some(tool)) = (call.last_question(), self.catalog.tool(&call.tool_name)) {
            self.set_status(&call.id, CallStatus::Suspended);
            return self.push(Event::CallSuspended(Box::new(SuspendedCall {
                owner: Some(ToolVersion { id: tool.owner.id.clone(), version: tool.owner.version.clone() }),
                suspension_id: call.next_suspension_id(),
                change: None,
                usage: Usage::default(),
                ..(**asked).clone()
            })));
        }
        let name = &call.tool_name;
        let message = format!("The version of '{name}' that was called is no longer loaded.");
        self.complete_call(&call.id, Fault::new(Code::NotFound, message));
    }

    /// Ends the open calls. A call whose end is already known keeps that end.
    pub(super) fn complete_open_calls(&mut self, code: Code, message: &str) {
        for at in 0..self.statuses.len() {
            let ends = self.run.calls().get(at).is_some_and(|call| self.is_ending(call));
            if !self.statuses[at].is_final() && !ends {
                let call_id = self.call_id(at).clone();
                let usage = self.cut_usage(at);
                self.complete_call_after(&call_id, Fault::new(code, message), usage);
            }
        }
    }

    pub(super) fn has_open_calls(&self) -> bool {
        self.statuses.iter().any(|status| !status.is_final())
    }

    pub(super) fn has_ended(&self, at: usize) -> bool {
        self.statuses[at].is_final()
    }

    /// Answers every open call and ends the run.
    pub(super) fn end_early(&mut self, code: Code, status: RunStatus) {
        let message = match &status {
            RunStatus::Cancelled { reason } => format!("The run was cancelled: {reason}"),
            RunStatus::Stopped { limit } => match &self.run.spec.task {
                Task::Call { tool_name, .. } => self.out_of_wall_time(tool_name),
                Task::Prompt(_) => {
                    format!("The run reached its limit {limit} before this call completed.")
                }
            },
            _ => "The run ended before this call could run.".to_owned(),
        };
        self.end_early_because(code, &message, status);
    }

    /// Ends the turn, if there is one, and the run.
    pub(super) fn complete_run(&mut self, status: RunStatus) {
        let said = self.events.iter().find_map(|event| match event {
            Event::ModelReplied { reply, .. } => {
                Some(self.run.turn_text(reply)).filter(|said| !said.is_empty())
            }
            _ => None,
        });
        self.complete_run_with(status, said.unwrap_or_else(|| self.run.last_text.clone()));
    }

    /// Ends the turn, if there is one, and the run with this final text.
    pub(super) fn complete_run_with(&mut self, status: RunStatus, text: String) {
        self.finish_step();
        let usage = self.usage();
        self.push(Event::RunFinished { status, text, usage: Box::new(usage) });
    }

    /// Ends the turn. A direct call has no turns, and its call stays available for inspection.
    pub(super) fn finish_step(&mut self) {
        let step = self.run.step;
        let finished = |event: &Event| matches!(event, Event::StepFinished { .. });
        if step > 0 && !self.events.last().is_some_and(finished) {
            self.push(Event::StepFinished { step });
        }
    }

    /// Ends the turn and begins the next one.
    pub(super) fn next_step(&mut self) {
        self.finish_step();
        self.hand_over();
        self.push(Event::StepStarted { step: self.run.step + 1 });
    }

    /// Ends the turn if the last of its calls has ended, and records the next step.
    pub(super) fn settle(&mut self) {
        let run = self.run;
        self.settle_as(&run.spec);
    }

    pub(super) fn settle_as(&mut self, spec: &RunSpec) {
        if matches!(self.events.last(), Some(Event::RunFinished { .. })) {
            return;
        }
        let going_on = |status: &CallStatus| !status.is_final() && *status != CallStatus::Suspended;
        if self.statuses.iter().any(going_on) {
            return;
        }
        if self.statuses.contains(&CallStatus::Suspended) {
            // A waiting run holds no resources. It waits once these children have ended.
            if !self.has_orphans() {
                self.push(Event::RunWaiting);
            }
            return;
        }
        if let Some(then) = self.run.cut.clone() {
            return self.continue_with(then);
        }
        match &spec.task {
            Task::Call { .. } => {
                let status = self.direct_status();
                self.complete_run(status);
            }
            Task::Prompt(_) if self.escalates() => self.complete_run(RunStatus::Completed),
            Task::Prompt(_) => match self.limit_met(spec) {
                Some(limit) => self.complete_run(RunStatus::Stopped { limit: limit.to_owned() }),
                None => self.next_step(),
            },
        }
    }

    /// Returns the status of a direct call that has ended: it failed if there is no such tool.
    fn direct_status(&self) -> RunStatus {
        let unknown = self.events.iter().find_map(|event| match event {
            Event::CallFinished(finished) => match &finished.end {
                CallEnd::Fault(fault) if fault.code == Code::NotFound => Some(fault),
                _ => None,
            },
            _ => None,
        });
        match unknown {
            Some(fault) => RunStatus::Failed { error: format!("{}: {}", fault.code, fault.message) },
            None => RunStatus::Completed,
        }
    }

    /// Reports that the run waits for a person if nothing else is left to do. This is always the
    /// last event of a waiting run: stores and listings rely on it.
    pub(super) fn wait_if_suspended(&mut self) {
        if self.statuses.contains(&CallStatus::Suspended) {
            self.settle();
        }
    }

    /// Returns the name of the limit that the run has reached; `None` if it may go on.
    fn limit_met(&self, spec: &RunSpec) -> Option<&'static str> {
        let limits = &spec.limits;
        let ends_run = |at: usize| {
            self.statuses[at] == CallStatus::Succeeded
                && limits.stop_on_tools.iter().any(|name| name == self.tool_name(at))
        };
        if !limits.stop_on_tools.is_empty() && (0..self.statuses.len()).any(ends_run) {
            return Some("stop_on_tools");
        }
        if limits.tokens.is_some_and(|most| self.usage().all_tokens().total() >= most) {
            return Some("tokens");
        }
        (self.run.usage.all_steps() >= limits.model_turns).then_some("model_turns")
    }

    pub(super) fn call(&self, call_id: &str) -> Option<&'a Call> {
        self.run.calls().iter().find(|call| call.id == call_id)
    }

    pub(super) fn set_status(&mut self, call_id: &str, status: CallStatus) {
        if let Some(at) = self.position(call_id) {
            self.statuses[at] = status;
        }
    }

    /// Returns the index of a call in `statuses`.
    pub(super) fn position(&self, call_id: &str) -> Option<usize> {
        let known = self.run.calls();
        // Calls are proposed and answered one after the other, so the last one is a likely match.
        let proposed = self.proposed.iter().rposition(|(id, _)| id == call_id);
        proposed.map(|at| known.len() + at).or_else(|| known.iter().position(|call| call.id == call_id))
    }

    /// Returns the id of the call at this index of `statuses`.
    fn call_id(&self, at: usize) -> &SmolStr {
        let known = self.run.calls();
        known.get(at).map_or_else(|| &self.proposed[at - known.len()].0, |call| &call.id)
    }

    fn tool_name(&self, at: usize) -> &SmolStr {
        let known = self.run.calls();
        known.get(at).map_or_else(|| &self.proposed[at - known.len()].1, |call| &call.tool_name)
    }
}

/// The source of a question.
pub(super) enum Asker {
    /// The tool itself.
    Tool,
    /// This gate.
    Gate(SmolStr),
    /// A child of the call.
    Child(Box<ChildQuestion>),
}

/// Returns the question of a pending result: its ticket, or else a plain confirmation.
pub(super) fn question(tool_name: &str, result: &ToolResult, asked: Option<&Ticket>) -> Ticket {
    asked.cloned().unwrap_or_else(|| {
        let message = result.message.clone();
        Ticket::confirm(message.unwrap_or_else(|| format!("Continue with '{tool_name}'?")))
    })
}
