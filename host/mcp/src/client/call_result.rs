//! A server's answer as a tool's result: bounded, sanitized, and checked against the schema that
//! the server declared.

use super::tools::RemoteTool;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;
use tollgate_agent::code::Code;
use tollgate_agent::outcome::{Fault, Outcome, ToolResult};
use tollgate_agent::text::clean;

/// Returns the outcome of a call that the server answered.
pub(super) fn outcome(
    server: &str,
    tool: &RemoteTool,
    answered: CallToolResult,
    max_bytes: usize,
) -> Outcome {
    match read(server, tool, answered, max_bytes) {
        Ok(result) => Outcome::Returned(result.into()),
        Err(fault) => fault.into(),
    }
}

fn read(
    server: &str,
    tool: &RemoteTool,
    answered: CallToolResult,
    max_bytes: usize,
) -> Result<ToolResult, Fault> {
    let text: Vec<String> = answered.content.iter().map(shown).collect();
    let text = text.join("\n");
    let structured = answered.structured_content.filter(|data| !data.is_null());
    let written = structured.as_ref().map(Value::to_string);
    if text.len() + written.as_ref().map_or(0, String::len) > max_bytes {
        let message = format!("The server '{server}' answered with more than {max_bytes} bytes.");
        return Err(Fault::new(Code::TooLarge, message));
    }
    let text = clean(&text, max_bytes);
    if answered.is_error == Some(true) {
        return Ok(ToolResult::error(text));
    }
    let Some(written) = written else {
        if tool.output.is_some() {
            let why = "it declared structured answers, but this one is not structured";
            return Err(malformed(server, why));
        }
        return Ok(ToolResult::success(text));
    };
    // Recorded data must be readable again.
    let data = tollgate_agent::json::parse(&written).map_err(|e| malformed(server, &e.to_string()))?;
    if let Some(schema) = &tool.output {
        let violations = schema.violations(&data);
        if !violations.is_empty() {
            let found = tollgate_agent::schema::describe(&violations);
            return Err(malformed(server, &format!("it does not match its declared schema:\n{found}")));
        }
    }
    Ok(ToolResult::success(data))
}

fn malformed(server: &str, why: &str) -> Fault {
    let message = format!("The server '{server}' sent an invalid answer: {}", clean(why, 1_000));
    Fault::new(Code::MalformedOutput, message)
}

/// Returns content as text.
fn shown(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[an image, {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[a sound, {}]", audio.mime_type),
        ContentBlock::ResourceLink(link) => format!("[{}]({})", link.name, link.uri),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use serde_json::json;
    use tollgate_agent::schema::Schema;

    #[test]
    fn z1_an_answer_that_costs_too_much_to_check_is_malformed() {
        let branches = vec![json!({"items": {"maximum": 5}}); 900];
        let schema = json!({"properties": {"list": {"anyOf": branches}}});
        let tool = RemoteTool { name: "t".to_owned(), output: Some(Schema::compile(&schema).unwrap()) };
        let mut list = vec![1; 20_000];
        list.push(9);
        let answered = json!({"content": [], "structuredContent": {"list": list}});
        let answered = serde_json::from_value(answered).unwrap();
        let Outcome::Faulted(fault) = outcome("s", &tool, answered, 1 << 20) else { panic!("it is taken") };
        assert_eq!(fault.code, Code::MalformedOutput);
        assert!(fault.message.contains("too much work"), "{}", fault.message);
    }
}
