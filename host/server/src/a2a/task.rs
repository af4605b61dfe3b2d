//! Tasks, derived from the records of their runs.

use crate::agent_runs::{Calls, OwnRun, sent_arguments};
use jiff::Timestamp;
use serde_json::{Value, json};
use tollgate_agent::run::{Event, RunStatus, StoredEvent};
use tollgate_agent::text::one_line;

/// The id of the artifact with the agent's text.
pub(super) const ANSWER: &str = "answer";
/// The maximum length of a status message, in bytes.
const MAX_MESSAGE_BYTES: usize = 1_000;

/// A task, folded from the events of its run.
#[derive(Debug, Clone)]
pub(super) struct TaskView {
    pub(super) task_id: String,
    pub(super) context_id: String,
    decide_url: String,
    pub(super) calls: Calls,
    status: Status,
    changed_at_ms: u64,
    /// The text of all replies, with an empty line between two turns.
    pub(super) text: String,
    history: Vec<Value>,
}

#[derive(Debug, Clone)]
enum Status {
    Working,
    Waiting,
    Ended(RunStatus),
}

impl TaskView {
    /// Returns a task without events.
    pub(super) fn new(task_id: &str, context_id: &str, decide_url: &str) -> Self {
        Self {
            task_id: task_id.to_owned(),
            context_id: context_id.to_owned(),
            decide_url: decide_url.to_owned(),
            calls: Calls::default(),
            status: Status::Working,
            changed_at_ms: 0,
            text: String::new(),
            history: Vec::new(),
        }
    }

    /// Returns the task of a run.
    pub(super) fn of(run: &OwnRun, decide_url: &str) -> Self {
        let mut view = Self::new(&run.run_id, &run.thread, decide_url);
        run.events.iter().for_each(|event| view.apply(event));
        view
    }

    /// Applies one event of the run.
    pub(super) fn apply(&mut self, stored: &StoredEvent) {
        self.calls.apply(&stored.event);
        self.changed_at_ms = stored.at_ms;
        let message_id = format!("{}/{}", self.task_id, stored.number);
        match &stored.event {
            Event::MessageAdded { text } => {
                self.history.push(self.message(&message_id, "ROLE_USER", vec![json!({"text": text})]));
            }
            Event::ModelReplied { reply, .. } if !reply.message.text.is_empty() => {
                let text = &reply.message.text;
                self.history.push(self.message(&message_id, "ROLE_AGENT", vec![json!({"text": text})]));
                self.text = joined(&self.text, text);
            }
            _ => {}
        }
        self.status = match &stored.event {
            Event::RunWaiting => Status::Waiting,
            Event::RunFinished { status, .. } => Status::Ended(status.clone()),
            _ => Status::Working,
        };
    }

    /// Returns whether a gate's question is open. Only another principal can decide it.
    pub(super) fn waits_for_gate(&self) -> bool {
        self.calls.waiting().any(|(_, asked)| asked.asking_gate().is_some())
    }

    /// Returns the name of the task's state.
    pub(super) fn state(&self) -> &'static str {
        match &self.status {
            Status::Working => "TASK_STATE_WORKING",
            Status::Waiting if self.waits_for_gate() => "TASK_STATE_AUTH_REQUIRED",
            Status::Waiting => "TASK_STATE_INPUT_REQUIRED",
            Status::Ended(status) => match status {
                RunStatus::Completed => "TASK_STATE_COMPLETED",
                RunStatus::Cancelled { .. } => "TASK_STATE_CANCELED",
                RunStatus::Blocked { .. } => "TASK_STATE_REJECTED",
                RunStatus::Stopped { .. } | RunStatus::Failed { .. } => "TASK_STATE_FAILED",
            },
        }
    }

    /// Returns the status of the task, with the question or the reason of its end.
    pub(super) fn status(&self) -> Value {
        let parts = match &self.status {
            Status::Working => None,
            Status::Waiting => Some(self.questions()),
            Status::Ended(status) => {
                let words = match status {
                    RunStatus::Completed => None,
                    RunStatus::Cancelled { reason } => Some(format!("the run was cancelled: {reason}")),
                    RunStatus::Blocked { reason } => Some(format!("a gate ended the run: {reason}")),
                    RunStatus::Stopped { limit } => Some(format!("the run reached its limit `{limit}`")),
                    RunStatus::Failed { error } => Some(format!("the run failed: {error}")),
                };
                words.map(|words| vec![json!({"text": one_line(&words, MAX_MESSAGE_BYTES)})])
            }
        };
        let mut status = json!({"state": self.state(), "timestamp": timestamp(self.changed_at_ms)});
        if let Some(parts) = parts {
            let id = format!("{}/status/{}", self.task_id, self.changed_at_ms);
            status["message"] = self.message(&id, "ROLE_AGENT", parts);
        }
        status
    }

    /// Returns the open questions: a text for people, and data for programs.
    fn questions(&self) -> Vec<Value> {
        let (mut lines, mut questions) = (Vec::new(), Vec::new());
        for (call, asked) in self.calls.waiting() {
            let asks = tollgate_agent::question::asks(asked);
            lines.push(one_line(&format!("{asks}: {}", asked.ticket.message), MAX_MESSAGE_BYTES));
            // The call that waits is the child's, if a child asks.
            let (tool, arguments) = match &asked.child {
                Some(child) => (&child.tool_name, &child.arguments),
                None => (&call.tool_name, &call.arguments),
            };
            questions.push(json!({
                "suspension_id": asked.suspension_id,
                "tool": tool,
                "gate": asked.asking_gate(),
                "action": asked.ticket.action,
                "message": asked.ticket.message,
                "arguments": sent_arguments(arguments.as_ref()),
                "parameters": asked.ticket.parameters,
                "response_schema": asked.ticket.response_schema,
                "decide_url": self.decide_url,
            }));
        }
        if self.waits_for_gate() {
            lines.push(format!("Decide at {}", self.decide_url));
        }
        vec![json!({"text": lines.join("\n")}), json!({"data": {"questions": questions}})]
    }

    /// Returns the whole task, with the last `history_length` messages of its history, or all of them.
    pub(super) fn task(&self, history_length: Option<usize>, has_artifacts: bool) -> Value {
        let mut task = json!({"id": self.task_id, "contextId": self.context_id, "status": self.status()});
        if has_artifacts && !self.text.is_empty() {
            task["artifacts"] = json!([artifact(&self.text)]);
        }
        let skipped = history_length.map_or(0, |length| self.history.len().saturating_sub(length));
        let history = &self.history[skipped..];
        if !history.is_empty() {
            task["history"] = json!(history);
        }
        task
    }

    /// Returns a message of the task.
    pub(super) fn message(&self, id: &str, role: &str, parts: Vec<Value>) -> Value {
        json!({
            "messageId": id,
            "contextId": self.context_id,
            "taskId": self.task_id,
            "role": role,
            "parts": parts,
        })
    }
}

/// Returns the artifact with this text.
pub(super) fn artifact(text: &str) -> Value {
    json!({"artifactId": ANSWER, "name": ANSWER, "parts": [{"text": text}]})
}

/// Returns the texts of two turns as one, with an empty line in between.
pub(super) fn joined(before: &str, text: &str) -> String {
    match before.is_empty() {
        true => text.to_owned(),
        false => format!("{before}\n\n{text}"),
    }
}

/// Writes a time in milliseconds since the Unix epoch as RFC 3339.
pub(super) fn timestamp(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    at.unwrap_or_default().to_string()
}
