//! The AG-UI events of one agent within a stream: of the run itself, or of a child.

use crate::agent_runs::{Calls, Piece, ReplyText, Rest};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tollgate::LiveContent;
use tollgate::run::LiveUpdate;
use tollgate::tools::Report;
use tollgate_agent::message::ModelReply;
use tollgate_agent::run::event::FinishedCall;
use tollgate_agent::run::{Event, StoredEvent, answer};

/// The prefix of the kinds of the host's own activities.
const HOST_KINDS: &str = "tollgate.";

/// Translates the replies, calls and reports of one agent.
pub(super) struct AgentEncoder {
    run_id: String,
    /// Whether every event names this run as a sub-agent.
    is_child: bool,
    reply: ReplyText,
    pub(super) calls: Calls,
    /// The number of the model's replies.
    replies: u64,
    /// How often the current reply started anew.
    restarts: u32,
    open: Option<OpenMessage>,
    /// Whether text of the current reply was sent. Reasoning after text is not sent.
    has_text: bool,
    /// Whether a message that the client has became void since [`took_back`](Self::took_back) was
    /// last called.
    took_back: bool,
    /// The messages of the agent since the stream began, as a snapshot has them.
    pub(super) messages: Vec<Value>,
    /// The activities that the client has.
    activities: BTreeSet<String>,
}

#[derive(Debug)]
struct OpenMessage {
    is_text: bool,
    id: String,
}

impl AgentEncoder {
    pub(super) fn new(run_id: &str, is_child: bool, reply: ReplyText) -> Self {
        Self {
            run_id: run_id.to_owned(),
            is_child,
            reply,
            calls: Calls::default(),
            replies: 0,
            restarts: 0,
            open: None,
            has_text: false,
            took_back: false,
            messages: Vec::new(),
            activities: BTreeSet::new(),
        }
    }

    /// Folds in an event that the client has already.
    pub(super) fn skip(&mut self, event: &Event) {
        self.calls.apply(event);
        self.replies += u64::from(matches!(event, Event::ModelReplied { .. }));
    }

    /// Records that the stream was interrupted, so that pieces of the current reply may be missing.
    pub(super) fn rejoin(&mut self) {
        self.reply.rejoin();
    }

    /// Translates a stored event. Lifecycles of runs and children are not part of this.
    pub(super) fn stored(&mut self, stored: &StoredEvent, out: &mut Vec<Value>) {
        self.calls.apply(&stored.event);
        match &stored.event {
            Event::ModelReplied { reply, .. } => self.replied(reply, out),
            Event::CallStarted { call_id, attempt, .. } => self.call_started(call_id, *attempt, out),
            Event::CallRetried { call_id, attempt, fault, .. } => {
                let patch = json!([{"op": "add", "path": "/retried", "value": {
                    "attempt": attempt, "code": fault.code,
                }}]);
                self.call_delta(call_id, patch, out);
            }
            Event::CallFinished(finished) => self.call_finished(finished, out),
            Event::CallHooked { answers, .. } => {
                for answer in answers {
                    for event in &answer.events {
                        let name = format!("{}.{}", answer.plugin, event.name);
                        let custom = json!({"type": "CUSTOM", "name": name, "value": event.data});
                        self.emit(custom, out);
                    }
                }
            }
            _ => {}
        }
    }

    /// Translates a transient event.
    pub(super) fn live(&mut self, live: &LiveUpdate, out: &mut Vec<Value>) {
        match self.reply.live(live) {
            Some(Piece::Text(text)) => self.write(true, text, out),
            Some(Piece::Reasoning(text)) => self.write(false, text, out),
            Some(Piece::Restarted) => self.take_back(out),
            None => {}
        }
        if let LiveContent::CallReport { call_id, report, .. } = &live.piece {
            self.report(call_id, report, out);
        }
    }

    /// Returns whether a message that the client has became void since the last call.
    pub(super) fn took_back(&mut self) -> bool {
        std::mem::take(&mut self.took_back)
    }

    /// Ends the open message.
    pub(super) fn close(&mut self, out: &mut Vec<Value>) {
        let Some(OpenMessage { is_text, id }) = self.open.take() else { return };
        match is_text {
            true => self.emit(json!({"type": "TEXT_MESSAGE_END", "messageId": id}), out),
            false => {
                self.emit(json!({"type": "REASONING_MESSAGE_END", "messageId": id}), out);
                self.emit(json!({"type": "REASONING_END", "messageId": id}), out);
            }
        }
    }

    /// Returns the id of the message with the current reply; `replies` counts those before it.
    fn message_id(&self, replies: u64) -> String {
        match self.restarts {
            0 => format!("{}/{}", self.run_id, replies + 1),
            restarts => format!("{}/{}r{restarts}", self.run_id, replies + 1),
        }
    }

    /// Gives up what was sent of the current reply. The reply that follows is another message.
    fn take_back(&mut self, out: &mut Vec<Value>) {
        self.close(out);
        (self.restarts, self.has_text, self.took_back) = (self.restarts + 1, false, true);
    }

    /// Sends a piece of text or reasoning, in the open message if that has the same kind.
    fn write(&mut self, is_text: bool, text: &str, out: &mut Vec<Value>) {
        if text.is_empty() || (!is_text && self.has_text) {
            return;
        }
        self.has_text |= is_text;
        if self.open.as_ref().is_some_and(|open| open.is_text != is_text) {
            self.close(out);
        }
        if self.open.is_none() {
            self.open(is_text, out);
        }
        let kind = if is_text { "TEXT_MESSAGE_CONTENT" } else { "REASONING_MESSAGE_CONTENT" };
        let id = self.open.as_ref().map(|open| open.id.clone()).unwrap_or_default();
        self.emit(json!({"type": kind, "messageId": id, "delta": text}), out);
    }

    fn open(&mut self, is_text: bool, out: &mut Vec<Value>) {
        let mut id = self.message_id(self.replies);
        match is_text {
            true => {
                let start = json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"});
                self.emit(start, out);
            }
            false => {
                id.push_str("/reasoning");
                self.emit(json!({"type": "REASONING_START", "messageId": id}), out);
                let start = json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"});
                self.emit(start, out);
            }
        }
        self.open = Some(OpenMessage { is_text, id });
    }

    /// Sends the rest of a reply, and its calls.
    fn replied(&mut self, reply: &ModelReply, out: &mut Vec<Value>) {
        let (reasoning, text) = self.reply.unsent_parts(reply);
        match text {
            Rest::Append(rest) => {
                // Reasoning that changed after it was sent stays as it is.
                if let Rest::Append(reasoning) = reasoning {
                    self.write(false, &reasoning, out);
                }
                self.write(true, &rest, out);
            }
            Rest::Replace(whole) => {
                self.take_back(out);
                self.write(true, &whole, out);
            }
        }
        self.close(out);
        let id = self.message_id(self.replies);
        for call in reply.message.calls.iter() {
            let call_id = self.call_id(&call.id);
            self.emit(
                json!({
                    "type": "TOOL_CALL_START",
                    "toolCallId": call_id,
                    "toolCallName": call.name,
                    "parentMessageId": id,
                }),
                out,
            );
            if !call.arguments.is_empty() {
                let delta = &call.arguments;
                self.emit(json!({"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": delta}), out);
            }
            self.emit(json!({"type": "TOOL_CALL_END", "toolCallId": call_id}), out);
        }
        self.remember(&id, reply);
        (self.replies, self.restarts, self.has_text) = (self.replies + 1, 0, false);
    }

    /// Adds a reply to the messages of a snapshot.
    fn remember(&mut self, id: &str, reply: &ModelReply) {
        let message = &reply.message;
        if message.text.is_empty() && message.calls.is_empty() {
            return;
        }
        let mut remembered = json!({"id": id, "role": "assistant"});
        if !message.text.is_empty() {
            remembered["content"] = json!(message.text);
        }
        if !message.calls.is_empty() {
            let calls = message.calls.iter().map(|call| {
                json!({
                    "id": self.call_id(&call.id),
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                })
            });
            remembered["toolCalls"] = calls.collect();
        }
        self.messages.push(remembered);
    }

    fn call_finished(&mut self, finished: &FinishedCall, out: &mut Vec<Value>) {
        let answer = answer::answer(&finished.call_id, &finished.tool_name, &finished.end);
        let id = self.place(&finished.call_id, "result");
        let (call_id, content) = (self.call_id(&finished.call_id), &answer.content);
        let message = json!({"id": id, "role": "tool", "toolCallId": call_id, "content": content});
        self.messages.push(message);
        self.emit(
            json!({
                "type": "TOOL_CALL_RESULT",
                "messageId": id,
                "toolCallId": call_id,
                "content": content,
                "role": "tool",
            }),
            out,
        );
    }

    fn call_started(&mut self, call_id: &str, attempt: u32, out: &mut Vec<Value>) {
        let Some(call) = self.calls.get(call_id) else { return };
        let content = json!({
            "toolCallId": self.call_id(call_id),
            "tool": call.tool_name,
            "attempt": attempt,
            "progress": null,
            "message": null,
            "output": [],
        });
        self.activity(self.place(call_id, "call"), "tollgate.call", content, out);
    }

    fn call_delta(&mut self, call_id: &str, patch: Value, out: &mut Vec<Value>) {
        let id = self.place(call_id, "call");
        if self.activities.contains(&id) {
            self.emit(delta(&id, "tollgate.call", patch), out);
        }
    }

    fn report(&mut self, call_id: &str, report: &Report, out: &mut Vec<Value>) {
        match report {
            // No tool may imitate the host's.
            Report::Activity { kind, .. } | Report::ActivityDelta { kind, .. }
                if kind.starts_with(HOST_KINDS) => {}
            Report::Activity { kind, content } => {
                let content = match serde_json::from_str(content) {
                    Ok(Value::Object(content)) => content,
                    _ => Map::from_iter([("content".to_owned(), json!(content))]),
                };
                self.activity(self.activity_of(call_id, kind), kind, Value::Object(content), out);
            }
            Report::ActivityDelta { kind, patch } => {
                let id = self.activity_of(call_id, kind);
                if self.activities.contains(&id) {
                    self.emit(delta(&id, kind, patch.clone()), out);
                }
            }
            Report::Progress { message, progress, .. } => {
                let patch = json!([
                    {"op": "replace", "path": "/progress", "value": progress},
                    {"op": "replace", "path": "/message", "value": message},
                ]);
                self.call_delta(call_id, patch, out);
            }
            Report::Output(text) => {
                let patch = json!([{"op": "add", "path": "/output/-", "value": text}]);
                self.call_delta(call_id, patch, out);
            }
            // Log lines are for the operator. The end of a child has its own event.
            Report::Log { .. } | Report::ChildError { .. } => {}
        }
    }

    /// Shows an activity, in place of the earlier one with this id.
    pub(super) fn activity(&mut self, id: String, kind: &str, content: Value, out: &mut Vec<Value>) {
        self.emit(
            json!({
                "type": "ACTIVITY_SNAPSHOT",
                "messageId": id,
                "activityType": kind,
                "content": content,
                "replace": true,
            }),
            out,
        );
        self.activities.insert(id);
    }

    /// Returns the id under which the client knows a call. The ids of a run are its own: calls of
    /// children and of other runs of the thread may have the same.
    pub(super) fn call_id(&self, call_id: &str) -> String {
        id_in(&self.run_id, call_id)
    }

    /// Returns the id of an activity that a tool reports. It differs from all ids of the host.
    fn activity_of(&self, call_id: &str, kind: &str) -> String {
        self.place(call_id, &format!("activity/{kind}"))
    }

    /// Returns the id of something that belongs to a call.
    pub(super) fn place(&self, call_id: &str, what: &str) -> String {
        format!("{}/{what}", self.call_id(call_id))
    }

    /// Sends an event, as that of a sub-agent if this is a child.
    pub(super) fn emit(&self, mut event: Value, out: &mut Vec<Value>) {
        if self.is_child {
            event["subagentRunId"] = json!(self.run_id);
        }
        out.push(event);
    }
}

/// Returns the id under which the client knows a call or a question of a run.
pub(super) fn id_in(run_id: &str, id: &str) -> String {
    format!("{run_id}/{id}")
}

fn delta(id: &str, kind: &str, patch: Value) -> Value {
    json!({"type": "ACTIVITY_DELTA", "messageId": id, "activityType": kind, "patch": patch})
}
