//! What a provider streams, read beside the library that decodes it.
//!
//! The library hands on text and thoughts. It does not hand on the arguments of
//! a call word for word, nor whether a reply ended or was cut off, so both are
//! read here, from the same frames.

mod anthropic;
mod gemini;
mod ollama;
mod openai;

use super::Provider;
use crate::models::ModelFault;
use crate::models::fault::MAX_REPLY_CALLS;
use serde_json::value::RawValue;
use tollgate_agent::message::TokenUsage;

/// Bytes of one streamed reply that are read.
const MAX_REPLY_BYTES: usize = 32 * 1024 * 1024;

/// Bytes of one event of a stream, or line of one without events, that are read. Whole replies
/// are shorter.
pub(super) const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// What the frames of one reply said so far.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The calls, in the order in which they began.
    pub(super) calls: Vec<FramedCall>,
    /// The provider's word for why it stopped; the reply is whole once it is there.
    pub(super) finish: Option<String>,
    /// Tokens, where the frames of this provider are better read here.
    pub(super) usage: Option<TokenUsage>,
    /// Whether thoughts came in a field that the provider wants to see again.
    pub(super) echoes_reasoning: bool,
    /// The text in the last frame, of chat completions alone.
    pub(super) last_text: String,
    /// How many frames there were.
    pub(super) count: usize,
    bytes: usize,
    fault: Option<ModelFault>,
}

/// A call as it was streamed.
#[derive(Debug, Default)]
pub(super) struct FramedCall {
    /// Its place in the provider's own numbering.
    index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) signature: Option<String>,
}

impl Frames {
    /// Reads one frame.
    pub(super) fn read(&mut self, provider: Provider, data: &str) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > MAX_REPLY_BYTES {
            self.fault = Some(ModelFault::permanent(&format!(
                "The reply has more than {MAX_REPLY_BYTES} bytes, which is more than is read."
            )));
        }
        if data.len() > MAX_EVENT_BYTES {
            self.fault.get_or_insert_with(|| {
                ModelFault::permanent(&format!(
                    "An event of the reply has {} bytes, and the limit is {MAX_EVENT_BYTES} bytes for one event.",
                    data.len()
                ))
            });
        }
        if self.fault.is_some() || data.trim().is_empty() {
            return;
        }
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

    /// Notes a call, if it is not one too many.
    fn begin_call(&mut self, call: FramedCall) {
        if self.calls.len() < MAX_REPLY_CALLS {
            self.calls.push(call);
        } else {
            self.fault.get_or_insert_with(ModelFault::too_many_calls);
        }
    }

    /// Whether the provider said that the reply is whole.
    pub(super) fn are_whole(&self) -> bool {
        self.finish.is_some() && self.fault.is_none()
    }

    /// What was wrong with a frame, or what one said was wrong.
    pub(super) fn fault(&self) -> Option<&ModelFault> {
        self.fault.as_ref()
    }

    fn break_off(&mut self, words: &str) {
        self.fault.get_or_insert_with(|| ModelFault::transient(words, None));
    }
}

/// The text of arguments, which some write as JSON and some as a string of JSON.
fn arguments_text(raw: Option<&RawValue>) -> serde_json::Result<String> {
    match raw.map(RawValue::get) {
        None | Some("null") => Ok(String::new()),
        Some(text) if text.starts_with('"') => serde_json::from_str(text),
        Some(text) => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests;
