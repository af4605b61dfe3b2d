//! `search_history`: finds earlier messages of the conversation, including those that the model
//! no longer sees.

use crate::tools::{NativeTool, ToolCall};
use async_trait::async_trait;
use serde_json::{Value, json};
use tollgate_agent::descriptor::{ExecutionPolicy, ToolDescriptor};
use tollgate_agent::message::Message;
use tollgate_agent::name::SEARCH_HISTORY;
use tollgate_agent::outcome::{Fault, ToolOutput, ToolResult};
use tollgate_agent::text::clean;

/// The default maximum number of results.
const DEFAULT_LIMIT: u64 = 10;
/// The highest number of results that a call may ask for.
const MAX_LIMIT: u64 = 50;
/// The longest excerpt of one message, in bytes.
const MAX_SHOWN_BYTES: usize = 4 * 1024;

/// Searches the messages that the run had when the call began.
pub(super) struct SearchHistory;

#[async_trait]
impl NativeTool for SearchHistory {
    fn descriptor(&self) -> ToolDescriptor {
        ToolDescriptor::new(
            SEARCH_HISTORY.replace('_', "-"),
            SEARCH_HISTORY,
            "Finds earlier messages of this conversation, newest first, including those that you do not see.",
        )
        .with_category("memory")
        .with_execution(ExecutionPolicy { idempotent: true, ..ExecutionPolicy::default() })
        .with_parameters(json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "Only messages that contain this text, ignoring case."},
                "role": {"enum": ["user", "assistant", "tool"], "description": "Only messages of this role."},
                "number": {"type": "integer", "minimum": 1, "description": "Only the message with this number; 1 is the first of the conversation."},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "description": "Maximum number of results (default 10)."},
            },
            "additionalProperties": false,
        }))
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        Ok(ToolResult::success(search(call.history(), call.arguments())).into())
    }
}

/// Returns the matching messages, newest first, with the total number of matches.
fn search(messages: &[Message], wanted: &Value) -> Value {
    let text = wanted["text"].as_str().map(str::to_lowercase);
    let fits = |number: u64, role: &str, said: &str| {
        wanted["number"].as_u64().is_none_or(|wanted| wanted == number)
            && wanted["role"].as_str().is_none_or(|wanted| wanted == role)
            && text.as_ref().is_none_or(|text| said.to_lowercase().contains(text))
    };
    let limit = wanted["limit"].as_u64().unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let mut found = Vec::new();
    let mut count = 0_u64;
    for (index, message) in messages.iter().enumerate().rev() {
        let Some((role, said)) = said(message) else { continue };
        let number = index as u64 + 1;
        if !fits(number, role, said) {
            continue;
        }
        count += 1;
        if count <= limit {
            found.push(json!({"number": number, "role": role, "text": clean(said, MAX_SHOWN_BYTES)}));
        }
    }
    json!({"messages": found, "count": count})
}

/// Returns the speaker and the text; messages of the host have no speaker.
fn said(message: &Message) -> Option<(&'static str, &str)> {
    match message {
        Message::User(text) => Some(("user", text)),
        Message::Assistant(said) if said.text.is_empty() => None,
        Message::Assistant(said) => Some(("assistant", &said.text)),
        Message::Answer(answer) => Some(("tool", &answer.content)),
        Message::Note(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_agent::message::AssistantMessage;

    #[test]
    fn b1_messages_are_found_by_text_role_and_number() {
        let says = |text: &str| {
            Message::Assistant(AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() })
        };
        let messages = [
            Message::User("Where is Bern?".to_owned()),
            says("BERN is in Switzerland."),
            Message::Note("A note on Bern.".to_owned()),
            Message::User("And Rome?".to_owned()),
        ];
        let numbers = |wanted: Value| {
            let found = search(&messages, &wanted);
            let numbers = found["messages"].as_array().map(|all| all.iter().map(|m| m["number"].as_u64()));
            (numbers.map(|n| n.flatten().collect::<Vec<_>>()).unwrap_or_default(), found["count"].as_u64())
        };
        assert_eq!(numbers(json!({})), (vec![4, 2, 1], Some(3)));
        assert_eq!(numbers(json!({"text": "bern"})), (vec![2, 1], Some(2)));
        assert_eq!(numbers(json!({"text": "bern", "role": "user"})), (vec![1], Some(1)));
        assert_eq!(numbers(json!({"number": 4})), (vec![4], Some(1)));
        assert_eq!(numbers(json!({"limit": 1})), (vec![4], Some(3)));
        assert_eq!(numbers(json!({"text": "Paris"})), (vec![], Some(0)));
    }
}
