//! Reading the input of a run.

use super::encode::AgUiVersion;
use crate::agent_runs::history::{ClientMessage, Role};
use crate::problem::Problem;
use axum::http::StatusCode;
use serde_json::{Map, Value};
use tollgate_agent::text::one_line;

/// The input of a run (`RunAgentInput`).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunInput {
    /// The client's name of the thread.
    pub(super) thread: String,
    /// The client's name of the run.
    pub(super) run: String,
    pub(super) version: AgUiVersion,
    /// The messages as they were sent.
    pub(super) sent: Vec<Value>,
    pub(super) state: Map<String, Value>,
    pub(super) resume: Vec<Resume>,
    /// The members that are not applied.
    pub(super) ignored: Vec<String>,
}

/// An answer to an interrupt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Resume {
    /// The run and the suspension that the interrupt's id names.
    pub(super) run_id: String,
    pub(super) suspension: String,
    pub(super) is_resolved: bool,
    pub(super) payload: Option<Value>,
}

impl RunInput {
    /// Reads the body of a request.
    pub(super) fn read(body: &[u8]) -> Result<Self, Problem> {
        let wrong = |why: String| Problem::new(StatusCode::BAD_REQUEST, "bad_request", why);
        let body: Value = serde_json::from_slice(body)
            .map_err(|why| wrong(format!("the body is not valid JSON: {why}")))?;
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        let id = |name: &str| {
            text(name).filter(|id| !id.is_empty()).ok_or_else(|| wrong(format!("`{name}` is missing")))
        };
        let sent = body["messages"].as_array().cloned().unwrap_or_default();
        let resume = match &body["resume"] {
            Value::Null => Vec::new(),
            Value::Array(entries) => entries
                .iter()
                .map(|entry| {
                    read_resume(entry).ok_or_else(|| wrong("an entry of `resume` is malformed".to_owned()))
                })
                .collect::<Result<_, _>>()?,
            _ => return Err(wrong("`resume` is not a list".to_owned())),
        };
        let is_set = |name: &str| match &body[name] {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(members) => !members.is_empty(),
            _ => true,
        };
        let members = ["tools", "context", "state", "forwardedProps", "parentRunId"];
        Ok(Self {
            thread: id("threadId")?,
            run: id("runId")?,
            version: if text("protocolVersion").is_some() { AgUiVersion::V1 } else { AgUiVersion::V0 },
            sent,
            state: body["state"].as_object().cloned().unwrap_or_default(),
            resume,
            ignored: members.into_iter().filter(|name| is_set(name)).map(str::to_owned).collect(),
        })
    }

    /// Returns the conversation as text.
    ///
    /// # Errors
    /// A message has content that no agent reads: why.
    pub(super) fn messages(&self) -> Result<Vec<ClientMessage>, String> {
        let mut messages = Vec::with_capacity(self.sent.len());
        for message in &self.sent {
            let role = match message["role"].as_str() {
                Some("system" | "developer") => Role::System,
                Some("user") => Role::User,
                Some("assistant") => Role::Assistant,
                Some("tool") => Role::Tool,
                // The client shows these beside the conversation.
                Some("activity" | "reasoning") => continue,
                role => {
                    let role = one_line(role.unwrap_or("none"), 60);
                    return Err(format!("a message has the role `{role}`, which is not known"));
                }
            };
            messages.push(ClientMessage { role, text: read_content(&message["content"])? });
        }
        Ok(messages)
    }
}

fn read_resume(entry: &Value) -> Option<Resume> {
    let is_resolved = match entry["status"].as_str()? {
        "resolved" => true,
        "cancelled" => false,
        _ => return None,
    };
    // An id without a run is that of no interrupt.
    let (run_id, suspension) = entry["interruptId"].as_str()?.split_once('/').unwrap_or_default();
    let (run_id, suspension) = (run_id.to_owned(), suspension.to_owned());
    Some(Resume { run_id, suspension, is_resolved, payload: entry.get("payload").cloned() })
}

fn read_content(content: &Value) -> Result<String, String> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let mut texts = Vec::with_capacity(parts.len());
            for part in parts {
                match (part["type"].as_str(), part["text"].as_str()) {
                    (Some("text"), Some(text)) => texts.push(text),
                    (kind, _) => {
                        let kind = one_line(kind.unwrap_or("none"), 60);
                        return Err(format!(
                            "an agent reads text only; leave out parts of the type `{kind}`"
                        ));
                    }
                }
            }
            Ok(texts.join("\n"))
        }
        _ => Ok(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn input_is_read_and_members_that_are_not_applied_are_named() {
        let body = json!({
            "threadId": "t", "runId": "r", "protocolVersion": "1.0",
            "messages": [
                {"id": "1", "role": "system", "content": "Be brief."},
                {"id": "2", "role": "activity", "activityType": "x", "content": {}},
                {"id": "3", "role": "user", "content": [{"type": "text", "text": "Hi"}]},
            ],
            "tools": [], "context": [{"description": "d", "value": "v"}], "state": {"a": 1}, "forwardedProps": {},
            "resume": [{"interruptId": "run/c/1", "status": "resolved", "payload": true}],
        });
        let input = RunInput::read(body.to_string().as_bytes()).unwrap();
        assert_eq!(input.ignored, ["context", "state"]);
        assert_eq!(input.version, AgUiVersion::V1);
        let texts: Vec<String> = input.messages().unwrap().into_iter().map(|m| m.text).collect();
        assert_eq!(texts, ["Be brief.", "Hi"]);
        let (run_id, suspension) = ("run".to_owned(), "c/1".to_owned());
        let resume = Resume { run_id, suspension, is_resolved: true, payload: Some(json!(true)) };
        assert_eq!(input.resume, [resume]);
    }

    #[test]
    fn malformed_input_is_refused() {
        for body in [
            json!([]),
            json!({"threadId": "t"}),
            json!({"threadId": "t", "runId": ""}),
            json!({"threadId": "t", "runId": "r", "resume": {}}),
            json!({"threadId": "t", "runId": "r", "resume": [{"interruptId": "c/1", "status": "maybe"}]}),
        ] {
            assert!(RunInput::read(body.to_string().as_bytes()).is_err(), "{body}");
        }
        let image = json!({"threadId": "t", "runId": "r", "messages": [
            {"role": "user", "content": [{"type": "image"}]},
        ]});
        assert!(RunInput::read(image.to_string().as_bytes()).unwrap().messages().is_err());
    }
}
