//! The output items of a response, folded from stored events.

use crate::agent_runs::{Calls, KnownCall};
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate_agent::message::{Finish, ModelReply, TokenUsage};
use tollgate_agent::run::event::{FinishedCall, SuspendedCall};
use tollgate_agent::run::{Event, RunStatus, StoredEvent, answer};
use tollgate_agent::text::one_line;

/// The maximum length of a message about a run, in bytes.
const MAX_MESSAGE_BYTES: usize = 1_000;

/// The status of a response.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ResponseStatus {
    InProgress,
    Completed,
    /// It reached a limit, or the model's reply was cut.
    Incomplete {
        /// The name of the limit, or the reason of the cut.
        reason: String,
        /// The explanation of the cut; `None` for a limit.
        message: Option<String>,
    },
    Cancelled,
    Failed {
        code: &'static str,
        message: String,
    },
}

impl ResponseStatus {
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            ResponseStatus::InProgress => "in_progress",
            ResponseStatus::Completed => "completed",
            ResponseStatus::Incomplete { .. } => "incomplete",
            ResponseStatus::Cancelled => "cancelled",
            ResponseStatus::Failed { .. } => "failed",
        }
    }
}

/// An item, with its position in the output.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ItemChange {
    /// The model replied. The items of its reasoning and its text follow in the output, if there
    /// are any.
    Replied(Arc<ModelReply>),
    /// A call began to run.
    CallAdded(usize),
    /// A call ended, or waits for a person.
    CallDone(usize),
    /// An item appeared that is complete.
    Appeared(usize),
}

/// The output of one response: a segment of a run, from its start or a decision to its next rest.
#[derive(Debug, Clone)]
pub(super) struct Output {
    run_id: String,
    decide_url: String,
    pub(super) items: Vec<Value>,
    pub(super) calls: Calls,
    /// The number of the model's replies in the run.
    pub(super) replies: u64,
    pub(super) status: ResponseStatus,
    pub(super) tokens: TokenUsage,
    pub(super) created_at_ms: u64,
    pub(super) completed_at_ms: Option<u64>,
    finish: Finish,
}

impl Output {
    /// Creates the output of the segment that follows these events of the run.
    pub(super) fn after<'a>(
        run_id: &str,
        decide_url: &str,
        earlier: impl IntoIterator<Item = &'a Arc<StoredEvent>>,
    ) -> Self {
        let mut output = Self {
            run_id: run_id.to_owned(),
            decide_url: decide_url.to_owned(),
            items: Vec::new(),
            calls: Calls::default(),
            replies: 0,
            status: ResponseStatus::InProgress,
            tokens: TokenUsage::default(),
            created_at_ms: 0,
            completed_at_ms: None,
            finish: Finish::Stop,
        };
        for event in earlier {
            output.calls.apply(&event.event);
            output.replies += u64::from(matches!(event.event, Event::ModelReplied { .. }));
        }
        output
    }

    /// Folds in an event of the segment. Returns the changes of items, in order.
    pub(super) fn apply(&mut self, stored: &StoredEvent) -> Vec<ItemChange> {
        self.calls.apply(&stored.event);
        if self.created_at_ms == 0 {
            self.created_at_ms = stored.at_ms;
        }
        match &stored.event {
            Event::ModelReplied { reply, .. } => {
                self.replied(reply);
                vec![ItemChange::Replied(Arc::clone(reply))]
            }
            Event::CallStarted { call_id, attempt, .. } => self.started(call_id, *attempt),
            Event::CallFinished(finished) => self.finish_call(finished),
            Event::CallSuspended(asked) => self.suspended(asked),
            Event::RunWaiting => {
                self.completed_at_ms = Some(stored.at_ms);
                self.status = ResponseStatus::Completed;
                self.questions()
            }
            Event::RunFinished { status, .. } => {
                self.completed_at_ms = Some(stored.at_ms);
                self.ended(status);
                Vec::new()
            }
            event => {
                if matches!(event, Event::StepStarted { .. }) {
                    self.finish = Finish::Stop;
                }
                self.status = ResponseStatus::InProgress;
                Vec::new()
            }
        }
    }

    /// Returns the id of the message with the reply of this number in the run, counted from 1.
    pub(super) fn message_id(&self, reply: u64) -> String {
        format!("msg_{}_{reply}", self.run_id)
    }

    /// Returns the id of that reply's reasoning.
    pub(super) fn reasoning_id(&self, reply: u64) -> String {
        format!("rs_{}_{reply}", self.run_id)
    }

    fn replied(&mut self, reply: &ModelReply) {
        self.replies += 1;
        self.finish = reply.finish;
        self.tokens = self.tokens.plus(reply.usage);
        if let Some(reasoning) = reply.message.reasoning.as_ref().filter(|text| !text.is_empty()) {
            let status = if reply.message.text.is_empty() { status_of(reply) } else { "completed" };
            self.items.push(reasoning_item(&self.reasoning_id(self.replies), Some(reasoning), status));
        }
        if !reply.message.text.is_empty() {
            let id = self.message_id(self.replies);
            self.items.push(message_item(&id, Some(&reply.message.text), status_of(reply)));
        }
    }

    fn started(&mut self, call_id: &str, _attempt: u32) -> Vec<ItemChange> {
        if self.open_call(call_id).is_some() {
            return Vec::new();
        }
        let added = self.add_call(call_id, "in_progress");
        added.map(ItemChange::CallAdded).into_iter().collect()
    }

    fn finish_call(&mut self, finished: &FinishedCall) -> Vec<ItemChange> {
        let mut changes = Vec::new();
        let open = self.open_call(&finished.call_id).or_else(|| {
            let added = self.add_call(&finished.call_id, "in_progress")?;
            changes.push(ItemChange::CallAdded(added));
            Some(added)
        });
        let Some(at) = open else { return changes };
        let answer = answer::answer(&finished.call_id, &finished.tool_name, &finished.end);
        let item = &mut self.items[at];
        if answer.is_error {
            let content = json!([{"type": "text", "text": answer.content}]);
            item["error"] = json!({"type": "mcp_tool_execution_error", "content": content});
            item["status"] = json!("failed");
        } else {
            item["output"] = json!(answer.content);
            item["status"] = json!("completed");
        }
        changes.push(ItemChange::CallDone(at));
        changes
    }

    /// Closes the item of a call that waits. The next response has an item for its end.
    fn suspended(&mut self, asked: &SuspendedCall) -> Vec<ItemChange> {
        let Some(at) = self.open_call(&asked.call_id) else { return Vec::new() };
        self.items[at]["status"] = json!("incomplete");
        vec![ItemChange::CallDone(at)]
    }

    /// Adds the open questions: a request for approval each, and a message for the person.
    fn questions(&mut self) -> Vec<ItemChange> {
        let mut new = Vec::new();
        for (call, asked) in self.calls.waiting() {
            new.push(approval_request(call, asked, &self.decide_url));
            let asks = tollgate_agent::question::asks(asked);
            let text = one_line(&format!("{asks}: {}", asked.ticket.message), MAX_MESSAGE_BYTES);
            let text = format!("{text}\nDecide at {}", self.decide_url);
            let id = format!("msg_{}_{}", self.run_id, asked.suspension_id.replace('/', "_"));
            new.push(message_item(&id, Some(&text), "completed"));
        }
        let first = self.items.len();
        self.items.append(&mut new);
        (first..self.items.len()).map(ItemChange::Appeared).collect()
    }

    fn ended(&mut self, status: &RunStatus) {
        let words = |text: &str| one_line(text, MAX_MESSAGE_BYTES);
        self.status = match status {
            RunStatus::Completed => ResponseStatus::Completed,
            RunStatus::Stopped { limit } => {
                ResponseStatus::Incomplete { reason: limit.clone(), message: None }
            }
            RunStatus::Cancelled { .. } => ResponseStatus::Cancelled,
            RunStatus::Blocked { reason } => ResponseStatus::Failed {
                code: "blocked",
                message: words(&format!("a gate ended the run: {reason}")),
            },
            RunStatus::Failed { error } => match cut(self.finish) {
                // The client has what the model wrote until it was cut off.
                Some(reason) => {
                    ResponseStatus::Incomplete { reason: reason.to_owned(), message: Some(words(error)) }
                }
                None => ResponseStatus::Failed { code: "server_error", message: words(error) },
            },
        };
    }

    /// Returns the position of the call's item that is not complete.
    fn open_call(&self, call_id: &str) -> Option<usize> {
        self.items.iter().position(|item| {
            item["type"] == "mcp_call" && item["id"] == call_id && item["status"] == "in_progress"
        })
    }

    fn add_call(&mut self, call_id: &str, status: &str) -> Option<usize> {
        let call = self.calls.get(call_id)?;
        self.items.push(json!({
            "id": call.id,
            "type": "mcp_call",
            "status": status,
            "name": call.tool_name,
            "arguments": call.arguments_text(),
            "server_label": server_label(call),
            "approval_request_id": call.answered,
            "output": null,
            "error": null,
        }));
        Some(self.items.len() - 1)
    }
}

/// Returns the reason for which a reply was cut, in OpenAI's words; `None` if it is whole.
fn cut(finish: Finish) -> Option<&'static str> {
    match finish {
        Finish::Stop => None,
        Finish::Length => Some("max_output_tokens"),
        Finish::Filtered => Some("content_filter"),
    }
}

/// Returns the status of a reply's message.
pub(super) fn status_of(reply: &ModelReply) -> &'static str {
    if cut(reply.finish).is_some() { "incomplete" } else { "completed" }
}

fn server_label(call: &KnownCall) -> &str {
    call.owner.as_deref().unwrap_or("unknown")
}

fn approval_request(call: &KnownCall, asked: &SuspendedCall, decide_url: &str) -> Value {
    json!({
        "id": asked.suspension_id,
        "type": "mcp_approval_request",
        "name": call.tool_name,
        "arguments": call.arguments_text(),
        "server_label": server_label(call),
        "tollgate": {
            "gate": asked.gate,
            "action": asked.ticket.action,
            "message": asked.ticket.message,
            "parameters": asked.ticket.parameters,
            "response_schema": asked.ticket.response_schema,
            "url": decide_url,
        },
    })
}

/// Returns the item of a message; without a text, it has no content yet.
pub(super) fn message_item(id: &str, text: Option<&str>, status: &str) -> Value {
    let content: Vec<Value> = text.map(text_part).into_iter().collect();
    json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content})
}

/// Returns the item of reasoning; without a text, it has no content yet.
pub(super) fn reasoning_item(id: &str, text: Option<&str>, status: &str) -> Value {
    let part = |text| json!({"type": "reasoning_text", "text": text});
    let content: Vec<Value> = text.map(part).into_iter().collect();
    json!({"id": id, "type": "reasoning", "summary": [], "status": status, "content": content})
}

/// Returns the part of a message with this text.
pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}
