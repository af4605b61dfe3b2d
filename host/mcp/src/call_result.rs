//! The result that a client receives for an ended call: text for the model, and the same as
//! structured data for a program. A tool's failure is a result, never an error of the protocol.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};
use tollgate::run::RunEnd;
use tollgate_agent::run::answer::{MAX_ANSWER_BYTES, answer};
use tollgate_agent::run::event::Finished;
use tollgate_agent::run::{CallEnd, RunStatus};

/// Returns the result of a call that ended.
pub(super) fn of_call(finished: &Finished) -> CallToolResult {
    let read = answer(&finished.call_id, &finished.tool_name, &finished.end);
    let structured = match &finished.end {
        // Data that was truncated for the model is not sent in full beside it.
        _ if read.content.len() + 16 > MAX_ANSWER_BYTES => None,
        CallEnd::Result(result) => structure(result.data.clone().into_value()),
        CallEnd::Fault(fault) => Some(json!({"error": {"code": fault.code, "message": &*read.content}})),
    };
    result(read.content.to_string(), structured, read.is_error)
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
    let content = vec![ContentBlock::text(text)];
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
