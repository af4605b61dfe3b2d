//! Reading a request for a chat completion.

use crate::agent_runs::history::{ClientMessage, Role};
use crate::openai::OpenAiError;
use serde_json::{Map, Value};
use tollgate_agent::text::one_line;

/// The maximum number of parameters that an answer names as not applied.
const MAX_IGNORED: usize = 50;
/// The maximum length of a parameter's name in that list, in bytes.
const MAX_NAME_BYTES: usize = 100;

/// The reason why a request cannot set the format of the answer.
pub(crate) const FORMAT_IS_SET: &str = "the operator sets the format of the answer, with `output` of the agent; leave it \
    out, and read the answer as text or as the agent's JSON";

/// A request for a chat completion.
#[derive(Debug, PartialEq)]
pub(super) struct CompletionRequest {
    /// The agent's id.
    pub(super) model: String,
    pub(super) messages: Vec<ClientMessage>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// The thread that `metadata.thread_id` names.
    pub(super) thread: Option<String>,
    /// The parameters that are not applied.
    pub(super) ignored: Vec<String>,
}

impl CompletionRequest {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// The body is not valid, or asks for something that no agent can do.
    pub(super) fn read(body: &[u8]) -> Result<Self, OpenAiError> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|why| OpenAiError::param("body", format!("the body is not valid JSON: {why}")))?;
        let Value::Object(mut body) = body else {
            return Err(OpenAiError::param("body", "the body is not a JSON object"));
        };
        let model = required_text(&mut body, "model")?;
        let messages = read_messages(body.shift_remove("messages"))?;
        let stream = read_flag(&mut body, "stream")?;
        let include_usage = body
            .shift_remove("stream_options")
            .is_some_and(|options| options["include_usage"].as_bool().unwrap_or_default());
        refuse_unsupported(&body)?;
        let thread = match body.get("metadata").and_then(|metadata| metadata.get("thread_id")) {
            None | Some(Value::Null) => None,
            Some(Value::String(thread)) => Some(thread.clone()),
            Some(_) => return Err(OpenAiError::param("metadata.thread_id", "the thread id is not a string")),
        };
        Ok(Self { model, messages, stream, include_usage, thread, ignored: ignored(&body) })
    }
}

/// Refuses parameters whose absence would change the meaning or the shape of the answer.
fn refuse_unsupported(body: &Map<String, Value>) -> Result<(), OpenAiError> {
    let refuse = |param: &str, why: &str| Err(OpenAiError::param(param, why).with_code("unsupported"));
    let is_set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    let is_used = |name: &str| body.get(name).is_some_and(is_set);
    if body.get("n").and_then(Value::as_u64).is_some_and(|n| n > 1) {
        return refuse("n", "an agent gives one answer; leave out `n`");
    }
    if body.get("store") == Some(&Value::Bool(false)) {
        return refuse("store", "every run is recorded; leave out `store`");
    }
    if is_used("logprobs") || is_used("top_logprobs") {
        return refuse("logprobs", "log probabilities are not available");
    }
    if is_used("audio") {
        return refuse("audio", "an agent answers with text");
    }
    if let Some(Value::Array(modalities)) = body.get("modalities")
        && modalities.iter().any(|modality| modality != "text")
    {
        return refuse("modalities", "an agent answers with text");
    }
    for name in ["tools", "functions"] {
        if body.get(name).and_then(Value::as_array).is_some_and(|tools| !tools.is_empty()) {
            return refuse(name, "the agent's tools run on this server; a request cannot bring its own");
        }
    }
    if is_used("web_search_options") {
        return refuse("web_search_options", "the agent's tools are set by the operator");
    }
    match body.get("response_format").and_then(|format| format["type"].as_str()) {
        None | Some("text") => Ok(()),
        Some(_) => refuse("response_format", FORMAT_IS_SET),
    }
}

/// Returns the names of the remaining parameters, which are not applied. Values that change
/// nothing do not count.
fn ignored(body: &Map<String, Value>) -> Vec<String> {
    const EMPTY: [&str; 3] = ["tools", "functions", "response_format"];
    const APPLIED: [&str; 3] = ["metadata", "n", "modalities"];
    let changes_nothing = |name: &str, value: &Value| {
        value.is_null() || value == false || EMPTY.contains(&name) || APPLIED.contains(&name)
    };
    let names = body.iter().filter(|(name, value)| !changes_nothing(name, value));
    names.map(|(name, _)| one_line(name, MAX_NAME_BYTES)).take(MAX_IGNORED).collect()
}

fn read_messages(messages: Option<Value>) -> Result<Vec<ClientMessage>, OpenAiError> {
    let Some(Value::Array(messages)) = messages else {
        return Err(OpenAiError::param("messages", "`messages` must be a list of messages"));
    };
    let read = messages.into_iter().enumerate().map(|(at, message)| read_message(at, &message));
    read.collect()
}

fn read_message(at: usize, message: &Value) -> Result<ClientMessage, OpenAiError> {
    let place = |member: &str| format!("messages[{at}].{member}");
    let role = match message["role"].as_str() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => {
            let why = "the role must be system, developer, user, assistant or tool";
            return Err(OpenAiError::param(place("role"), why));
        }
    };
    if message["content"].is_null() && matches!(role, Role::System | Role::User) {
        let why = "the content must be a string or a list of parts; only an assistant may leave it out";
        return Err(OpenAiError::param(place("content"), why));
    }
    let mut text = read_content(&message["content"], &place("content"))?;
    if role == Role::Assistant
        && let Some(Value::Array(calls)) = message.get("tool_calls")
    {
        for call in calls {
            let function = &call["function"];
            let name = function["name"].as_str().unwrap_or_default();
            let arguments = function["arguments"].as_str().unwrap_or_default();
            text.push_str(&format!("\n[called {name} with {arguments}]"));
        }
    }
    Ok(ClientMessage { role, text })
}

/// Reads the text of a message: a string, or a list of text parts.
pub(crate) fn read_content(content: &Value, place: &str) -> Result<String, OpenAiError> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Null => Ok(String::new()),
        Value::Array(parts) => {
            let mut texts = Vec::with_capacity(parts.len());
            for (at, part) in parts.iter().enumerate() {
                let text = match part["type"].as_str() {
                    Some("text" | "input_text" | "output_text") => part["text"].as_str(),
                    Some("refusal") => part["refusal"].as_str(),
                    _ => None,
                };
                let why = "an agent reads text only; leave out images, audio and files";
                let text = text.ok_or_else(|| {
                    OpenAiError::param(format!("{place}[{at}]"), why).with_code("unsupported")
                })?;
                texts.push(text);
            }
            Ok(texts.join("\n"))
        }
        _ => Err(OpenAiError::param(place, "the content must be a string or a list of parts")),
    }
}

fn required_text(body: &mut Map<String, Value>, name: &str) -> Result<String, OpenAiError> {
    match body.shift_remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(OpenAiError::param(name, format!("`{name}` is missing or not a string"))),
    }
}

fn read_flag(body: &mut Map<String, Value>, name: &str) -> Result<bool, OpenAiError> {
    match body.shift_remove(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(_) => Err(OpenAiError::param(name, format!("`{name}` must be true or false"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(more: Value) -> Result<CompletionRequest, String> {
        let mut body = json!({"model": "clerk", "messages": [{"role": "user", "content": "Hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let read = CompletionRequest::read(body.to_string().as_bytes());
        read.map_err(|why| why.to_json()["error"]["param"].as_str().unwrap_or("no param").to_owned())
    }

    #[test]
    fn what_is_not_applied_is_named_and_what_cannot_be_done_is_refused() {
        let more = json!({
            "temperature": 0.2, "seed": 7, "user": "ada", "top_p": null, "n": 1, "tools": [],
            "logprobs": false, "response_format": {"type": "text"}, "metadata": {"thread_id": "t"},
            "stream": true, "stream_options": {"include_usage": true}, "made_up": {"a": 1},
        });
        let request = read(more).unwrap();
        assert_eq!(request.ignored, ["temperature", "seed", "user", "made_up"]);
        assert_eq!(request.thread.as_deref(), Some("t"));
        assert!(request.stream && request.include_usage);
        for (more, param) in [
            (json!({"n": 2}), "n"),
            (json!({"logprobs": true}), "logprobs"),
            (json!({"modalities": ["text", "audio"]}), "modalities"),
            (json!({"tools": [{"type": "function"}]}), "tools"),
            (json!({"functions": [{}]}), "functions"),
            (json!({"response_format": {"type": "json_object"}}), "response_format"),
            (json!({"stream": "yes"}), "stream"),
            (json!({"model": 1}), "model"),
            (json!({"messages": "Hi"}), "messages"),
            (json!({"messages": [{"role": "robot"}]}), "messages[0].role"),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
                "messages[0].content[0]",
            ),
            (json!({"messages": [{"role": "user", "content": null}]}), "messages[0].content"),
            (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
            (json!({"metadata": {"thread_id": 1}}), "metadata.thread_id"),
        ] {
            assert_eq!(read(more).unwrap_err(), param);
        }
        assert!(CompletionRequest::read(b"[").is_err() && CompletionRequest::read(b"[]").is_err());
    }

    #[test]
    fn calls_and_parts_of_messages_become_text() {
        let request = read(json!({"messages": [
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c", "function": {"name": "add", "arguments": "{\"a\":1}"}},
            ]},
            {"role": "tool", "tool_call_id": "c", "content": "2"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ]}));
        let texts: Vec<String> = request.unwrap().messages.into_iter().map(|m| m.text).collect();
        assert_eq!(texts, ["\n[called add with {\"a\":1}]", "2", "a\nb"]);
    }
}
