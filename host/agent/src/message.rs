//! A conversation as a model reads it and writes it.

use crate::content::ContentPart;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;
use std::sync::Arc;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// A message of a person.
    User(String),
    /// A message of the model, with the calls that it requested.
    Assistant(AssistantMessage),
    /// The one answer to one call.
    Answer(Answer),
    /// A message of the host to the model: a correction, or a note that a tool or
    /// hook left, marked as such. It never becomes part of the system prompt.
    Note(String),
}

/// A model's message in one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The text; may be empty if there are calls.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Its reasoning, if the provider shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The calls, in the order in which the model asked. Shared by the record of the run
    /// and the conversation.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub calls: Arc<Vec<ModelCall>>,
}

fn is_empty(calls: &Arc<Vec<ModelCall>>) -> bool {
    calls.is_empty()
}

/// A call as the model wrote it, unchecked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The provider's id, or one that the host made; unique within the run once
    /// the reply is recorded.
    pub id: String,
    /// The requested tool.
    pub name: String,
    /// The arguments as text, exactly as they came.
    pub arguments: String,
    /// Opaque data that the provider expects back with the call (thinking
    /// signatures).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_data: Option<Value>,
}

/// The result of a call as the model reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The call that is answered.
    pub call_id: SmolStr,
    /// The tool's name, stamped by the host.
    pub tool_name: SmolStr,
    /// The text, bounded.
    pub content: Arc<str>,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
    /// The images of the result, which a model that sees them is shown. The text describes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ContentPart>,
}

/// A tool as the model sees it: only name, description and parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name to call.
    pub name: String,
    /// A description of its effect.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// A request to a model.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    /// The agent's instructions; empty for none.
    pub system: Arc<str>,
    /// The conversation, oldest first. Every call in it has its answer.
    pub messages: Arc<Vec<Message>>,
    /// The tools on offer, sorted by name; empty means no tool section at all.
    pub tools: Arc<Vec<ToolSpec>>,
    /// The memory in which a long reply is reserved before it is kept. `None` if its size is bounded in
    /// another way. The host sets it as the last step before it asks.
    pub memory: Option<Arc<dyn ReplyMemory>>,
}

/// The memory that a host grants to one reply.
pub trait ReplyMemory: std::fmt::Debug + Send + Sync {
    /// Reserves memory, so that the reply has at least this many bytes. They are returned once this
    /// value is dropped. Must not block.
    ///
    /// # Errors
    /// Returns the reason, for people, if they are not free. Earlier reservations stay.
    fn reserve(&self, bytes: u64) -> Result<(), String>;
}

/// A model's complete reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// Text, reasoning and calls.
    pub message: AssistantMessage,
    /// The reason why it stopped.
    pub finish: Finish,
    /// The tokens that it used.
    #[serde(default)]
    pub usage: TokenUsage,
    /// The model that replied, as the provider names it, or as it is configured. `None` if no model
    /// replied, and in records of versions that did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<SmolStr>,
    /// The error of a call that has no id by which it could be answered. The model reads
    /// it with its next request. Only [`text_calls`](crate::text_calls) sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<String>,
}

/// The reason why a model stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done, or it waits for the results of its calls.
    #[default]
    Stop,
    /// Its output reached the provider's limit in mid-sentence.
    Length,
    /// The provider withheld it.
    Filtered,
}

/// Tokens, as the provider counts them; zero if it does not report them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
}

impl TokenUsage {
    /// Adds another count.
    #[must_use]
    pub fn plus(self, other: TokenUsage) -> TokenUsage {
        TokenUsage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }

    /// Returns the tokens read and written.
    #[must_use]
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}
