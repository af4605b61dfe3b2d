//! Reading a request of a chat of the AI SDK.

use crate::agent_runs::Approval;
use crate::agent_runs::history::{ClientMessage, Role};
use crate::problem::Problem;
use axum::http::StatusCode;
use serde_json::Value;
use tollgate_agent::text::one_line;

/// The maximum number of members that an answer names as not applied.
const MAX_IGNORED: usize = 50;

/// A request of a chat.
#[derive(Debug, PartialEq)]
pub(super) struct ChatRequest {
    /// The chat's id, which names the thread.
    pub(super) chat: String,
    pub(super) action: Action,
    /// The messages before the last one, as they were sent.
    earlier: Vec<Value>,
    /// The members of the request that are not applied.
    pub(super) ignored: Vec<String>,
}

/// The request of the last message.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// The user wrote this.
    Prompt(String),
    /// The user answered questions about calls of the message with this id.
    Decide { message_id: String, approvals: Vec<Approval> },
}

impl ChatRequest {
    /// Reads the body of a request.
    pub(super) fn read(body: &[u8]) -> Result<Self, Problem> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|why| wrong(format!("the body is not valid JSON: {why}")))?;
        let Some(chat) = body["id"].as_str() else {
            return Err(wrong("the chat's `id` is missing"));
        };
        if body["trigger"] == "regenerate-message" {
            let why = "a recorded answer cannot be replaced; send a new message";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unsupported", why));
        }
        let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some((last, earlier)) = messages.split_last() else {
            return Err(wrong("`messages` is missing or empty"));
        };
        let action = match last["role"].as_str() {
            // `useChat` names a message of the user only to replace it and those that follow.
            Some("user") if body["messageId"].is_string() => {
                let why = "a recorded message cannot be edited; send a new message, or start a new chat";
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unsupported", why));
            }
            Some("user") => Action::Prompt(text_of(last)?),
            Some("assistant") => decisions_of(last)?,
            _ => return Err(wrong("the last message must be the user's, or the assistant's with decisions")),
        };
        let known = ["id", "messages", "trigger", "messageId"];
        let names = body.as_object().into_iter().flat_map(serde_json::Map::keys);
        let names = names.filter(|name| !known.contains(&name.as_str()));
        let ignored = names.map(|name| one_line(name, 100)).take(MAX_IGNORED).collect();
        Ok(Self { chat: chat.to_owned(), action, earlier: earlier.to_vec(), ignored })
    }

    /// Returns the conversation before the last message, as text, for a chat that the server does not
    /// have.
    ///
    /// # Errors
    /// A message has content that no agent reads.
    pub(super) fn earlier(&self) -> Result<Vec<ClientMessage>, Problem> {
        let mut messages = Vec::with_capacity(self.earlier.len());
        for message in &self.earlier {
            let role = match message["role"].as_str() {
                Some("system") => Role::System,
                Some("user") => Role::User,
                Some("assistant") => Role::Assistant,
                _ => return Err(wrong("the role of a message must be system, user or assistant")),
            };
            read_parts(role, parts_of(message), &mut messages)?;
        }
        Ok(messages)
    }
}

/// Reads the parts of an earlier message: its text, and the answers of its calls.
fn read_parts(role: Role, parts: &[Value], messages: &mut Vec<ClientMessage>) -> Result<(), Problem> {
    for part in parts {
        let kind = part["type"].as_str().unwrap_or_default();
        if let ("text", Some(text)) = (kind, part["text"].as_str()) {
            messages.push(ClientMessage { role, text: text.to_owned() });
        } else if kind == "dynamic-tool" || kind.starts_with("tool-") {
            let name = part["toolName"].as_str().unwrap_or(kind.trim_start_matches("tool-"));
            let answer = [&part["output"], &part["errorText"]].into_iter().find(|answer| !answer.is_null());
            let answer = answer.map_or("no answer".to_owned(), Value::to_string);
            messages.push(ClientMessage {
                role: Role::Tool,
                text: format!("{name} with {}:\n{answer}", part["input"]),
            });
        } else if kind == "file" {
            return Err(not_text(kind));
        }
        // Other parts, such as reasoning, sources and data, are not part of what was said.
    }
    Ok(())
}

fn not_text(kind: &str) -> Problem {
    let why = format!("an agent reads text only; leave out parts of the type `{}`", one_line(kind, 60));
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unsupported", why)
}

fn wrong(why: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad_request", why)
}

fn parts_of(message: &Value) -> &[Value] {
    message["parts"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text_of(message: &Value) -> Result<String, Problem> {
    let mut texts = Vec::new();
    for part in parts_of(message) {
        let kind = part["type"].as_str().unwrap_or_default();
        match (kind, part["text"].as_str()) {
            ("text", Some(text)) => texts.push(text),
            // Data of the page is not part of what the user wrote.
            _ if kind.starts_with("data-") => {}
            _ => return Err(not_text(kind)),
        }
    }
    match texts.is_empty() {
        true => Err(wrong("the last message has no text")),
        false => Ok(texts.join("\n")),
    }
}

fn decisions_of(message: &Value) -> Result<Action, Problem> {
    let mut approvals = Vec::new();
    for part in parts_of(message).iter().filter(|part| part["state"] == "approval-responded") {
        let approval = &part["approval"];
        let (Some(question), Some(approves)) = (approval["id"].as_str(), approval["approved"].as_bool())
        else {
            return Err(wrong("an answered approval has no `id` or `approved`"));
        };
        let (question, reason) = (question.to_owned(), approval["reason"].as_str().map(str::to_owned));
        approvals.push(Approval { question, approves, reason });
    }
    let message_id = message["id"].as_str().unwrap_or_default().to_owned();
    match approvals.is_empty() {
        true => Err(wrong("the last message is the assistant's and decides nothing")),
        false => Ok(Action::Decide { message_id, approvals }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(last: Value) -> Result<ChatRequest, &'static str> {
        let body = json!({"id": "chat", "trigger": "submit-message", "messages": [last], "model": "x"});
        ChatRequest::read(body.to_string().as_bytes()).map_err(|why| why.code)
    }

    #[test]
    fn the_last_message_is_a_prompt_or_decides() {
        let request = read(json!({"role": "user", "parts": [
            {"type": "text", "text": "a"}, {"type": "data-page", "data": 1}, {"type": "text", "text": "b"},
        ]}));
        let request = request.unwrap();
        assert_eq!(
            (request.action, request.ignored),
            (Action::Prompt("a\nb".to_owned()), vec!["model".to_owned()])
        );
        let request = read(json!({"id": "r", "role": "assistant", "parts": [
            {"type": "text", "text": "a"},
            {"type": "dynamic-tool", "state": "output-available"},
            {"type": "dynamic-tool", "state": "approval-responded", "approval": {"id": "c/1", "approved": false, "reason": "no"}},
        ]}));
        let approval =
            Approval { question: "c/1".to_owned(), approves: false, reason: Some("no".to_owned()) };
        let decide = Action::Decide { message_id: "r".to_owned(), approvals: vec![approval] };
        assert_eq!(request.unwrap().action, decide);
        let chat = json!({"id": "c", "messages": [
            {"role": "user", "parts": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "parts": [
                {"type": "step-start"}, {"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "One."},
                {"type": "tool-add", "state": "output-available", "input": {"a": 1}, "output": 3},
            ]},
            {"role": "user", "parts": [{"type": "text", "text": "So?"}]},
        ]});
        let chat = ChatRequest::read(chat.to_string().as_bytes()).unwrap();
        let texts: Vec<String> = chat.earlier().unwrap().into_iter().map(|message| message.text).collect();
        assert_eq!(texts, ["Hi", "One.", "add with {\"a\":1}:\n3"]);
        let file = json!({"id": "c", "messages": [
            {"role": "user", "parts": [{"type": "file"}]}, {"role": "user", "parts": [{"type": "text", "text": "a"}]},
        ]});
        let file = ChatRequest::read(file.to_string().as_bytes()).unwrap();
        assert_eq!(file.earlier().unwrap_err().code, "unsupported");
        for wrong in [
            json!({"role": "user", "parts": []}),
            json!({"role": "assistant", "parts": [{"type": "text", "text": "a"}]}),
            json!({"role": "assistant", "parts": [{"state": "approval-responded"}]}),
            json!({"role": "system", "parts": []}),
        ] {
            assert_eq!(read(wrong), Err("bad_request"));
        }
        assert_eq!(read(json!({"role": "user", "parts": [{"type": "file"}]})), Err("unsupported"));
        let again = json!({"id": "c", "trigger": "regenerate-message", "messages": []});
        assert!(ChatRequest::read(again.to_string().as_bytes()).is_err());
        let prompt = json!({"id": "m", "role": "user", "parts": [{"type": "text", "text": "a"}]});
        let edit = json!({"id": "c", "trigger": "submit-message", "messageId": "m", "messages": [prompt]});
        assert_eq!(ChatRequest::read(edit.to_string().as_bytes()).unwrap_err().code, "unsupported");
    }
}
