//! Events in the making: what one input leads to, call by call.
//!
//! A draft looks at the run as it stands and keeps beside it what the events so
//! far would change: the calls' statuses, the state, the batch.

use super::call::Call;
use super::event::{Event, Finished, Proposed, RunStatus, Suspended, ToolVersion};
use super::spec::{MAX_SUSPENSIONS, RunSpec, Task};
use super::{CallEnd, CallStatus, Phase, Run};
use crate::catalog::Catalog;
use crate::code::Code;
use crate::message::ModelReply;
use crate::outcome::{Fault, Ticket, Usage};
use crate::schema::Schema;
use crate::state::{State, StateChange};
use crate::text::clean;
use std::sync::Arc;

impl From<Fault> for CallEnd {
    fn from(fault: Fault) -> Self {
        CallEnd::Fault(fault)
    }
}

pub(super) struct Draft<'a> {
    pub(super) run: &'a Run,
    pub(super) catalog: &'a Catalog,
    pub(super) now_ms: u64,
    pub(super) events: Vec<Event>,
    /// Each call's status as it will be; grows with calls that are proposed here.
    statuses: Vec<(String, CallStatus)>,
    ends: Vec<(String, bool)>,
    pub(super) state: State,
    pub(super) changes: Vec<StateChange>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(run: &'a Run, catalog: &'a Catalog, now_ms: u64) -> Self {
        Self {
            run,
            catalog,
            now_ms,
            events: Vec::new(),
            statuses: run.calls().iter().map(|c| (c.id.clone(), c.status)).collect(),
            ends: Vec::new(),
            state: run.state.clone(),
            changes: Vec::new(),
        }
    }

    pub(super) fn catalog(&self) -> &'a Catalog {
        self.catalog
    }

    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// A person let the call go on.
    pub(super) fn resume(&mut self, call_id: &str) {
        self.set_status(call_id, CallStatus::Resuming);
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// A call joins the turn; one that cannot run is answered at once.
    pub(super) fn propose(&mut self, proposed: Proposed) {
        let (call_id, fault) = (proposed.call_id.clone(), proposed.fault.clone());
        let tool_name = proposed.tool_name.clone();
        self.statuses.push((call_id.clone(), CallStatus::New));
        self.push(Event::CallProposed(proposed));
        if let Some(fault) = fault {
            self.finish_named(&call_id, &tool_name, fault.into(), None, Vec::new(), Usage::default());
        }
    }

    pub(super) fn validated(&mut self, call_id: &str, fault: Option<Fault>) {
        let Some(call) = self.call(call_id).filter(|call| call.wants_judgement()) else {
            return;
        };
        self.push(Event::CallValidated { call_id: call.id.clone(), fault: fault.clone() });
        if let Some(fault) = fault {
            self.finish_call(call_id, fault);
            self.settle();
        }
    }

    pub(super) fn suspend(
        &mut self,
        call: &Call,
        ticket: Ticket,
        gate: Option<String>,
        change: Option<StateChange>,
        usage: Usage,
    ) {
        let refused = if call.suspensions >= MAX_SUSPENSIONS {
            Some(format!(
                "'{}' asked {MAX_SUSPENSIONS} times for a decision; that is the limit.",
                call.tool_name
            ))
        } else {
            let schema = ticket.response_schema.as_ref().map(Schema::compile);
            schema
                .and_then(Result::err)
                .map(|e| format!("The question of '{}' cannot be asked: {e}.", call.tool_name))
        };
        if let Some(why) = refused {
            let fault = Fault::new(Code::MalformedOutput, why);
            return self.finish_named(&call.id, &call.tool_name, fault.into(), change, Vec::new(), usage);
        }
        self.set_status(&call.id, CallStatus::Suspended);
        self.push(Event::CallSuspended(Suspended {
            call_id: call.id.clone(),
            suspension_id: format!("{}/{}", call.id, call.suspensions + 1),
            tool_name: call.tool_name.clone(),
            ticket: Ticket {
                action: clean(&ticket.action, 64),
                message: clean(&ticket.message, 4 * 1024),
                ..ticket
            },
            owner: call.version.clone(),
            gate,
            change,
            usage,
        }));
    }

    /// A call that was approved on a version of its tool that is gone asks again
    /// on the one that is there. False where there is none.
    pub(super) fn ask_again(&mut self, call: &Call) -> bool {
        let (Some(asked), Some(tool)) = (&call.suspended, self.catalog.tool(&call.tool_name)) else {
            return false;
        };
        let owner = Some(ToolVersion { id: tool.owner.id.clone(), version: tool.owner.version.clone() });
        let suspension_id = format!("{}/{}", call.id, call.suspensions + 1);
        let again =
            Suspended { owner, suspension_id, change: None, usage: Usage::default(), ..(**asked).clone() };
        self.push(Event::CallSuspended(again));
        true
    }

    pub(super) fn finish_call(&mut self, call_id: &str, end: impl Into<CallEnd>) {
        let tool_name = self.call(call_id).map(|call| call.tool_name.clone()).unwrap_or_default();
        self.finish_named(call_id, &tool_name, end.into(), None, Vec::new(), Usage::default());
    }

    pub(super) fn finish_named(
        &mut self,
        call_id: &str,
        tool_name: &str,
        end: CallEnd,
        change: Option<StateChange>,
        notes: Vec<String>,
        usage: Usage,
    ) {
        self.set_status(call_id, end.status());
        self.ends.push((tool_name.to_owned(), end.status() == CallStatus::Succeeded));
        let (call_id, tool_name) = (call_id.to_owned(), tool_name.to_owned());
        self.push(Event::CallFinished(Finished { call_id, tool_name, end, change, notes, usage }));
    }

    pub(super) fn finish_open_calls(&mut self, code: Code, message: &str) {
        let open: Vec<String> =
            self.statuses.iter().filter(|(_, s)| !s.is_final()).map(|(id, _)| id.clone()).collect();
        for call_id in open {
            let name = self.name_of(&call_id);
            self.finish_named(
                &call_id,
                &name,
                Fault::new(code, message).into(),
                None,
                Vec::new(),
                Usage::default(),
            );
        }
    }

    /// Answers every open call and ends the run.
    pub(super) fn end_early(&mut self, code: Code, status: RunStatus) {
        if self.run.is_finished() || self.run.phase == Phase::New {
            return;
        }
        let message = match &status {
            RunStatus::Cancelled { reason } => format!("The run was cancelled: {reason}"),
            RunStatus::Stopped { limit } => {
                format!("The run met its limit {limit}, so this call was not run to its end.")
            }
            _ => "The run ended before this call could run.".to_owned(),
        };
        self.finish_open_calls(code, &message);
        if !self.statuses.is_empty() {
            self.push(Event::StepFinished { step: self.run.step });
        }
        self.finish_run(status);
    }

    pub(super) fn finish_run(&mut self, status: RunStatus) {
        let said = self.events.iter().find_map(|event| match event {
            Event::ModelReplied { reply, .. } => Some(format!("{}{}", self.run.carried, reply.message.text)),
            _ => None,
        });
        self.finish_run_with(status, said.unwrap_or_else(|| self.run.last_text.clone()));
    }

    pub(super) fn finish_run_with(&mut self, status: RunStatus, text: String) {
        let mut usage = self.run.usage;
        for event in &self.events {
            match event {
                Event::ModelReplied { reply, .. } => usage.tokens = usage.tokens.plus(reply.usage),
                Event::CallProposed(_) => usage.calls += 1,
                Event::CallFinished(f) => usage.tools = usage.tools.plus(f.usage),
                Event::CallSuspended(s) => usage.tools = usage.tools.plus(s.usage),
                Event::CallConflicted { usage: used, .. } => usage.tools = usage.tools.plus(*used),
                _ => {}
            }
        }
        self.push(Event::RunFinished { status, text, usage });
    }

    pub(super) fn repeats_too_often(&self, reply: &ModelReply) -> bool {
        self.run.repetitions(reply) >= self.run.spec.limits.identical_turns.max(1)
    }

    pub(super) fn next_step(&mut self) {
        self.push(Event::StepStarted { step: self.run.step + 1 });
    }

    /// Ends the turn where the last of its calls has ended, and says what follows.
    pub(super) fn settle(&mut self) {
        self.settle_as(&Arc::clone(&self.run.spec));
    }

    pub(super) fn settle_as(&mut self, spec: &RunSpec) {
        if self.events.iter().any(|event| matches!(event, Event::RunFinished { .. })) {
            return;
        }
        let going_on = |status: CallStatus| !status.is_final() && status != CallStatus::Suspended;
        if self.statuses.iter().any(|(_, status)| going_on(*status)) {
            return;
        }
        if self.statuses.iter().any(|(_, status)| *status == CallStatus::Suspended) {
            return self.push(Event::RunWaiting);
        }
        self.push(Event::StepFinished { step: self.run.step });
        match &spec.task {
            Task::Call { .. } => self.finish_run(RunStatus::Completed),
            Task::Prompt(_) => match self.limit_met(spec) {
                Some(limit) => self.finish_run(RunStatus::Stopped { limit }),
                None => self.next_step(),
            },
        }
    }

    fn limit_met(&self, spec: &RunSpec) -> Option<String> {
        let limits = &spec.limits;
        let succeeded = |name: &String| {
            self.ends.iter().any(|(n, ok)| *ok && n == name)
                || self.run.calls().iter().any(|c| c.status == CallStatus::Succeeded && &c.tool_name == name)
        };
        if limits.stop_on_tools.iter().any(succeeded) {
            return Some("stop_on_tools".to_owned());
        }
        if limits.tokens.is_some_and(|most| self.run.usage.tokens.total() >= most) {
            return Some("tokens".to_owned());
        }
        (self.run.step >= limits.model_turns).then(|| "model_turns".to_owned())
    }

    pub(super) fn call(&self, call_id: &str) -> Option<&'a Call> {
        self.run.calls().iter().find(|call| call.id == call_id)
    }

    fn name_of(&self, call_id: &str) -> String {
        let proposed = self.events.iter().find_map(|event| match event {
            Event::CallProposed(p) if p.call_id == call_id => Some(p.tool_name.clone()),
            _ => None,
        });
        proposed.or_else(|| self.call(call_id).map(|c| c.tool_name.clone())).unwrap_or_default()
    }

    pub(super) fn set_status(&mut self, call_id: &str, status: CallStatus) {
        if let Some((_, place)) = self.statuses.iter_mut().find(|(id, _)| id == call_id) {
            *place = status;
        }
    }
}
