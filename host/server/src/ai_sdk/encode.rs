//! The UI message stream of the AI SDK, from the updates of a run.

use crate::agent_runs::{
    Calls, Encode, FeedEnd, KnownCall, Piece, ReplyText, Rest, approval, sent_arguments,
};
use serde_json::{Value, json};
use tollgate::tools::Report;
use tollgate::{LiveContent, RunUpdate};
use tollgate_agent::message::{Finish, ModelReply, TokenUsage};
use tollgate_agent::run::event::{FinishedCall, RunUsage, SuspendedCall};
use tollgate_agent::run::{CallEnd, DecisionAnswer, Event, RunStatus, StoredEvent, answer};
use tollgate_agent::text::one_line;

/// The maximum length of an error's text, in bytes.
const MAX_ERROR_BYTES: usize = 1_000;

/// The version of the AI SDK for which a stream is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AiSdkVersion {
    /// Version 6, which rejects some chunks of version 7.
    V6,
    /// Version 7.
    V7,
}

/// The place at which a message begins in the record of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageBegin {
    /// With the run.
    Run,
    /// With the next message of the user, which ends the questions of the run.
    NextPrompt,
    /// Earlier: the stream continues a message that the client has.
    Earlier,
}

/// The parts of a message that do not come from updates.
#[derive(Debug, Clone)]
pub(super) struct MessageInfo {
    pub(super) run_id: String,
    /// The client's name of the thread.
    pub(super) thread: String,
    /// The message id; for [`MessageBegin::NextPrompt`], the number of the prompt is added.
    pub(super) message_id: String,
    pub(super) version: AiSdkVersion,
    /// The address of the page where people decide.
    pub(super) decide_url: String,
}

/// Translates the updates of a run into chunks.
pub(super) struct AiSdkEncoder {
    about: MessageInfo,
    begin: MessageBegin,
    has_started: bool,
    reply: ReplyText,
    calls: Calls,
    /// The number of parts so far, for their ids.
    parts: u64,
    open: Option<OpenPart>,
    /// Whether text of the current reply was sent. Reasoning after text is not sent.
    has_text: bool,
    /// Whether a step was begun for the current reply.
    in_reply: bool,
    /// Whether a step is open.
    has_step: bool,
    finish: Finish,
    tokens: TokenUsage,
    has_ended: bool,
}

#[derive(Debug)]
struct OpenPart {
    is_text: bool,
    id: String,
}

impl AiSdkEncoder {
    /// Creates an encoder; `calls` are those of the events before the message's first update.
    pub(super) fn new(about: MessageInfo, begin: MessageBegin, calls: Calls, reply: ReplyText) -> Self {
        Self {
            about,
            begin,
            has_started: false,
            reply,
            calls,
            parts: 0,
            open: None,
            has_text: false,
            in_reply: false,
            has_step: false,
            finish: Finish::Stop,
            tokens: TokenUsage::default(),
            has_ended: false,
        }
    }

    fn start(&mut self, out: &mut Vec<Value>) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        let metadata = json!({"runId": self.about.run_id, "threadId": self.about.thread});
        out.push(json!({
            "type": "start", "messageId": self.about.message_id, "messageMetadata": metadata,
        }));
    }

    fn stored(&mut self, stored: &StoredEvent, out: &mut Vec<Value>) {
        if let Event::CallDecided { call_id, decision, .. } = &stored.event {
            self.decided(call_id, &decision.answer, out);
        }
        self.calls.apply(&stored.event);
        match &stored.event {
            Event::ModelReplied { reply, .. } => self.replied(reply, out),
            Event::CallProposed(proposed) => {
                out.push(json!({
                    "type": "tool-input-available",
                    "toolCallId": proposed.call_id,
                    "toolName": proposed.tool_name,
                    "input": sent_arguments(proposed.arguments.as_ref()),
                    "dynamic": true,
                    "providerExecuted": true,
                }));
            }
            Event::CallFinished(finished) => self.call_finished(finished, out),
            Event::CallSuspended(asked) => self.suspended(asked, out),
            Event::ChildStarted { call_id, child_run_id, agent_id, .. } => {
                self.child(call_id, child_run_id, json!({"agent": agent_id, "status": "running"}), out);
            }
            Event::ChildWaiting { call_id, question, .. } => {
                let about = json!({"agent": question.agent_id, "status": "waiting"});
                self.child(call_id, &question.run_id, about, out);
            }
            Event::RunFinished { status, usage, .. } => self.run_finished(status, usage, out),
            _ => {}
        }
    }

    /// Begins the step of a reply. Each reply is a step with its calls, so that a restarted reply
    /// can be taken back alone.
    fn step(&mut self, out: &mut Vec<Value>) {
        if std::mem::replace(&mut self.in_reply, true) {
            return;
        }
        self.finish_step(out);
        self.has_step = true;
        out.push(json!({"type": "start-step"}));
    }

    fn finish_step(&mut self, out: &mut Vec<Value>) {
        self.close(out);
        if std::mem::take(&mut self.has_step) {
            out.push(json!({"type": "finish-step"}));
        }
    }

    fn write(&mut self, is_text: bool, text: &str, out: &mut Vec<Value>) {
        if text.is_empty() || (!is_text && self.has_text) {
            return;
        }
        self.step(out);
        self.has_text |= is_text;
        if self.open.as_ref().is_some_and(|open| open.is_text != is_text) {
            self.close(out);
        }
        let kind = if is_text { "text" } else { "reasoning" };
        let id = match &self.open {
            Some(open) => open.id.clone(),
            None => {
                self.parts += 1;
                let id = format!("{kind}-{}", self.parts);
                out.push(json!({"type": format!("{kind}-start"), "id": id}));
                self.open = Some(OpenPart { is_text, id: id.clone() });
                id
            }
        };
        out.push(json!({"type": format!("{kind}-delta"), "id": id, "delta": text}));
    }

    fn close(&mut self, out: &mut Vec<Value>) {
        if let Some(OpenPart { is_text, id }) = self.open.take() {
            let kind = if is_text { "text-end" } else { "reasoning-end" };
            out.push(json!({"type": kind, "id": id}));
        }
    }

    /// Takes back what was sent of the current reply. Version 6 cannot, so a new part follows.
    fn reset(&mut self, out: &mut Vec<Value>) {
        match self.about.version {
            AiSdkVersion::V6 => self.close(out),
            AiSdkVersion::V7 => {
                self.open = None;
                if self.in_reply {
                    out.push(json!({"type": "reset-step"}));
                }
            }
        }
        self.has_text = false;
    }

    /// Sends a whole reply in place of what was sent of it.
    fn rewrite(&mut self, reply: &ModelReply, out: &mut Vec<Value>) {
        self.reset(out);
        self.write(false, reply.message.reasoning.as_deref().unwrap_or_default(), out);
        self.write(true, &reply.message.text, out);
    }

    fn replied(&mut self, reply: &ModelReply, out: &mut Vec<Value>) {
        self.finish = reply.finish;
        self.tokens = self.tokens.plus(reply.usage);
        let (reasoning, text) = self.reply.unsent_parts(reply);
        let is_late = matches!(&reasoning, Rest::Append(rest) if !rest.is_empty()) && self.has_text;
        match (reasoning, text) {
            // A client that joined in the middle of the text gets the reasoning before it.
            (_, Rest::Append(_)) if is_late && self.about.version == AiSdkVersion::V7 => {
                self.rewrite(reply, out)
            }
            (reasoning, Rest::Append(text)) => {
                // Reasoning that changed after it was sent stays as it is.
                if let Rest::Append(rest) = reasoning {
                    self.write(false, &rest, out);
                }
                self.write(true, &text, out);
            }
            (_, Rest::Replace(_)) => self.rewrite(reply, out),
        }
        // A reply that consists of calls has a step as well.
        self.step(out);
        self.close(out);
        (self.in_reply, self.has_text) = (false, false);
    }

    fn call_finished(&mut self, finished: &FinishedCall, out: &mut Vec<Value>) {
        let call_id = &finished.call_id;
        match &finished.end {
            CallEnd::Result(result) if result.is_success() => {
                let output = match (&result.message, result.data.is_null()) {
                    (Some(message), true) => json!(message),
                    _ => json!(result.data),
                };
                out.push(json!({
                    "type": "tool-output-available",
                    "toolCallId": call_id,
                    "output": output,
                    "dynamic": true,
                    "providerExecuted": true,
                }));
            }
            end => {
                // A call that a person refused was reported with the decision.
                let refused = self.calls.get(call_id).is_some_and(|call| call.is_refused);
                if !refused {
                    let answer = answer::answer(call_id, &finished.tool_name, end);
                    out.push(json!({
                        "type": "tool-output-error",
                        "toolCallId": call_id,
                        "errorText": answer.content,
                        "dynamic": true,
                        "providerExecuted": true,
                    }));
                }
            }
        }
    }

    fn suspended(&self, asked: &SuspendedCall, out: &mut Vec<Value>) {
        let Some(call) = self.calls.get(&asked.call_id) else { return };
        out.push(self.question(call, asked, "open"));
        // A question that needs more than a yes is answered elsewhere.
        if approval(asked, true, None).is_ok() {
            out.push(json!({
                "type": "tool-approval-request",
                "approvalId": asked.suspension_id,
                "toolCallId": asked.call_id,
                "reason": asked.ticket.message,
            }));
        }
    }

    fn question(&self, call: &KnownCall, asked: &SuspendedCall, status: &str) -> Value {
        json!({
            "type": "data-question",
            "id": asked.suspension_id,
            "data": {
                "status": status,
                "runId": self.about.run_id,
                "suspensionId": asked.suspension_id,
                "toolCallId": asked.call_id,
                "toolName": call.tool_name,
                "gate": asked.gate,
                "action": asked.ticket.action,
                "message": asked.ticket.message,
                "parameters": asked.ticket.parameters,
                "responseSchema": asked.ticket.response_schema,
                "url": self.about.decide_url,
            },
        })
    }

    fn decided(&self, call_id: &str, answer: &DecisionAnswer, out: &mut Vec<Value>) {
        let Some(call) = self.calls.get(call_id) else { return };
        let Some(asked) = &call.question else { return };
        out.push(self.question(call, asked, "decided"));
        if *answer == DecisionAnswer::Cancel {
            out.push(json!({"type": "tool-output-denied", "toolCallId": call_id}));
        }
    }

    fn child(&self, call_id: &str, child: &str, mut about: Value, out: &mut Vec<Value>) {
        (about["toolCallId"], about["runId"]) = (json!(call_id), json!(child));
        out.push(json!({"type": "data-child", "id": child, "data": about}));
    }

    fn run_finished(&mut self, status: &RunStatus, usage: &RunUsage, out: &mut Vec<Value>) {
        self.tokens = usage.all_tokens();
        self.finish_step(out);
        self.has_ended = true;
        let words = |text: String| one_line(&text, MAX_ERROR_BYTES);
        let (reason, metadata) = match status {
            RunStatus::Completed => match self.finish {
                Finish::Stop => ("stop", json!({})),
                Finish::Length => ("length", json!({})),
                Finish::Filtered => ("content-filter", json!({})),
            },
            RunStatus::Stopped { limit } => ("other", json!({"stopped": limit})),
            RunStatus::Cancelled { reason } => {
                return out.push(json!({"type": "abort", "reason": words(reason.clone())}));
            }
            RunStatus::Blocked { reason } => {
                let text = words(format!("a gate ended the run: {reason}"));
                return self.fail(text, "blocked", out);
            }
            RunStatus::Failed { error } => {
                let text = words(format!("the run failed: {error}"));
                return self.fail(text, "failed", out);
            }
        };
        self.finish(reason, metadata, out);
    }

    fn fail(&mut self, text: String, code: &str, out: &mut Vec<Value>) {
        out.push(json!({"type": "error", "errorText": text}));
        self.finish("error", json!({"error": code}), out);
    }

    fn finish(&mut self, reason: &str, mut metadata: Value, out: &mut Vec<Value>) {
        metadata["usage"] = json!({
            "inputTokens": self.tokens.input_tokens,
            "outputTokens": self.tokens.output_tokens,
            "totalTokens": self.tokens.total(),
        });
        out.push(json!({"type": "finish", "finishReason": reason, "messageMetadata": metadata}));
    }

    fn report(&mut self, call_id: &str, report: &Report, out: &mut Vec<Value>) {
        let mut data = match report {
            Report::Progress { status, message, progress } => {
                json!({"status": status, "message": message, "progress": progress})
            }
            Report::Output(text) => json!({"output": text}),
            Report::Activity { kind, content } => json!({"activity": kind, "content": content}),
            Report::ActivityDelta { kind, patch } => json!({"activity": kind, "patch": patch}),
            Report::ChildError { agent_id, message } => json!({"agent": agent_id, "error": message}),
            // Log lines are for the operator.
            Report::Log { .. } => return,
        };
        data["toolCallId"] = json!(call_id);
        out.push(json!({"type": "data-progress", "data": data, "transient": true}));
    }
}

impl Encode for AiSdkEncoder {
    type Wire = Value;

    fn update(&mut self, update: &RunUpdate, out: &mut Vec<Value>) {
        if self.begin == MessageBegin::NextPrompt {
            // The end of the earlier message's calls belongs to that message.
            let RunUpdate::Stored(stored) = update else { return };
            self.calls.apply(&stored.event);
            if matches!(stored.event, Event::MessageAdded { .. }) {
                self.begin = MessageBegin::Run;
                self.about.message_id = format!("{}_{}", self.about.message_id, stored.number);
                self.start(out);
            }
            return;
        }
        self.start(out);
        match update {
            RunUpdate::Stored(stored) => self.stored(stored, out),
            RunUpdate::Child(_) => {}
            RunUpdate::Live(live) => {
                match self.reply.live(live) {
                    Some(Piece::Text(text)) => self.write(true, text, out),
                    Some(Piece::Reasoning(text)) => self.write(false, text, out),
                    Some(Piece::Restarted) => self.reset(out),
                    None => {}
                }
                if let LiveContent::CallReport { call_id, report, .. } = &live.piece {
                    self.report(call_id, report, out);
                }
            }
        }
    }

    fn rejoined(&mut self) {
        self.reply.rejoin();
    }

    fn ended(&mut self, end: FeedEnd, out: &mut Vec<Value>) {
        if self.has_ended {
            return;
        }
        self.start(out);
        self.finish_step(out);
        match end.failure() {
            None => self.finish("tool-calls", json!({"waiting": true}), out),
            Some((code, text)) => self.fail(text.to_owned(), code, out),
        }
    }
}
