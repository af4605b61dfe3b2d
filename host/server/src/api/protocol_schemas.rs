//! The bodies of the protocols' routes, as far as this server reads and writes them. A protocol's
//! specification defines the rest: members that are not listed here are allowed.

use crate::parts::Part;
use serde_json::{Map, Value, json};

/// Returns the schemas of a protocol by their names.
pub(super) fn schemas(part: Part) -> Map<String, Value> {
    let schemas = match part {
        Part::OpenAi => open_ai(),
        Part::AiSdk => ai_sdk(),
        Part::AgUi => ag_ui(),
        Part::A2a => a2a(),
        Part::Mcp => mcp(),
        Part::Console => Vec::new(),
    };
    schemas.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// Returns a reference to the schema with this name.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A schema and its name.
type NamedSchema = (&'static str, Value);

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

fn some_of(items: &Value) -> Value {
    json!({"type": "array", "items": items, "minItems": 1})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn described(words: &str) -> Value {
    json!({"type": "string", "description": words})
}

fn number() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn or_null(kind: &str) -> Value {
    json!({"type": [kind, "null"]})
}

fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

fn agent() -> Value {
    described("The id of an agent")
}

fn open_ai() -> Vec<NamedSchema> {
    let model = json!({"id": agent(), "object": one_of(&["model"]), "created": number(), "owned_by": text()});
    let models = json!({"object": one_of(&["list"]), "data": list(&reference("Model"))});
    let error = object(
        &["message", "type", "param", "code"],
        json!({"message": text(), "type": text(), "param": or_null("string"), "code": text()}),
    );
    vec![
        ("Model", object(&["id", "object", "created", "owned_by"], model)),
        ("ModelList", object(&["object", "data"], models)),
        ("ChatCompletionRequest", completion_request()),
        ("ChatCompletion", completion()),
        ("ResponseRequest", response_request()),
        ("Response", response()),
        ("ResponseInput", response_input()),
        ("OpenAiError", object(&["error"], json!({"error": error}))),
    ]
}

fn completion_request() -> Value {
    let roles = ["system", "developer", "user", "assistant", "tool", "function"];
    let content = json!({"type": ["string", "array", "null"], "items": {"type": "object"}});
    let message = object(&["role"], json!({"role": one_of(&roles), "content": content}));
    let metadata = object(&[], json!({"thread_id": or_null("string")}));
    object(
        &["model", "messages"],
        json!({
            "model": agent(),
            "messages": some_of(&message),
            "stream": or_null("boolean"),
            "stream_options": or_null("object"),
            "metadata": {"anyOf": [{"type": "null"}, metadata]},
        }),
    )
}

fn completion() -> Value {
    let message = object(&["role", "content"], json!({"role": one_of(&["assistant"]), "content": text()}));
    let reasons = one_of(&["stop", "length", "content_filter"]);
    let choice = object(
        &["index", "message", "finish_reason"],
        json!({"index": number(), "message": message, "finish_reason": reasons}),
    );
    object(
        &["id", "object", "created", "model", "choices", "usage", "tollgate"],
        json!({
            "id": text(),
            "object": one_of(&["chat.completion"]),
            "created": number(),
            "model": agent(),
            "choices": some_of(&choice),
            "usage": or_null("object"),
            "tollgate": object(&["run_id", "thread_id"], json!({"run_id": text(), "thread_id": text()})),
        }),
    )
}

fn response_request() -> Value {
    object(
        &["model", "input"],
        json!({
            "model": agent(),
            "input": {"type": ["string", "array"], "items": {"type": "object"}},
            "instructions": or_null("string"),
            "previous_response_id": or_null("string"),
            "stream": or_null("boolean"),
            "background": or_null("boolean"),
        }),
    )
}

/// Returns the schema of a list of items of a response.
fn items() -> Value {
    list(&object(&["id", "type"], json!({"id": text(), "type": text()})))
}

fn response() -> Value {
    let statuses = ["in_progress", "completed", "incomplete", "cancelled", "failed"];
    object(
        &["id", "object", "created_at", "status", "model", "output", "previous_response_id", "usage"],
        json!({
            "id": text(),
            "object": one_of(&["response"]),
            "created_at": number(),
            "status": one_of(&statuses),
            "model": agent(),
            "output": items(),
            "previous_response_id": or_null("string"),
            "usage": {"type": "object"},
        }),
    )
}

fn response_input() -> Value {
    object(
        &["object", "data", "first_id", "last_id", "has_more"],
        json!({
            "object": one_of(&["list"]),
            "data": items(),
            "first_id": or_null("string"),
            "last_id": or_null("string"),
            "has_more": {"type": "boolean"},
        }),
    )
}

fn ai_sdk() -> Vec<NamedSchema> {
    let message = object(
        &["role", "parts"],
        json!({
            "id": text(),
            "role": one_of(&["system", "user", "assistant"]),
            "parts": list(&object(&["type"], json!({"type": text()}))),
        }),
    );
    let chat =
        json!({"id": described("The id of the chat, which names its thread"), "messages": some_of(&message)});
    vec![("AiSdkRequest", object(&["id", "messages"], chat))]
}

fn ag_ui() -> Vec<NamedSchema> {
    let message = object(
        &["role"],
        json!({
            "id": text(),
            "role": one_of(&["system", "developer", "user", "assistant", "tool", "activity", "reasoning"]),
        }),
    );
    let answer = object(
        &["interruptId", "status"],
        json!({"interruptId": text(), "status": one_of(&["resolved", "cancelled"])}),
    );
    let input = json!({
        "threadId": {"type": "string", "minLength": 1},
        "runId": {"type": "string", "minLength": 1},
        "messages": list(&message),
        "resume": {"anyOf": [{"type": "null"}, list(&answer)]},
        "protocolVersion": text(),
    });
    let error = json!({"type": one_of(&["RUN_ERROR"]), "message": text(), "code": text()});
    vec![
        ("AgUiInput", object(&["threadId", "runId", "messages"], input)),
        ("AgUiError", object(&["type", "message", "code"], error)),
    ]
}

fn a2a() -> Vec<NamedSchema> {
    let tasks = json!({
        "tasks": list(&reference("A2aTask")),
        "nextPageToken": text(),
        "pageSize": number(),
        "totalSize": number(),
    });
    let call = json!({
        "jsonrpc": one_of(&["2.0"]),
        "id": {"type": ["string", "integer"]},
        "method": text(),
        "params": {"type": "object"},
    });
    let error = object(
        &["code", "status", "message", "details"],
        json!({"code": number(), "status": text(), "message": text(), "details": parts()}),
    );
    vec![
        ("AgentCard", agent_card()),
        ("A2aMessage", sent_message()),
        ("A2aSent", object(&["task"], json!({"task": reference("A2aTask")}))),
        ("A2aTask", task()),
        ("A2aTasks", object(&["tasks", "nextPageToken", "pageSize", "totalSize"], tasks)),
        ("A2aCall", object(&["jsonrpc", "id", "method"], call)),
        ("A2aAnswer", rpc_answer()),
        ("A2aError", object(&["error"], json!({"error": error}))),
    ]
}

fn parts() -> Value {
    list(&json!({"type": "object"}))
}

fn agent_card() -> Value {
    let interface = object(
        &["url", "protocolBinding", "protocolVersion"],
        json!({"url": text(), "protocolBinding": text(), "protocolVersion": text()}),
    );
    let skill = json!({"id": text(), "name": text(), "description": text(), "tags": list(&text())});
    object(
        &["name", "description", "version", "supportedInterfaces", "capabilities", "skills"],
        json!({
            "name": text(),
            "description": text(),
            "version": text(),
            "supportedInterfaces": some_of(&interface),
            "capabilities": {"type": "object"},
            "skills": some_of(&object(&["id", "name", "description", "tags"], skill)),
        }),
    )
}

fn sent_message() -> Value {
    let message = object(
        &["messageId", "role", "parts"],
        json!({
            "messageId": {"type": "string", "minLength": 1},
            "role": one_of(&["ROLE_USER"]),
            "contextId": text(),
            "taskId": text(),
            "parts": some_of(&json!({"type": "object"})),
        }),
    );
    object(&["message"], json!({"message": message, "configuration": {"type": "object"}}))
}

fn task() -> Value {
    let status = object(&["state", "timestamp"], json!({"state": text(), "timestamp": text()}));
    let message = object(
        &["messageId", "role", "parts"],
        json!({"messageId": text(), "role": one_of(&["ROLE_USER", "ROLE_AGENT"]), "parts": parts()}),
    );
    let artifact = object(&["artifactId", "parts"], json!({"artifactId": text(), "parts": parts()}));
    object(
        &["id", "contextId", "status"],
        json!({
            "id": text(),
            "contextId": text(),
            "status": status,
            "artifacts": list(&artifact),
            "history": list(&message),
        }),
    )
}

fn mcp() -> Vec<NamedSchema> {
    let message = json!({"jsonrpc": one_of(&["2.0"]), "method": text(), "params": {"type": "object"}});
    vec![("McpMessage", object(&["jsonrpc"], message)), ("McpAnswer", rpc_answer())]
}

/// Returns the schema of an answer of JSON-RPC.
fn rpc_answer() -> Value {
    let error = object(&["code", "message"], json!({"code": {"type": "integer"}, "message": text()}));
    let mut answer = object(&["jsonrpc", "id"], json!({"jsonrpc": one_of(&["2.0"]), "error": error}));
    answer["oneOf"] = json!([{"required": ["result"]}, {"required": ["error"]}]);
    answer
}
