//! Translates the updates of a run into the stream of a task.

use super::task::{TaskView, artifact};
use crate::agent_runs::{Encode, FeedEnd, Piece, ReplyText, Rest};
use serde_json::{Value, json};
use tollgate::tools::Report;
use tollgate::{LiveContent, RunUpdate};
use tollgate_agent::run::{Event, StoredEvent};
use tollgate_agent::text::one_line;

/// The maximum length of a progress message, in bytes.
const MAX_PROGRESS_BYTES: usize = 500;

/// Translates the updates of a run into stream responses: the task first, then its updates.
pub(super) struct TaskEncoder {
    view: TaskView,
    reply: ReplyText,
    history_length: Option<usize>,
    has_started: bool,
    /// Whether the client has text of the artifact.
    has_text: bool,
    /// Whether text of the current reply was sent.
    in_reply: bool,
    progress: u64,
    is_over: bool,
}

impl TaskEncoder {
    /// Creates an encoder for the updates that follow those in `view`.
    pub(super) fn new(view: TaskView, reply: ReplyText, history_length: Option<usize>) -> Self {
        let has_text = !view.text.is_empty();
        Self {
            view,
            reply,
            history_length,
            has_started: false,
            has_text,
            in_reply: false,
            progress: 0,
            is_over: false,
        }
    }

    fn start(&mut self, out: &mut Vec<Value>) {
        if !std::mem::replace(&mut self.has_started, true) {
            out.push(json!({"task": self.view.task(self.history_length, true)}));
        }
    }

    fn stored(&mut self, stored: &StoredEvent, out: &mut Vec<Value>) {
        self.view.apply(stored);
        match &stored.event {
            Event::ModelReplied { reply, .. } => {
                match self.reply.unsent_parts(reply).1 {
                    Rest::Append(rest) => self.write(&rest, out),
                    Rest::Replace(_) => self.replace(out),
                }
                self.in_reply = false;
            }
            Event::CallStarted { call_id, attempt: 1, .. } => {
                let tool = self.view.calls.get(call_id).map(|call| call.tool_name.to_string());
                if let Some(tool) = tool {
                    self.working(&format!("{tool} runs"), out);
                }
            }
            Event::CallDecided { .. } => self.status(out),
            Event::RunWaiting => {
                self.status(out);
                // A tool's question is answered by a message with the task's id.
                self.is_over = !self.view.waits_for_gate();
            }
            Event::RunFinished { .. } => {
                self.status(out);
                self.is_over = true;
            }
            _ => {}
        }
    }

    fn write(&mut self, text: &str, out: &mut Vec<Value>) {
        if text.is_empty() {
            return;
        }
        let append = std::mem::replace(&mut self.has_text, true);
        let piece = match self.in_reply || !append {
            true => text.to_owned(),
            false => format!("\n\n{text}"),
        };
        self.in_reply = true;
        self.artifact(&piece, append, out);
    }

    /// Sends the whole artifact anew: what was sent of the current reply is void.
    fn replace(&mut self, out: &mut Vec<Value>) {
        (self.in_reply, self.has_text) = (false, !self.view.text.is_empty());
        self.artifact(&self.view.text, false, out);
    }

    fn artifact(&self, text: &str, append: bool, out: &mut Vec<Value>) {
        out.push(json!({"artifactUpdate": {
            "taskId": self.view.task_id,
            "contextId": self.view.context_id,
            "artifact": artifact(text),
            "append": append,
            "lastChunk": false,
        }}));
    }

    fn status(&self, out: &mut Vec<Value>) {
        out.push(json!({"statusUpdate": {
            "taskId": self.view.task_id,
            "contextId": self.view.context_id,
            "status": self.view.status(),
        }}));
    }

    /// Sends a progress message.
    fn working(&mut self, words: &str, out: &mut Vec<Value>) {
        self.progress += 1;
        let id = format!("{}/progress/{}", self.view.task_id, self.progress);
        let text = one_line(words, MAX_PROGRESS_BYTES);
        let message = self.view.message(&id, "ROLE_AGENT", vec![json!({"text": text})]);
        let mut status = self.view.status();
        status["state"] = json!("TASK_STATE_WORKING");
        status["message"] = message;
        out.push(json!({"statusUpdate": {
            "taskId": self.view.task_id,
            "contextId": self.view.context_id,
            "status": status,
        }}));
    }
}

impl Encode for TaskEncoder {
    type Wire = Value;

    fn update(&mut self, update: &RunUpdate, out: &mut Vec<Value>) {
        match update {
            RunUpdate::Stored(stored) => {
                // The first task has the message that it answers.
                let is_begin = matches!(
                    stored.event,
                    Event::RunStarted { .. } | Event::RunSeeded { .. } | Event::MessageAdded { .. }
                );
                if !self.has_started && is_begin {
                    return self.view.apply(stored);
                }
                self.start(out);
                self.stored(stored, out);
            }
            RunUpdate::Child(_) => {}
            RunUpdate::Live(live) => {
                self.start(out);
                match self.reply.live(live) {
                    Some(Piece::Text(text)) => self.write(text, out),
                    Some(Piece::Restarted) => self.replace(out),
                    Some(Piece::Reasoning(_)) | None => {}
                }
                if let LiveContent::CallReport {
                    report: Report::Progress { message, progress, .. }, ..
                } = &live.piece
                {
                    match (message, progress) {
                        (Some(message), _) => self.working(message, out),
                        (None, Some(progress)) => self.working(&format!("{:.0} %", progress * 100.0), out),
                        (None, None) => {}
                    }
                }
            }
        }
    }

    fn rejoined(&mut self) {
        self.reply.rejoin();
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn ended(&mut self, end: FeedEnd, out: &mut Vec<Value>) {
        self.start(out);
        if let Some((_, text)) = end.failure() {
            self.working(text, out);
        }
    }
}

/// Returns the text that the stream's artifact updates lead to.
#[cfg(test)]
pub(super) fn assembled(events: &[Value]) -> String {
    let mut text = String::new();
    for event in events {
        let artifact = match (&event["task"]["artifacts"][0], &event["artifactUpdate"]["artifact"]) {
            (Value::Null, Value::Null) => continue,
            (Value::Null, artifact) | (artifact, _) => artifact,
        };
        if event["artifactUpdate"]["append"] != true {
            text.clear();
        }
        text.push_str(artifact["parts"][0]["text"].as_str().unwrap_or_default());
    }
    text
}
