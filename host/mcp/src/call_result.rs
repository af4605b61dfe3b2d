//! The result that a client receives for an ended call: text for the model, and the same as
//! structured data for a program. A tool's failure is a result, never an error of the protocol.

use rmcp::model::{
    AudioContent, CallToolResult, ContentBlock, EmbeddedResource, ImageContent, Resource, ResourceContents,
};
use serde_json::{Value, json};
use tollgate::run::RunEnd;
use tollgate_agent::content::ContentPart;
use tollgate_agent::run::answer::{MAX_ANSWER_BYTES, own_text, parts};
use tollgate_agent::run::event::FinishedCall;
use tollgate_agent::run::{CallEnd, RunStatus};

/// Returns the result of a call that ended. `has_schema` tells whether its tool is listed with a
/// schema of its results, which structured content has to fit: an error then has none.
pub(super) fn of_call(finished: &FinishedCall, has_schema: bool) -> CallToolResult {
    let (text, is_error) = own_text(&finished.end);
    let structured = match &finished.end {
        _ if has_schema && is_error => None,
        // Data that was truncated for the model is not sent in full beside it.
        _ if !has_schema && text.len() + 16 > MAX_ANSWER_BYTES => None,
        CallEnd::Result(result) => structure(result.data.clone().into_value()),
        CallEnd::Fault(fault) => Some(json!({"error": {"code": fault.code, "message": &*text}})),
    };
    let parts = parts(&finished.end);
    let text = (!text.is_empty() || parts.is_empty()).then(|| ContentBlock::text(&*text));
    of_blocks(text.into_iter().chain(parts.iter().map(block)).collect(), structured, is_error)
}

/// Returns a part of a result in the protocol's format.
fn block(part: &ContentPart) -> ContentBlock {
    let resource = |contents| ContentBlock::Resource(EmbeddedResource::new(contents));
    match part.clone() {
        ContentPart::Image { mime_type, data } => ContentBlock::Image(ImageContent::new(&*data, mime_type)),
        ContentPart::Audio { mime_type, data } => ContentBlock::Audio(AudioContent::new(&*data, mime_type)),
        ContentPart::TextFile { uri, mime_type, text } => resource(ResourceContents::TextResourceContents {
            uri,
            mime_type,
            text: text.to_string(),
            meta: None,
        }),
        ContentPart::BinaryFile { uri, mime_type, data } => {
            resource(ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob: data.to_string(),
                meta: None,
            })
        }
        ContentPart::Link { uri, name, title, description, mime_type, size } => {
            let mut link = Resource::new(uri, name);
            (link.title, link.description, link.mime_type, link.size) = (title, description, mime_type, size);
            ContentBlock::ResourceLink(link)
        }
    }
}

/// Returns the result of an agent's run that ended.
pub(super) fn of_run(end: RunEnd) -> CallToolResult {
    let problem = match end.status {
        Some(RunStatus::Completed) => {
            let response = json!({"response": &end.text});
            return result(end.text, Some(response), false);
        }
        Some(RunStatus::Blocked { reason }) => format!("The agent was blocked: {reason}"),
        Some(RunStatus::Stopped { limit }) => format!("The agent reached its limit {limit}."),
        Some(RunStatus::Cancelled { reason }) => format!("The agent was cancelled: {reason}"),
        Some(RunStatus::Failed { error }) => format!("The agent failed: {error}"),
        None => "The agent waits for a person.".to_owned(),
    };
    let text = if end.text.is_empty() { problem.clone() } else { format!("{problem}\n{}", end.text) };
    let structured = json!({"error": {"message": problem, "run_id": &*end.run_id}, "response": end.text});
    result(text, Some(structured), true)
}

/// Returns a result that is not a tool's answer.
pub(super) fn refused(text: impl Into<String>, structured: Value) -> CallToolResult {
    result(text.into(), Some(structured), true)
}

fn result(text: String, structured: Option<Value>, is_error: bool) -> CallToolResult {
    of_blocks(vec![ContentBlock::text(text)], structured, is_error)
}

fn of_blocks(content: Vec<ContentBlock>, structured: Option<Value>, is_error: bool) -> CallToolResult {
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = structured;
    result
}

/// Clients expect an object.
fn structure(data: Value) -> Option<Value> {
    match data {
        Value::Null => None,
        Value::Object(_) => Some(data),
        other => Some(json!({"result": other})),
    }
}
