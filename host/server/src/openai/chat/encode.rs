//! Translates the updates of a run into chunks of a chat completion, and joins them for clients that
//! do not stream.

use crate::agent_runs::{Calls, Encode, FeedEnd, KnownCall, Piece, ReplyText, Rest};
use crate::openai::OpenAiError;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tollgate::tools::Report;
use tollgate::{LiveContent, RunUpdate};
use tollgate_agent::message::{Finish, TokenUsage};
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{CallEnd, Event, RunStatus, StoredEvent};
use tollgate_agent::text::one_line;

/// The maximum length of one line about a call, in bytes.
const MAX_LINE_BYTES: usize = 500;

/// The line that separates a void piece of a reply from the reply that follows.
const RESTARTED: &str = "\n\n[the reply was interrupted; it starts anew]\n\n";

/// An event of a stream of chat completion chunks.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ChatEvent {
    /// A chunk.
    Chunk(Value),
    /// The run ended without an answer.
    Failed(OpenAiError),
    /// The stream is complete.
    Done,
}

/// The settings of one answer.
#[derive(Debug, Clone, Default)]
pub(super) struct ChatSettings {
    /// The run's id.
    pub(super) run_id: String,
    /// The client's name of the thread.
    pub(super) thread: String,
    /// The agent's id.
    pub(super) model: String,
    /// The time of the answer, in seconds since the Unix epoch.
    pub(super) created: u64,
    pub(super) include_usage: bool,
    /// Whether lines about calls are sent as reasoning content.
    pub(super) progress: bool,
    /// Whether the stream stays open while questions wait.
    pub(super) holds: bool,
    /// The address of the page where people decide.
    pub(super) decide_url: String,
}

/// Translates the updates of a run into chunks.
pub(super) struct ChatEncoder {
    settings: ChatSettings,
    reply: ReplyText,
    calls: Calls,
    finish: Finish,
    tokens: TokenUsage,
    step: u32,
    /// The turn of the last text that was sent.
    text_step: Option<u32>,
    has_begun: bool,
    /// The questions that the text has named.
    named: BTreeSet<String>,
}

impl ChatEncoder {
    pub(super) fn new(settings: ChatSettings) -> Self {
        Self {
            settings,
            reply: ReplyText::default(),
            calls: Calls::default(),
            finish: Finish::Stop,
            tokens: TokenUsage::default(),
            step: 0,
            text_step: None,
            has_begun: false,
            named: BTreeSet::new(),
        }
    }

    fn stored(&mut self, stored: &StoredEvent, out: &mut Vec<ChatEvent>) {
        self.calls.apply(&stored.event);
        match &stored.event {
            Event::StepStarted { step } => (self.step, self.finish) = (*step, Finish::Stop),
            Event::ModelReplied { reply, .. } => {
                self.finish = reply.finish;
                self.tokens = self.tokens.plus(reply.usage);
                let (reasoning, text) = self.reply.unsent_parts(reply);
                match reasoning {
                    Rest::Append(rest) => self.reasoning(&rest, out),
                    Rest::Replace(whole) => self.reasoning(&format!("\n{whole}"), out),
                }
                match text {
                    Rest::Append(rest) => self.text(&rest, out),
                    Rest::Replace(whole) => {
                        self.text(RESTARTED, out);
                        self.text(&whole, out);
                    }
                }
            }
            Event::CallStarted { call_id, attempt, .. } => {
                let line = if *attempt == 1 { "runs" } else { "runs again" };
                self.call_line(call_id, line, json!({"state": "running", "attempt": attempt}), out);
            }
            Event::CallFinished(finished) => match &finished.end {
                CallEnd::Result(result) if result.is_success() => {
                    self.call_line(&finished.call_id, "", json!({"state": "completed"}), out);
                }
                end => {
                    let code = end.code().map_or("failed", |code| code.as_str());
                    let line = format!("did not succeed ({code})");
                    self.call_line(&finished.call_id, &line, json!({"state": "failed", "code": code}), out);
                }
            },
            Event::RunWaiting if self.settings.holds => self.questions(out),
            Event::RunFinished { status, usage, .. } => {
                self.tokens = usage.all_tokens();
                self.end(status, out);
            }
            _ => {}
        }
    }

    /// Names new questions in the text, for the person who reads it.
    fn questions(&mut self, out: &mut Vec<ChatEvent>) {
        let (mut lines, mut waiting) = (Vec::new(), Vec::new());
        for (call, asked) in self.calls.waiting() {
            if self.named.insert(asked.suspension_id.clone()) {
                lines.push(line_of_question(asked));
                waiting.push(question(&self.settings, call, asked));
            }
        }
        if lines.is_empty() {
            return;
        }
        let mut text = format!("{}\nDecide at {}", lines.join("\n"), self.settings.decide_url);
        if self.text_step.is_some() {
            text.insert_str(0, "\n\n");
        }
        if self.settings.holds {
            text.push_str("\n\n");
        }
        self.delta(json!({"content": text}), Some(json!({"waiting": waiting})), out);
        // The next text follows an empty line already.
        self.text_step = None;
    }

    /// Returns the open questions, for the extension object.
    fn waiting(&self) -> Vec<Value> {
        let waiting = self.calls.waiting();
        waiting.map(|(call, asked)| question(&self.settings, call, asked)).collect()
    }

    fn end(&mut self, status: &RunStatus, out: &mut Vec<ChatEvent>) {
        let cut = match self.finish {
            Finish::Length => Some("length"),
            Finish::Filtered => Some("content_filter"),
            Finish::Stop => None,
        };
        // The client has what the model wrote until it was cut off.
        if let (RunStatus::Failed { error }, Some(reason)) = (status, cut) {
            let failed = json!({"message": one_line(error, MAX_LINE_BYTES)});
            return self.finish_with(reason, Map::from_iter([("failed".to_owned(), failed)]), out);
        }
        if let Some(error) = OpenAiError::of_end(status) {
            return out.push(ChatEvent::Failed(error));
        }
        let mut more = Map::new();
        if let RunStatus::Stopped { limit } = status {
            more.insert("stopped".to_owned(), json!({"limit": limit}));
        }
        self.finish_with("stop", more, out);
    }

    /// Sends the last chunk, with `more` in its extension object, and ends the stream.
    fn finish_with(&mut self, reason: &str, more: Map<String, Value>, out: &mut Vec<ChatEvent>) {
        let mut extension = Map::new();
        extension.insert("run_id".to_owned(), json!(self.settings.run_id));
        extension.insert("thread_id".to_owned(), json!(self.settings.thread));
        extension.extend(more);
        self.begin(out);
        let choice = json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason});
        let mut last = self.chunk(json!([choice]));
        last["tollgate"] = Value::Object(extension);
        out.push(ChatEvent::Chunk(last));
        if self.settings.include_usage {
            let mut usage = self.chunk(json!([]));
            usage["usage"] = usage_of(self.tokens);
            out.push(ChatEvent::Chunk(usage));
        }
        out.push(ChatEvent::Done);
    }

    /// Sends text of the current turn. An empty line separates it from that of an earlier turn.
    fn text(&mut self, text: &str, out: &mut Vec<ChatEvent>) {
        if text.is_empty() {
            return;
        }
        let is_new_turn = self.text_step.is_some_and(|step| step != self.step);
        self.text_step = Some(self.step);
        match is_new_turn {
            true => self.delta(json!({"content": format!("\n\n{text}")}), None, out),
            false => self.delta(json!({"content": text}), None, out),
        }
    }

    fn reasoning(&mut self, text: &str, out: &mut Vec<ChatEvent>) {
        if !text.is_empty() {
            self.delta(json!({"reasoning_content": text}), None, out);
        }
    }

    /// Sends a line about a call; without words, only the extension object.
    fn call_line(&mut self, call_id: &str, words: &str, mut about: Value, out: &mut Vec<ChatEvent>) {
        let Some(call) = self.calls.get(call_id).filter(|_| self.settings.progress) else { return };
        let line = match words.is_empty() {
            true => json!({}),
            false => {
                let line = one_line(&format!("{} {words}", call.tool_name), MAX_LINE_BYTES);
                json!({"reasoning_content": format!("{line}\n")})
            }
        };
        about["id"] = json!(call.id);
        about["tool"] = json!(call.tool_name);
        self.delta(line, Some(json!({"call": about})), out);
    }

    fn delta(&mut self, delta: Value, extension: Option<Value>, out: &mut Vec<ChatEvent>) {
        self.begin(out);
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
        let mut chunk = self.chunk(json!([choice]));
        if let Some(extension) = extension {
            chunk["tollgate"] = extension;
        }
        out.push(ChatEvent::Chunk(chunk));
    }

    /// Sends the first chunk, which names the role, unless it was sent.
    fn begin(&mut self, out: &mut Vec<ChatEvent>) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let delta = json!({"role": "assistant", "content": ""});
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
        out.push(ChatEvent::Chunk(self.chunk(json!([choice]))));
    }

    fn chunk(&self, choices: Value) -> Value {
        let mut chunk = json!({
            "id": format!("chatcmpl-{}", self.settings.run_id),
            "object": "chat.completion.chunk",
            "created": self.settings.created,
            "model": self.settings.model,
            "choices": choices,
        });
        if self.settings.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }
}

impl Encode for ChatEncoder {
    type Wire = ChatEvent;

    fn update(&mut self, update: &RunUpdate, out: &mut Vec<ChatEvent>) {
        match update {
            RunUpdate::Stored(stored) => self.stored(stored, out),
            RunUpdate::Child(_) => {}
            RunUpdate::Live(live) => {
                match self.reply.live(live) {
                    Some(Piece::Text(text)) => self.text(text, out),
                    Some(Piece::Reasoning(text)) => self.reasoning(text, out),
                    Some(Piece::Restarted) => {
                        self.text(RESTARTED, out);
                        self.text_step = None;
                    }
                    None => {}
                }
                if let LiveContent::CallReport { call_id, report, .. } = &live.piece
                    && let Report::Progress { message, progress, .. } = report
                {
                    let words = match (message, progress) {
                        (Some(message), _) => message.clone(),
                        (None, Some(progress)) => format!("{:.0} %", progress * 100.0),
                        (None, None) => return,
                    };
                    let about = json!({"state": "progress", "progress": progress, "message": message});
                    self.call_line(call_id, &format!("reports: {words}"), about, out);
                }
            }
        }
    }

    fn rejoined(&mut self) {
        self.reply.rejoin();
    }

    fn ended(&mut self, end: FeedEnd, out: &mut Vec<ChatEvent>) {
        match end {
            FeedEnd::Finished => {}
            FeedEnd::Lost => out.push(ChatEvent::Failed(OpenAiError::lost())),
            FeedEnd::RecordLost => out.push(ChatEvent::Failed(OpenAiError::record_lost())),
            FeedEnd::Unauthorized => out.push(ChatEvent::Failed(OpenAiError::unauthorized())),
            FeedEnd::Waiting => {
                self.questions(out);
                let mut more = Map::new();
                more.insert("waiting".to_owned(), Value::Array(self.waiting()));
                self.finish_with("stop", more, out);
            }
        }
    }
}

/// Returns the line that shows an open question to the reader of a chat.
fn line_of_question(asked: &SuspendedCall) -> String {
    let asks = tollgate_agent::question::asks(asked);
    one_line(&format!("[waiting] {asks}: {}", asked.ticket.message), MAX_LINE_BYTES)
}

fn question(settings: &ChatSettings, call: &KnownCall, asked: &SuspendedCall) -> Value {
    json!({
        "run_id": settings.run_id,
        "suspension_id": asked.suspension_id,
        "tool": call.tool_name,
        "gate": asked.gate,
        "message": asked.ticket.message,
        "response_schema": asked.ticket.response_schema,
        "url": settings.decide_url,
    })
}

fn usage_of(tokens: TokenUsage) -> Value {
    json!({
        "prompt_tokens": tokens.input_tokens,
        "completion_tokens": tokens.output_tokens,
        "total_tokens": tokens.total(),
    })
}

/// Joins the chunks of a stream into one completion.
///
/// # Errors
/// The run ended without an answer.
pub(super) fn joined(events: Vec<ChatEvent>) -> Result<Value, OpenAiError> {
    let (mut content, mut reasoning) = (String::new(), String::new());
    let (mut finish, mut completion) = (Value::Null, Value::Null);
    let mut usage = Value::Null;
    for event in events {
        let mut chunk = match event {
            ChatEvent::Chunk(chunk) => chunk,
            ChatEvent::Failed(error) => return Err(error),
            ChatEvent::Done => break,
        };
        if !chunk["usage"].is_null() {
            usage = chunk["usage"].take();
            continue;
        }
        let choice = &mut chunk["choices"][0];
        content.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        reasoning.push_str(choice["delta"]["reasoning_content"].as_str().unwrap_or_default());
        if !choice["finish_reason"].is_null() {
            (finish, completion) = (choice["finish_reason"].take(), chunk);
        }
    }
    let mut message = json!({"role": "assistant", "content": content, "refusal": null, "annotations": []});
    if !reasoning.is_empty() {
        message["reasoning_content"] = json!(reasoning);
    }
    completion["object"] = json!("chat.completion");
    completion["choices"] =
        json!([{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}]);
    completion["usage"] = usage;
    Ok(completion)
}
