//! A conversation as a model reads it and writes it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;
use std::sync::Arc;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// What a person said.
    User(String),
    /// What the model said, with the calls that it asked for.
    Assistant(AssistantMessage),
    /// The one answer to one call.
    Answer(Answer),
    /// A word of the host to the model: a correction, or a note that a tool or
    /// hook left, marked as such. It never becomes part of the system prompt.
    Note(String),
}

/// What a model said in one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The text; may be empty where there are calls.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What it thought aloud, where the provider shows it.
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

/// A call as the model wrote it; nothing of it has been checked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The provider's id, or one that the host made; unique within the run once
    /// the reply is recorded.
    pub id: String,
    /// The tool that is asked for.
    pub name: String,
    /// The arguments as text, exactly as they came.
    pub arguments: String,
    /// What the provider wants to see again beside the call (thinking
    /// signatures); opaque.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_data: Option<Value>,
}

/// What the model reads as the result of a call.
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
}

/// A tool as the model is told of it: nothing but name, description, parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name to call.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// What a model is asked.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    /// The agent's instructions; empty for none.
    pub system: Arc<str>,
    /// The conversation, oldest first. Every call in it has its answer.
    pub messages: Arc<Vec<Message>>,
    /// The tools on offer, sorted by name; empty means no tool section at all.
    pub tools: Arc<Vec<ToolSpec>>,
}

/// What a model replied, once the whole of it is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// Text, reasoning and calls.
    pub message: AssistantMessage,
    /// Why it stopped.
    pub finish: Finish,
    /// What it cost.
    #[serde(default)]
    pub usage: TokenUsage,
    /// What was wrong with a call that has no id to be answered by: the model reads
    /// it with its next request. Only [`text_calls`](crate::text_calls) has such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<String>,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done, or it wants its calls answered.
    #[default]
    Stop,
    /// Its output reached the provider's limit in mid-sentence.
    Length,
    /// The provider withheld it.
    Filtered,
}

/// Tokens, as the provider counts them; zero where it does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
}

impl TokenUsage {
    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: TokenUsage) -> TokenUsage {
        TokenUsage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }

    /// Tokens read and written.
    #[must_use]
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}
