//! Tool calls as text, for models without native tool calls.
//!
//! The prompt describes the tools, and the model writes
//! `[TOOL_CALL]{"name": "...", "args": {...}}[/TOOL_CALL]`. It reads the answer as
//! `Tool result (NAME): ...`. [`as_text`] converts an ordinary request, and [`read`]
//! extracts the calls from the reply. Only the model's own text in that reply is
//! parsed for calls: tags in the text of a user or a tool are ordinary text.

mod reader;

pub use reader::{CLOSE, OPEN};

use crate::message::{AssistantMessage, Message, ModelCall, ModelReply, ModelRequest, ToolSpec};
use crate::text::clean;
use reader::Piece;
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;

/// The longest part of a malformed call that is quoted to the model, in bytes.
const MAX_QUOTED_BYTES: usize = 500;

/// Converts a request for a model without native tool calls.
#[must_use]
pub fn as_text(request: &ModelRequest) -> ModelRequest {
    ModelRequest {
        system: instructions(&request.system, &request.tools),
        messages: Arc::new(request.messages.iter().map(message_as_text).collect()),
        tools: Arc::default(),
        memory: request.memory.clone(),
    }
}

/// Extracts the calls from the reply's text. A call that cannot be parsed has no id by
/// which it could be answered: the reply then carries a correction for the next
/// request.
#[must_use]
pub fn read(mut reply: ModelReply) -> ModelReply {
    let written = std::mem::take(&mut reply.message.text);
    let mut text = String::new();
    let mut malformed = Vec::new();
    for piece in reader::pieces(&written) {
        match piece {
            Piece::Text(said) => text.push_str(said),
            Piece::Call { name, arguments } => {
                Arc::make_mut(&mut reply.message.calls).push(ModelCall {
                    name,
                    arguments,
                    ..ModelCall::default()
                });
            }
            Piece::Malformed { why, sent } => malformed.push((why, sent)),
        }
    }
    reply.message.text = text.trim().to_owned();
    reply.correction = correction(&malformed);
    reply
}

fn correction(malformed: &[(String, &str)]) -> Option<String> {
    if malformed.is_empty() {
        return None;
    }
    let mut words = String::from("Part of your reply looks like a tool call but could not be read.\n");
    for (why, sent) in malformed {
        // Writing to a string does not fail.
        let _ = writeln!(words, "- {why}. You wrote: {}", clean(sent, MAX_QUOTED_BYTES));
    }
    let _ = write!(words, "Write it again, as {OPEN}{{\"name\": \"TOOL\", \"args\": {{...}}}}{CLOSE}.");
    Some(words)
}

fn instructions(system: &Arc<str>, tools: &[ToolSpec]) -> Arc<str> {
    if tools.is_empty() {
        return Arc::clone(system);
    }
    let mut words = String::from(&**system);
    if !words.is_empty() {
        words.push_str("\n\n");
    }
    let _ = write!(
        words,
        "# Tools\n\nTo call a tool, write\n{OPEN}{{\"name\": \"TOOL\", \"args\": {{...}}}}{CLOSE}\n\
         and nothing after it; several calls one after the other run at once. The next message then begins with \
         \"Tool result (TOOL):\". `args` is one JSON object that fits the tool's schema. The tools are:\n"
    );
    for tool in tools {
        let _ = write!(
            words,
            "\n## {}\n{}\nSchema of `args`: {}\n",
            tool.name, tool.description, tool.parameters
        );
    }
    Arc::from(words)
}

fn message_as_text(message: &Message) -> Message {
    match message {
        Message::Assistant(said) if !said.calls.is_empty() => Message::Assistant(AssistantMessage {
            text: with_calls(&said.text, &said.calls),
            reasoning: said.reasoning.clone(),
            calls: Arc::default(),
        }),
        Message::Answer(answer) => {
            Message::User(format!("Tool result ({}): {}", answer.tool_name, answer.content))
        }
        other => other.clone(),
    }
}

fn with_calls(text: &str, calls: &[ModelCall]) -> String {
    let mut words = String::from(text);
    for call in calls {
        if !words.is_empty() {
            words.push('\n');
        }
        // Text that is not valid JSON is shown unchanged.
        let args = crate::json::parse(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
        let _ = write!(words, "{OPEN}{}{CLOSE}", json!({"name": call.name, "args": args}));
    }
    words
}

#[cfg(test)]
mod tests;
