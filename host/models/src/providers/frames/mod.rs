//! A provider's stream, parsed in parallel with the library that decodes it.
//!
//! The library passes on text and reasoning. It does not pass on the exact arguments of a call,
//! nor whether a reply ended or was cut off, so both are read here from the same frames.

mod anthropic;
mod gemini;
mod ollama;
mod openai;

use crate::fault::{MAX_EVENT_BYTES, MAX_EVENT_PARSED_BYTES, MAX_REPLY_BYTES, MAX_REPLY_CALLS};
use crate::provider::Provider;
use crate::{ModelFault, ReplyMemory};
use serde_json::value::RawValue;
use std::sync::Arc;
use tollgate_agent::json;
use tollgate_agent::message::TokenUsage;

/// A reply up to this size is kept without a reservation, in bytes.
const SMALL_BYTES: u64 = 256 * 1024;

/// The copies of a reply's text in memory: in the reply, and on the way to the clients.
const COPIES: u64 = 2;

/// The maximum number of comments in one reply, together with pieces that complete no event. A
/// piece is what has arrived, usually a packet or more. The library does not report the length of
/// either.
const MAX_QUIET: usize = 16 * 1024;
/// The maximum length of a model's name, in bytes. It is recorded with the reply and in the audit of each of its calls.
const MAX_MODEL_NAME_BYTES: usize = 200;

/// The number of further ones for each completed event: servers and proxies write an event in parts,
/// such as line by line.
const QUIET_OF_EVENT: usize = 8;

/// The content of one reply's frames so far.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The calls, in the order in which they began.
    pub(super) calls: Vec<FramedCall>,
    /// The provider's reason for stopping. Once it is set, the reply is complete.
    pub(super) finish: Option<String>,
    /// The model, as the provider names it.
    pub(super) model: Option<String>,
    /// Token usage, for a provider whose frames are better read here.
    pub(super) usage: Option<TokenUsage>,
    /// Whether reasoning came in a field that the provider expects to be sent back.
    pub(super) echoes_reasoning: bool,
    /// The text in the last frame, only for chat completions.
    pub(super) last_text: String,
    /// The number of frames.
    pub(super) count: usize,
    bytes: usize,
    /// The number of comments, and of pieces that completed no event.
    quiet: usize,
    /// The number of events that are not comments.
    events: usize,
    fault: Option<ModelFault>,
    memory: Option<Arc<dyn ReplyMemory>>,
    /// The bytes of text, reasoning and arguments.
    kept: u64,
    /// The bytes of the largest event, with its parsed form.
    event_bytes: u64,
    reserved_bytes: u64,
}

/// A call as it was streamed.
#[derive(Debug, Default)]
pub(super) struct FramedCall {
    /// The call's index in the provider's numbering.
    index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) signature: Option<String>,
}

impl Frames {
    /// Starts without frames, whose memory will be reserved from `memory`.
    pub(super) fn within(memory: Option<Arc<dyn ReplyMemory>>) -> Self {
        Self { memory, ..Self::default() }
    }

    /// Reads one frame.
    ///
    /// # Errors
    /// The frame or the reply is too large, or there is no memory for it, so the frame must not be
    /// parsed.
    pub(super) fn read(&mut self, provider: Provider, data: &str) -> Result<(), ModelFault> {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(data.len());
        let parsed_bytes = match parsed_bytes(self.bytes, data) {
            Ok(bytes) => bytes,
            Err(words) => {
                let fault = ModelFault::permanent(&words);
                self.fault.get_or_insert_with(|| fault.clone());
                return Err(fault);
            }
        };
        self.event_bytes = self.event_bytes.max(parsed_bytes + data.len() as u64);
        if let Err(fault) = self.reserve() {
            self.fault.get_or_insert_with(|| fault.clone());
            return Err(fault);
        }
        if data.trim().is_empty() {
            // Nothing else is in the event: it consists of comments.
            self.note_quiet();
        } else if self.fault.is_none() {
            self.events += 1;
            self.parse(provider, data);
        }
        Ok(())
    }

    fn parse(&mut self, provider: Provider, data: &str) {
        let read = match provider {
            Provider::Openai => openai::read(self, data),
            Provider::Anthropic => anthropic::read(self, data),
            Provider::Gemini => gemini::read(self, data),
            Provider::Ollama => ollama::read(self, data),
        };
        if let Err(e) = read {
            self.break_off(&format!("The provider's stream broke: a frame cannot be read ({e})."));
        }
    }

    /// Reserves memory for more text, reasoning or arguments. If there is none, the reply has a
    /// fault.
    pub(super) fn keep(&mut self, bytes: usize) {
        self.kept += bytes as u64;
        if let Err(fault) = self.reserve() {
            self.fault.get_or_insert(fault);
        }
    }

    /// Takes the text of the last frame, and reserves memory for it.
    pub(super) fn keep_last_text(&mut self) -> String {
        let text = std::mem::take(&mut self.last_text);
        self.keep(text.len());
        text
    }

    fn reserve(&mut self) -> Result<(), ModelFault> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let needed = COPIES * self.kept + self.event_bytes;
        if needed > self.reserved_bytes.max(SMALL_BYTES) {
            let bytes = needed.next_multiple_of(SMALL_BYTES);
            memory.reserve(bytes).map_err(|why| ModelFault::transient(&why, None))?;
            self.reserved_bytes = bytes;
        }
        Ok(())
    }

    /// Counts a piece of the reply that completed no event.
    ///
    /// # Errors
    /// There are too many, or the reply has another fault.
    pub(super) fn read_piece(&mut self) -> Result<(), ModelFault> {
        self.note_quiet();
        self.fault.clone().map_or(Ok(()), Err)
    }

    fn note_quiet(&mut self) {
        self.quiet += 1;
        if self.quiet > MAX_QUIET + QUIET_OF_EVENT * self.events {
            self.fault.get_or_insert_with(|| {
                ModelFault::permanent(&format!(
                    "The reply has more than {MAX_QUIET} comments, blank lines and pieces of unfinished events, and \
                     more than {QUIET_OF_EVENT} for each event, which is the limit."
                ))
            });
        }
    }

    /// Adds a call, unless there are too many.
    fn begin_call(&mut self, call: FramedCall) {
        if self.calls.len() < MAX_REPLY_CALLS {
            let signature = call.signature.as_ref().map_or(0, String::len);
            self.keep(call.id.len() + call.name.len() + call.arguments.len() + signature);
            self.calls.push(call);
        } else {
            self.fault.get_or_insert_with(ModelFault::too_many_calls);
        }
    }

    /// Remembers the name of the model, which most providers repeat in each frame.
    fn note_model(&mut self, named: Option<&RawValue>) {
        if self.model.is_none() {
            // Servers that send something else than a name are not to fail for it.
            let name = named.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
            self.model = name.filter(|name| name.len() <= MAX_MODEL_NAME_BYTES);
        }
    }

    /// Returns whether the provider marked the reply as complete.
    pub(super) fn are_whole(&self) -> bool {
        self.finish.is_some() && self.fault.is_none()
    }

    /// Returns the fault of a malformed frame, or one that a frame reported.
    pub(super) fn fault(&self) -> Option<&ModelFault> {
        self.fault.as_ref()
    }

    fn break_off(&mut self, words: &str) {
        self.fault.get_or_insert_with(|| ModelFault::transient(words, None));
    }
}

/// Returns the bytes of a frame's parsed form.
///
/// # Errors
/// Returns the limit that the frame exceeds, or the reply with it.
fn parsed_bytes(reply_bytes: usize, data: &str) -> Result<u64, String> {
    if reply_bytes > MAX_REPLY_BYTES {
        return Err(format!("The reply has more than {MAX_REPLY_BYTES} bytes, which is the limit."));
    }
    if data.len() > MAX_EVENT_BYTES {
        return Err(format!(
            "An event of the reply has {} bytes; the limit for one event is {MAX_EVENT_BYTES}.",
            data.len()
        ));
    }
    let parsed_bytes = json::measure(data.as_bytes()).parsed_bytes;
    if parsed_bytes > MAX_EVENT_PARSED_BYTES {
        return Err(format!(
            "An event of the reply would take {parsed_bytes} bytes of memory; the limit for one event is \
             {MAX_EVENT_PARSED_BYTES}."
        ));
    }
    Ok(parsed_bytes)
}

/// Returns the text of arguments, which some providers send as JSON and others as a string of
/// JSON.
fn arguments_text(raw: Option<&RawValue>) -> serde_json::Result<String> {
    match raw.map(RawValue::get) {
        None | Some("null") => Ok(String::new()),
        Some(text) if text.starts_with('"') => serde_json::from_str(text),
        Some(text) => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests;
