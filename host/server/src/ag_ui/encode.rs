//! The event stream of AG-UI, from the updates of a run.

use super::agent_encoder::{AgentEncoder, id_in};
use super::state::SharedState;
use crate::agent_runs::{Encode, FeedEnd, KnownCall, ReplyText, sent_arguments};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tollgate::RunUpdate;
use tollgate::run::ChildUpdate;
use tollgate_agent::SmolStr;
use tollgate_agent::child::ChildStatus;
use tollgate_agent::run::event::{RunUsage, SuspendedCall};
use tollgate_agent::run::{Event, RunStatus, StoredEvent};
use tollgate_agent::state::StateChange;
use tollgate_agent::text::one_line;

/// The version of the protocol that streams of version 1.0 name.
const PROTOCOL_VERSION: &str = "1.0";
/// The maximum length of an error's message, in bytes.
const MAX_ERROR_BYTES: usize = 1_000;

/// The version of AG-UI for which a stream is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgUiVersion {
    /// A client that names no version, such as 0.0.59. It rejects events that it does not know.
    V0,
    /// Version 1.0.
    V1,
}

/// The parts of a stream that do not come from updates.
#[derive(Debug, Clone)]
pub(super) struct StreamInfo {
    /// The client's names of the thread and the run.
    pub(super) thread: String,
    pub(super) client_run: String,
    /// The run's own id.
    pub(super) run_id: String,
    pub(super) version: AgUiVersion,
    /// The address of the page where people decide.
    pub(super) decide_url: String,
    /// The messages that the client has.
    pub(super) messages: Vec<Value>,
    pub(super) state: SharedState,
    /// The members of the request that are not applied.
    pub(super) ignored: Vec<String>,
}

/// The place of a child: the run that asked for it, its call, and the number of the request.
type ChildPlace = (String, SmolStr, u32);

#[derive(Debug, Clone)]
struct Child {
    run_id: String,
    agent_id: String,
    /// The child that asked for this one; `None` if the run itself did.
    parent: Option<String>,
    call_id: SmolStr,
    /// The run's own call below which it works.
    root_call: SmolStr,
}

/// Translates the updates of a run into events.
pub(super) struct AgUiEncoder {
    about: StreamInfo,
    root: AgentEncoder,
    children: BTreeMap<ChildPlace, Child>,
    scopes: BTreeMap<String, AgentEncoder>,
    /// The children whose start this stream has reported, and those whose end it has not.
    announced: BTreeSet<String>,
    active: Vec<String>,
    has_started: bool,
    has_ended: bool,
    step: Option<u32>,
}

impl AgUiEncoder {
    /// Creates an encoder for the events that follow the earlier ones, which the client has.
    pub(super) fn after(about: StreamInfo, earlier: &[Arc<StoredEvent>], reply: ReplyText) -> Self {
        let root = AgentEncoder::new(&about.run_id, false, reply);
        let mut encoder = Self {
            about,
            root,
            children: BTreeMap::new(),
            scopes: BTreeMap::new(),
            announced: BTreeSet::new(),
            active: Vec::new(),
            has_started: false,
            has_ended: false,
            step: None,
        };
        for stored in earlier {
            encoder.root.skip(&stored.event);
            if let Some(change) = stored.event.change() {
                encoder.about.state.apply(change);
            }
            encoder.know_child(None, &stored.event);
        }
        encoder
    }

    fn start(&mut self, out: &mut Vec<Value>) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        let mut started = json!({
            "type": "RUN_STARTED",
            "threadId": self.about.thread,
            "runId": self.about.client_run,
        });
        if self.about.version == AgUiVersion::V1 {
            started["protocolVersion"] = json!(PROTOCOL_VERSION);
            started["metadata"] = json!({"tollgate": {"runId": self.about.run_id}});
        }
        out.push(started);
        if self.about.state.is_outdated() {
            out.push(self.state_snapshot());
        }
        if !self.about.ignored.is_empty() {
            let value = json!({"members": self.about.ignored});
            out.push(json!({"type": "CUSTOM", "name": "tollgate.not_applied", "value": value}));
        }
    }

    fn stored(&mut self, stored: &StoredEvent, out: &mut Vec<Value>) {
        match &stored.event {
            Event::StepStarted { step } => {
                self.finish_step(out);
                self.step = Some(*step);
                out.push(json!({"type": "STEP_STARTED", "stepName": step_name(*step)}));
            }
            Event::StepFinished { .. } => self.finish_step(out),
            Event::Transferred { from, agent, .. } => {
                let value = json!({"from": from, "to": agent.view.id});
                out.push(json!({"type": "CUSTOM", "name": "tollgate.transferred", "value": value}));
            }
            Event::RunFinished { status, text, usage } => self.run_finished(status, text, usage, out),
            _ => {}
        }
        self.root.stored(stored, out);
        self.lifecycle(None, &stored.event, out);
        if let Some(change) = stored.event.change() {
            self.changed(change, out);
        }
    }

    fn finish_step(&mut self, out: &mut Vec<Value>) {
        if let Some(step) = self.step.take() {
            self.root.close(out);
            out.push(json!({"type": "STEP_FINISHED", "stepName": step_name(step)}));
        }
    }

    /// Reports values of visible keys. Other values are not part of the event.
    fn changed(&mut self, change: &StateChange, out: &mut Vec<Value>) {
        let patch = self.about.state.apply(change);
        if !patch.is_empty() {
            out.push(json!({"type": "STATE_DELTA", "delta": patch}));
        }
    }

    fn know_child(&mut self, parent: Option<&str>, event: &Event) {
        let Event::ChildStarted { call_id, ordinal, child_run_id, agent_id, .. } = event else { return };
        let asker = parent.unwrap_or(&self.about.run_id).to_owned();
        let above = parent.and_then(|run_id| self.children.values().find(|child| child.run_id == run_id));
        let child = Child {
            run_id: child_run_id.clone(),
            agent_id: agent_id.clone(),
            parent: parent.map(str::to_owned),
            call_id: call_id.clone(),
            root_call: above.map_or(call_id, |above| &above.root_call).clone(),
        };
        self.children.insert((asker, call_id.clone(), *ordinal), child);
    }

    /// Reports the starts and ends of the children of the run, or of one of its children.
    fn lifecycle(&mut self, parent: Option<&str>, event: &Event, out: &mut Vec<Value>) {
        self.know_child(parent, event);
        let (call_id, ordinal) = match event {
            Event::ChildStarted { call_id, ordinal, .. }
            | Event::ChildWaiting { call_id, ordinal, .. }
            | Event::ChildFinished { call_id, ordinal, .. } => (call_id, *ordinal),
            _ => return,
        };
        let asker = parent.unwrap_or(&self.about.run_id).to_owned();
        let Some(child) = self.children.get(&(asker, call_id.clone(), ordinal)).cloned() else { return };
        if self.about.version == AgUiVersion::V0 {
            let status = match event {
                Event::ChildStarted { .. } => "running",
                Event::ChildWaiting { .. } => "waiting",
                _ => "ended",
            };
            let id = self.root.place(call_id, &format!("child-{ordinal}"));
            let content = json!({"agent": child.agent_id, "status": status});
            return self.root.activity(id, "tollgate.child", content, out);
        }
        self.announce(&child, out);
        // A child that waits is suspended once the run waits: its call has no interrupt before.
        let Event::ChildFinished { status, .. } = event else { return };
        let mut end = json!({"type": "SUBAGENT_FINISHED", "subagentRunId": child.run_id});
        match status.words() {
            None => end["outcome"] = json!({"type": "success"}),
            Some(words) => {
                end["type"] = json!("SUBAGENT_ERROR");
                end["message"] = json!(one_line(&words, MAX_ERROR_BYTES));
                end["code"] = json!(child_code(status));
            }
        }
        self.end_child(&child.run_id, end, out);
    }

    /// Reports the start of a child, unless this stream has done so.
    fn announce(&mut self, child: &Child, out: &mut Vec<Value>) {
        if !self.announced.insert(child.run_id.clone()) {
            return;
        }
        self.active.push(child.run_id.clone());
        let mut started = json!({
            "type": "SUBAGENT_STARTED",
            "subagentRunId": child.run_id,
            "name": child.agent_id,
            "parentToolCallId": id_in(child.parent.as_ref().unwrap_or(&self.about.run_id), &child.call_id),
        });
        if let Some(parent) = &child.parent {
            started["parentSubagentRunId"] = json!(parent);
        }
        out.push(started);
    }

    fn end_child(&mut self, run_id: &str, end: Value, out: &mut Vec<Value>) {
        if !self.active.iter().any(|active| active == run_id) {
            return;
        }
        if let Some(scope) = self.scopes.get_mut(run_id) {
            scope.close(out);
        }
        self.active.retain(|active| active != run_id);
        out.push(end);
    }

    /// Ends the children that are still active: their run rests or has ended.
    fn end_children(&mut self, out: &mut Vec<Value>) {
        for run_id in std::mem::take(&mut self.active).into_iter().rev() {
            if let Some(scope) = self.scopes.get_mut(&run_id) {
                scope.close(out);
            }
            let mut outcome = json!({"type": "suspended"});
            let interrupts = self.interrupts_of(&run_id);
            if !interrupts.is_empty() {
                outcome["interruptIds"] = json!(interrupts);
            }
            out.push(json!({"type": "SUBAGENT_FINISHED", "subagentRunId": run_id, "outcome": outcome}));
        }
    }

    /// Returns the interrupts that continue a child: the questions of the run's call above it.
    fn interrupts_of(&self, run_id: &str) -> Vec<String> {
        let child = self.children.values().find(|child| child.run_id == run_id);
        let waiting = self.root.calls.waiting();
        let waiting = waiting.filter(|(call, _)| child.is_some_and(|child| child.root_call == call.id));
        waiting.map(|(_, asked)| id_in(&self.about.run_id, &asked.suspension_id)).collect()
    }

    /// Translates an update of a child. `parent` is the child that asked for it, if any.
    fn child(&mut self, parent: Option<&str>, update: &ChildUpdate, out: &mut Vec<Value>) {
        if self.about.version == AgUiVersion::V0 {
            return;
        }
        let asker = parent.unwrap_or(&self.about.run_id).to_owned();
        let Some(child) = self.children.get(&(asker, update.call_id.clone(), update.ordinal)).cloned() else {
            return;
        };
        self.announce(&child, out);
        if !self.active.contains(&child.run_id) {
            return;
        }
        let scope = self
            .scopes
            .entry(child.run_id.clone())
            .or_insert_with(|| AgentEncoder::new(&child.run_id, true, ReplyText::default()));
        match update.child.as_ref() {
            RunUpdate::Stored(stored) => {
                scope.stored(stored, out);
                self.lifecycle(Some(&child.run_id), &stored.event, out);
            }
            RunUpdate::Live(live) => scope.live(live, out),
            RunUpdate::Child(update) => self.child(Some(&child.run_id), update, out),
        }
    }

    fn state_snapshot(&self) -> Value {
        json!({"type": "STATE_SNAPSHOT", "snapshot": self.about.state.snapshot()})
    }

    fn messages_snapshot(&self) -> Value {
        let messages: Vec<&Value> = self.about.messages.iter().chain(&self.root.messages).collect();
        json!({"type": "MESSAGES_SNAPSHOT", "messages": messages})
    }

    fn wait(&mut self, out: &mut Vec<Value>) {
        self.root.close(out);
        self.end_children(out);
        self.finish_step(out);
        out.push(self.state_snapshot());
        out.push(self.messages_snapshot());
        let waiting = self.root.calls.waiting();
        let interrupts: Vec<Value> = waiting.map(|(call, asked)| self.interrupt(call, asked)).collect();
        let outcome = json!({"type": "interrupt", "interrupts": interrupts});
        out.push(self.finished(outcome));
    }

    fn interrupt(&self, call: &KnownCall, asked: &SuspendedCall) -> Value {
        let is_gate = asked.gate.is_some();
        let mut interrupt = json!({
            "id": id_in(&self.about.run_id, &asked.suspension_id),
            "reason": if is_gate { "tool_call" } else { "input_required" },
            "message": asked.ticket.message,
            "toolCallId": self.root.call_id(&call.id),
            "metadata": {"tollgate": {
                "runId": self.about.run_id,
                "suspensionId": asked.suspension_id,
                "tool": call.tool_name,
                "gate": asked.gate,
                "action": asked.ticket.action,
                "parameters": asked.ticket.parameters,
                "arguments": sent_arguments(call.arguments.as_ref()),
                "decide_url": self.about.decide_url,
            }},
        });
        if let Some(schema) = asked.ticket.response_schema.as_ref().filter(|schema| schema.is_object()) {
            interrupt["responseSchema"] = schema.clone();
        }
        interrupt
    }

    fn finished(&self, outcome: Value) -> Value {
        json!({
            "type": "RUN_FINISHED",
            "threadId": self.about.thread,
            "runId": self.about.client_run,
            "outcome": outcome,
        })
    }

    fn run_finished(&mut self, status: &RunStatus, text: &str, usage: &RunUsage, out: &mut Vec<Value>) {
        self.has_ended = true;
        self.root.close(out);
        self.end_children(out);
        self.finish_step(out);
        let mut end = match status {
            RunStatus::Completed => {
                let mut end = self.finished(json!({"type": "success"}));
                end["result"] = json!({"text": text});
                end
            }
            RunStatus::Cancelled { .. } if self.about.version == AgUiVersion::V1 => {
                self.finished(json!({"type": "cancelled"}))
            }
            RunStatus::Cancelled { reason } => {
                error("cancelled", &format!("the run was cancelled: {reason}"))
            }
            RunStatus::Stopped { limit } => {
                error(&format!("stopped:{limit}"), &format!("the run reached its limit `{limit}`"))
            }
            RunStatus::Blocked { reason } => error("blocked", &format!("a gate ended the run: {reason}")),
            RunStatus::Failed { error: why } => error("failed", &format!("the run failed: {why}")),
        };
        if self.about.version == AgUiVersion::V1 {
            let tokens = usage.all_tokens();
            end["usage"] = json!([{
                "inputTokens": tokens.input_tokens,
                "outputTokens": tokens.output_tokens,
                "totalTokens": tokens.total(),
            }]);
        }
        out.push(end);
    }
}

impl Encode for AgUiEncoder {
    type Wire = Value;

    fn update(&mut self, update: &RunUpdate, out: &mut Vec<Value>) {
        if self.has_ended {
            return;
        }
        self.start(out);
        match update {
            RunUpdate::Stored(stored) => self.stored(stored, out),
            RunUpdate::Child(update) => self.child(None, update, out),
            RunUpdate::Live(live) => self.root.live(live, out),
        }
        if self.root.took_back() {
            out.push(self.messages_snapshot());
            out.push(json!({"type": "CUSTOM", "name": "tollgate.reply_restarted", "value": {}}));
        }
    }

    fn rejoined(&mut self) {
        self.root.rejoin();
        self.scopes.values_mut().for_each(AgentEncoder::rejoin);
    }

    fn ended(&mut self, end: FeedEnd, out: &mut Vec<Value>) {
        if self.has_ended {
            return;
        }
        self.start(out);
        match end.failure() {
            None => self.wait(out),
            Some((code, text)) => {
                self.root.close(out);
                self.end_children(out);
                self.finish_step(out);
                out.push(error(code, text));
            }
        }
    }
}

/// Returns the event of a run that ends without an answer.
pub(super) fn error(code: &str, message: &str) -> Value {
    json!({"type": "RUN_ERROR", "message": one_line(message, MAX_ERROR_BYTES), "code": code})
}

fn step_name(step: u32) -> String {
    format!("turn {step}")
}

fn child_code(status: &ChildStatus) -> &'static str {
    match status {
        ChildStatus::Completed => "completed",
        ChildStatus::WaitingInput(_) | ChildStatus::WaitingAuth(_) | ChildStatus::Suspended(_) => "waiting",
        ChildStatus::Failed(_) => "failed",
        ChildStatus::Cancelled => "cancelled",
        ChildStatus::Timeout => "timeout",
    }
}
