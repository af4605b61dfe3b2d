//! The event stream of a response.

use super::output::{ItemChange, Output, ResponseStatus, message_item, reasoning_item, status_of, text_part};
use super::segment::{ResponseInfo, response};
use crate::agent_runs::{Encode, FeedEnd, Piece, ReplyText, Rest};
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate::RunUpdate;
use tollgate_agent::message::ModelReply;
use tollgate_agent::run::{Event, StoredEvent};

/// Bits of a sequence number that count the events of the stream after one stored event.
const COUNT_BITS: u32 = 20;
/// Counts below this belong to the stored event itself; pieces of a reply follow.
const FIRST_PIECE: u64 = 2_048;

/// An event of the stream: its type, and its data with type and sequence number.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ResponseEvent {
    pub(super) name: &'static str,
    pub(super) data: Value,
}

/// Translates the updates of one segment into the events of a response.
pub(super) struct ResponseEncoder {
    about: ResponseInfo,
    output: Output,
    reply: ReplyText,
    /// The item of the reply that is being written.
    open: Option<OpenItem>,
    /// Whether text of the current reply was sent. Reasoning after text is not sent.
    has_text: bool,
    /// How often the current reply started anew.
    restarts: u32,
    next_index: usize,
    /// The items of calls, by their position in the output, and their index in the stream.
    calls: Vec<(usize, usize)>,
    sequence: u64,
    /// The lowest sequence number of the next event.
    floor: u64,
    has_begun: bool,
    /// A wait that may have been overtaken by a decision.
    wait: Option<Arc<StoredEvent>>,
}

#[derive(Debug)]
struct OpenItem {
    is_message: bool,
    id: String,
    index: usize,
    text: String,
}

impl ResponseEncoder {
    /// Creates an encoder for a segment whose earlier events `output` has.
    pub(super) fn new(about: ResponseInfo, output: Output) -> Self {
        Self {
            about,
            output,
            reply: ReplyText::default(),
            open: None,
            has_text: false,
            restarts: 0,
            next_index: 0,
            calls: Vec::new(),
            sequence: 0,
            floor: 0,
            has_begun: false,
            wait: None,
        }
    }

    fn stored(&mut self, stored: &StoredEvent, out: &mut Vec<ResponseEvent>) {
        self.floor = stored.number << COUNT_BITS;
        for change in self.output.apply(stored) {
            match change {
                ItemChange::Replied(reply) => self.replied(&reply, out),
                ItemChange::CallAdded(at) => {
                    let index = self.take_index();
                    self.calls.push((at, index));
                    let mut item = self.output.items[at].clone();
                    let id = item["id"].clone();
                    // The arguments follow: clients append them to those of the item.
                    let arguments = std::mem::replace(&mut item["arguments"], json!(""));
                    self.item("response.output_item.added", index, item, out);
                    self.call("response.mcp_call.in_progress", index, &id, json!({}), out);
                    let delta = json!({"delta": arguments});
                    self.call("response.mcp_call_arguments.delta", index, &id, delta, out);
                    let arguments = json!({"arguments": arguments});
                    self.call("response.mcp_call_arguments.done", index, &id, arguments, out);
                }
                ItemChange::CallDone(at) => {
                    let place = self.calls.iter().find(|(item, _)| *item == at);
                    let Some(index) = place.map(|(_, index)| *index) else { continue };
                    let item = self.output.items[at].clone();
                    let id = item["id"].clone();
                    match item["status"].as_str() {
                        Some("completed") => {
                            self.call("response.mcp_call.completed", index, &id, json!({}), out);
                        }
                        Some("failed") => self.call("response.mcp_call.failed", index, &id, json!({}), out),
                        _ => {}
                    }
                    self.item("response.output_item.done", index, item, out);
                }
                ItemChange::Appeared(at) => {
                    let (index, item) = (self.take_index(), self.output.items[at].clone());
                    self.appear(index, item, out);
                }
            }
        }
    }

    /// Sends an item that is complete at once.
    fn appear(&mut self, index: usize, item: Value, out: &mut Vec<ResponseEvent>) {
        let text = item["content"][0]["text"].as_str().map(str::to_owned);
        let Some(text) = text else {
            self.item("response.output_item.added", index, item.clone(), out);
            return self.item("response.output_item.done", index, item, out);
        };
        let id = item["id"].as_str().unwrap_or_default().to_owned();
        self.next_index = index;
        self.open_item(true, id, out);
        self.push(&text, out);
        self.close("completed", out);
    }

    fn replied(&mut self, reply: &ModelReply, out: &mut Vec<ResponseEvent>) {
        let (reasoning, text) = self.reply.unsent_parts(reply);
        let number = self.output.replies;
        match reasoning {
            Rest::Append(rest) if !rest.is_empty() => self.write(false, number, &rest, out),
            // Reasoning that changed after it was sent stays as it is until the final output.
            Rest::Append(_) | Rest::Replace(_) => {}
        }
        match text {
            Rest::Append(rest) if !rest.is_empty() => self.write(true, number, &rest, out),
            Rest::Append(_) => {}
            Rest::Replace(whole) => {
                self.close("incomplete", out);
                self.restarts += 1;
                if !whole.is_empty() {
                    self.write(true, number, &whole, out);
                }
            }
        }
        self.close(status_of(reply), out);
        (self.restarts, self.has_text) = (0, false);
    }

    /// Writes to the message or the reasoning of the reply with this number, and opens it first if
    /// necessary.
    fn write(&mut self, is_message: bool, number: u64, text: &str, out: &mut Vec<ResponseEvent>) {
        if !is_message && self.has_text {
            return;
        }
        self.has_text |= is_message;
        if self.open.as_ref().is_some_and(|open| open.is_message != is_message) {
            self.close("completed", out);
        }
        if self.open.is_none() {
            let mut id = match is_message {
                true => self.output.message_id(number),
                false => self.output.reasoning_id(number),
            };
            if self.restarts > 0 {
                id.push_str(&format!("_r{}", self.restarts));
            }
            self.open_item(is_message, id, out);
        }
        self.push(text, out);
    }

    fn open_item(&mut self, is_message: bool, id: String, out: &mut Vec<ResponseEvent>) {
        let index = self.take_index();
        let item = match is_message {
            true => message_item(&id, None, "in_progress"),
            false => reasoning_item(&id, None, "in_progress"),
        };
        self.item("response.output_item.added", index, item, out);
        let open = OpenItem { is_message, id, index, text: String::new() };
        let part = json!({"part": part_of(is_message, "")});
        self.content("response.content_part.added", &open, part, out);
        self.open = Some(open);
    }

    fn push(&mut self, text: &str, out: &mut Vec<ResponseEvent>) {
        let Some(mut open) = self.open.take() else { return };
        open.text.push_str(text);
        match open.is_message {
            true => {
                let delta = json!({"delta": text, "logprobs": []});
                self.content("response.output_text.delta", &open, delta, out);
            }
            false => {
                self.content("response.reasoning_text.delta", &open, json!({"delta": text}), out);
            }
        }
        self.open = Some(open);
    }

    fn close(&mut self, status: &str, out: &mut Vec<ResponseEvent>) {
        let Some(open) = self.open.take() else { return };
        let item = match open.is_message {
            true => {
                let done = json!({"text": open.text, "logprobs": []});
                self.content("response.output_text.done", &open, done, out);
                message_item(&open.id, Some(&open.text), status)
            }
            false => {
                self.content("response.reasoning_text.done", &open, json!({"text": open.text}), out);
                reasoning_item(&open.id, Some(&open.text), status)
            }
        };
        let part = json!({"part": part_of(open.is_message, &open.text)});
        self.content("response.content_part.done", &open, part, out);
        self.item("response.output_item.done", open.index, item, out);
    }

    fn take_index(&mut self) -> usize {
        self.next_index += 1;
        self.next_index - 1
    }

    fn item(&mut self, name: &'static str, index: usize, item: Value, out: &mut Vec<ResponseEvent>) {
        self.emit(name, json!({"output_index": index, "item": item}), out);
    }

    fn call(
        &mut self,
        name: &'static str,
        index: usize,
        id: &Value,
        mut more: Value,
        out: &mut Vec<ResponseEvent>,
    ) {
        (more["output_index"], more["item_id"]) = (json!(index), id.clone());
        self.emit(name, more, out);
    }

    fn content(
        &mut self,
        name: &'static str,
        open: &OpenItem,
        mut more: Value,
        out: &mut Vec<ResponseEvent>,
    ) {
        more["output_index"] = json!(open.index);
        more["item_id"] = json!(open.id);
        more["content_index"] = json!(0);
        self.emit(name, more, out);
    }

    fn emit(&mut self, name: &'static str, mut data: Value, out: &mut Vec<ResponseEvent>) {
        self.sequence = self.floor.max(self.sequence + 1);
        data["type"] = json!(name);
        data["sequence_number"] = json!(self.sequence);
        out.push(ResponseEvent { name, data });
    }

    fn whole(&mut self, name: &'static str, out: &mut Vec<ResponseEvent>) {
        let response = response(&self.about, &self.output);
        self.emit(name, json!({"response": response}), out);
    }
}

impl Encode for ResponseEncoder {
    type Wire = ResponseEvent;

    fn update(&mut self, update: &RunUpdate, out: &mut Vec<ResponseEvent>) {
        match update {
            RunUpdate::Stored(stored) => {
                if !std::mem::replace(&mut self.has_begun, true) {
                    self.floor = stored.number << COUNT_BITS;
                    self.output.created_at_ms = stored.at_ms;
                    self.whole("response.created", out);
                    self.whole("response.in_progress", out);
                }
                self.wait = None;
                match stored.event {
                    Event::RunWaiting => self.wait = Some(Arc::clone(stored)),
                    _ => self.stored(stored, out),
                }
            }
            RunUpdate::Child(_) => {}
            RunUpdate::Live(live) => {
                let number = self.output.replies + 1;
                self.floor = (live.after << COUNT_BITS) + FIRST_PIECE + self.reply.text_bytes() as u64;
                match self.reply.live(live) {
                    Some(Piece::Text(text)) => self.write(true, number, text, out),
                    Some(Piece::Reasoning(text)) => self.write(false, number, text, out),
                    Some(Piece::Restarted) => {
                        self.close("incomplete", out);
                        (self.restarts, self.has_text) = (self.restarts + 1, false);
                    }
                    None => {}
                }
            }
        }
    }

    fn rejoined(&mut self) {
        self.reply.rejoin();
    }

    fn ended(&mut self, end: FeedEnd, out: &mut Vec<ResponseEvent>) {
        if end == FeedEnd::Waiting
            && let Some(wait) = self.wait.take()
        {
            self.stored(&wait, out);
        }
        if let Some((_, message)) = end.failure() {
            let message = message.to_owned();
            self.output.status = ResponseStatus::Failed { code: "server_error", message };
        }
        self.close("incomplete", out);
        let name = match self.output.status {
            ResponseStatus::Completed => "response.completed",
            ResponseStatus::Incomplete { .. } => "response.incomplete",
            _ => "response.failed",
        };
        self.whole(name, out);
    }
}

fn part_of(is_message: bool, text: &str) -> Value {
    match is_message {
        true => text_part(text),
        false => json!({"type": "reasoning_text", "text": text}),
    }
}
