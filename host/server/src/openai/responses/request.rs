//! Reading a request for a response.

use crate::agent_runs::Approval;
use crate::agent_runs::history::{ClientMessage, Role};
use crate::openai::OpenAiError;
use crate::openai::chat::{FORMAT_IS_SET, read_content};
use serde_json::{Map, Value};
use tollgate_agent::text::one_line;

/// The maximum number of parameters that an answer names as not applied.
const MAX_IGNORED: usize = 50;
/// The maximum length of a parameter's name in that list, in bytes.
const MAX_NAME_BYTES: usize = 100;

/// A request for a response.
#[derive(Debug, PartialEq)]
pub(super) struct ResponseRequest {
    /// The agent's id.
    pub(super) model: String,
    pub(super) instructions: Option<String>,
    pub(super) messages: Vec<ClientMessage>,
    pub(super) approvals: Vec<Approval>,
    pub(super) previous: Option<String>,
    pub(super) stream: bool,
    pub(super) background: bool,
    /// The parameters that are not applied.
    pub(super) ignored: Vec<String>,
}

impl ResponseRequest {
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
        let Some(model) = text(&mut body, "model")? else {
            return Err(OpenAiError::param("model", "`model` is missing; name an agent"));
        };
        let instructions = text(&mut body, "instructions")?;
        let previous = text(&mut body, "previous_response_id")?;
        let (stream, background) = (flag(&mut body, "stream")?, flag(&mut body, "background")?);
        let (messages, approvals) = read_input(body.shift_remove("input"))?;
        refuse_unsupported(&body)?;
        let ignored = ignored(&body);
        Ok(Self { model, instructions, messages, approvals, previous, stream, background, ignored })
    }
}

/// Returns whether a tool only declares the label of a component, by which some clients find the
/// calls and questions of the agent's own tools.
fn is_declaration(tool: &Value) -> bool {
    let brings_a_server = |name: &str| tool.get(name).is_some_and(|value| !value.is_null());
    tool["type"] == "mcp"
        && tool["server_label"].is_string()
        && !["server_url", "connector_id", "authorization", "headers"].into_iter().any(brings_a_server)
}

/// Refuses parameters whose absence would change the meaning or the shape of the answer.
fn refuse_unsupported(body: &Map<String, Value>) -> Result<(), OpenAiError> {
    let refuse = |param: &str, why: &str| Err(OpenAiError::param(param, why).with_code("unsupported"));
    let is_used = |name: &str| body.get(name).is_some_and(|value| !value.is_null());
    if body.get("store") == Some(&Value::Bool(false)) {
        return refuse("store", "every run is recorded; leave out `store`");
    }
    let tools = body.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if !tools.iter().all(is_declaration) {
        let why = "the agent's tools run on this server; a request cannot bring its own, and a tool of the type \
                   `mcp` has a `server_label` alone";
        return refuse("tools", why);
    }
    for name in ["conversation", "prompt"] {
        if is_used(name) {
            return refuse(name, "not supported; use `previous_response_id` to continue a thread");
        }
    }
    let format = body.get("text").and_then(|text| text.get("format"));
    match format.and_then(|format| format["type"].as_str()) {
        None | Some("text") => Ok(()),
        Some(_) => refuse("text.format", FORMAT_IS_SET),
    }
}

fn ignored(body: &Map<String, Value>) -> Vec<String> {
    let changes_nothing = |name: &str, value: &Value| {
        let is_empty =
            value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty);
        value.is_null() || value == false || is_empty || matches!(name, "store" | "text")
    };
    let names = body.iter().filter(|(name, value)| !changes_nothing(name, value));
    names.map(|(name, _)| one_line(name, MAX_NAME_BYTES)).take(MAX_IGNORED).collect()
}

fn read_input(input: Option<Value>) -> Result<(Vec<ClientMessage>, Vec<Approval>), OpenAiError> {
    let items = match input {
        Some(Value::String(text)) => {
            return Ok((vec![ClientMessage { role: Role::User, text }], Vec::new()));
        }
        Some(Value::Array(items)) => items,
        _ => return Err(OpenAiError::param("input", "`input` must be a string or a list of items")),
    };
    let (mut messages, mut approvals) = (Vec::new(), Vec::new());
    for (at, item) in items.iter().enumerate() {
        let place = |member: &str| format!("input[{at}].{member}");
        match item["type"].as_str() {
            None | Some("message") => messages.push(read_message(item, &place)?),
            Some("mcp_approval_response") => approvals.push(read_approval(item, &place)?),
            // Items of earlier responses, which clients send back when they keep conversations.
            Some("mcp_call") => messages.push(ClientMessage { role: Role::Tool, text: read_call(item) }),
            Some("reasoning" | "mcp_approval_request" | "mcp_list_tools" | "item_reference") => {}
            Some(_) => {
                let why = "this item is not supported; send messages and mcp_approval_response";
                return Err(OpenAiError::param(place("type"), why).with_code("unsupported"));
            }
        }
    }
    Ok((messages, approvals))
}

fn read_message(item: &Value, place: &dyn Fn(&str) -> String) -> Result<ClientMessage, OpenAiError> {
    let role = match item["role"].as_str() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => {
            let why = "the role must be system, developer, user or assistant";
            return Err(OpenAiError::param(place("role"), why));
        }
    };
    Ok(ClientMessage { role, text: read_content(&item["content"], &place("content"))? })
}

fn read_approval(item: &Value, place: &dyn Fn(&str) -> String) -> Result<Approval, OpenAiError> {
    let question = item["approval_request_id"].as_str().map(str::to_owned);
    let why = "the id of the request for approval is missing";
    let question = question.ok_or_else(|| OpenAiError::param(place("approval_request_id"), why))?;
    let approves = item["approve"].as_bool();
    let approves =
        approves.ok_or_else(|| OpenAiError::param(place("approve"), "`approve` must be true or false"))?;
    Ok(Approval { question, approves, reason: item["reason"].as_str().map(str::to_owned) })
}

fn read_call(item: &Value) -> String {
    let name = item["name"].as_str().unwrap_or_default();
    let arguments = item["arguments"].as_str().unwrap_or_default();
    let output = match &item["output"] {
        Value::Null => item["error"].to_string(),
        Value::String(output) => output.clone(),
        output => output.to_string(),
    };
    format!("{name} with {arguments}:\n{output}")
}

fn text(body: &mut Map<String, Value>, name: &str) -> Result<Option<String>, OpenAiError> {
    match body.shift_remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(OpenAiError::param(name, format!("`{name}` must be a string"))),
    }
}

fn flag(body: &mut Map<String, Value>, name: &str) -> Result<bool, OpenAiError> {
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

    fn read(more: Value) -> Result<ResponseRequest, String> {
        let mut body = json!({"model": "clerk", "input": "Hi"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let read = ResponseRequest::read(body.to_string().as_bytes());
        read.map_err(|why| why.to_json()["error"]["param"].as_str().unwrap_or("no param").to_owned())
    }

    #[test]
    fn input_is_text_or_items() {
        let request = read(json!({"temperature": 1, "store": true, "include": [], "metadata": {}})).unwrap();
        assert_eq!(request.messages, [ClientMessage { role: Role::User, text: "Hi".to_owned() }]);
        assert_eq!(request.ignored, ["temperature"]);
        let declared = read(json!({"tools": [{"type": "mcp", "server_label": "echo"}]})).unwrap();
        assert_eq!(declared.ignored, ["tools"]);
        let items = json!([
            {"role": "developer", "content": "Be brief."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "mcp_call", "name": "add", "arguments": "{}", "output": "3"},
            {"type": "mcp_approval_response", "approval_request_id": "c/1", "approve": false, "reason": "no"},
        ]);
        let request = read(json!({"input": items})).unwrap();
        let texts: Vec<&str> = request.messages.iter().map(|message| message.text.as_str()).collect();
        assert_eq!(texts, ["Be brief.", "Hi", "add with {}:\n3"]);
        let approval =
            Approval { question: "c/1".to_owned(), approves: false, reason: Some("no".to_owned()) };
        assert_eq!(request.approvals, [approval]);
    }

    #[test]
    fn what_cannot_be_done_is_refused_by_name() {
        for (more, param) in [
            (json!({"store": false}), "store"),
            (json!({"tools": [{"type": "function"}]}), "tools"),
            (json!({"tools": [{"type": "mcp", "server_label": "a", "server_url": "https://a"}]}), "tools"),
            (json!({"conversation": "c"}), "conversation"),
            (json!({"text": {"format": {"type": "json_object"}}}), "text.format"),
            (json!({"input": null}), "input"),
            (json!({"input": [{"type": "function_call_output"}]}), "input[0].type"),
            (
                json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}),
                "input[0].content[0]",
            ),
            (json!({"input": [{"type": "mcp_approval_response"}]}), "input[0].approval_request_id"),
            (json!({"stream": 1}), "stream"),
            (json!({"previous_response_id": 1}), "previous_response_id"),
        ] {
            assert_eq!(read(more).unwrap_err(), param);
        }
    }
}
