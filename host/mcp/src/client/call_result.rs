//! A server's answer as a tool's result: bounded, sanitized, and checked against the schema that
//! the server declared.

use super::tools::RemoteTool;
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::Value;
use tollgate_agent::code::Code;
use tollgate_agent::content::{ContentPart, check_size, is_media_type};
use tollgate_agent::outcome::{Fault, Outcome, ToolResult};
use tollgate_agent::text::clean;

/// The text in place of a block of an unknown kind.
const UNKNOWN: &str = "[content of an unknown kind]";

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
    let too_large =
        |what: String| Fault::new(Code::TooLarge, format!("The server '{server}' answered with {what}."));
    let mut text: Vec<String> = Vec::new();
    let mut parts: Vec<ContentPart> = Vec::new();
    for block in answered.content {
        match part(block) {
            Block::Text(words) => text.push(words),
            Block::Part(part) => match part.checked() {
                Ok(part) => parts.push(part),
                Err(why) => text.push(format!("[content was left out: {why}]")),
            },
        }
    }
    let text = text.join("\n");
    let structured = answered.structured_content.filter(|data| !data.is_null());
    let written = structured.as_ref().map(Value::to_string);
    let files: usize = parts.iter().map(text_bytes).sum();
    if text.len() + files + written.as_ref().map_or(0, String::len) > max_bytes {
        return Err(too_large(format!("more than {max_bytes} bytes")));
    }
    check_size(&parts).map_err(|why| too_large(why.to_string()))?;
    let text = clean(&text, max_bytes);
    if answered.is_error == Some(true) {
        return Ok(ToolResult { content: parts, ..ToolResult::error(text) });
    }
    let Some(written) = written else {
        if tool.declared.output_schema.is_some() {
            let why = "it declared structured answers, but this one is not structured";
            return Err(malformed(server, why));
        }
        let data = if text.is_empty() && !parts.is_empty() { Value::Null } else { Value::String(text) };
        return Ok(ToolResult { content: parts, ..ToolResult::success(data) });
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
    Ok(ToolResult { content: parts, ..ToolResult::success(data) })
}

/// A block of content: text, or a part of its own.
enum Block {
    Text(String),
    Part(ContentPart),
}

fn part(block: ContentBlock) -> Block {
    Block::Part(match block {
        ContentBlock::Text(text) => return Block::Text(text.text),
        ContentBlock::Image(image) => {
            ContentPart::Image { mime_type: image.mime_type, data: image.data.into() }
        }
        ContentBlock::Audio(audio) => {
            ContentPart::Audio { mime_type: audio.mime_type, data: audio.data.into() }
        }
        ContentBlock::ResourceLink(link) => of_link(link),
        ContentBlock::Resource(resource) => match of_resource(resource.resource) {
            Some(part) => part,
            None => return Block::Text(UNKNOWN.to_owned()),
        },
        _ => return Block::Text(UNKNOWN.to_owned()),
    })
}

/// Returns the part for a resource's contents; `None` for a kind that is not known.
fn of_resource(contents: ResourceContents) -> Option<ContentPart> {
    match contents {
        ResourceContents::TextResourceContents { uri, mime_type, text, meta: _ } => {
            Some(ContentPart::TextFile { uri, mime_type: known(mime_type), text: text.into() })
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, meta: _ } => {
            Some(ContentPart::BinaryFile { uri, mime_type: known(mime_type), data: blob.into() })
        }
        _ => None,
    }
}

/// Returns the part for a link to a resource.
fn of_link(link: Resource) -> ContentPart {
    let Resource { uri, name, title, description, mime_type, size, .. } = link;
    ContentPart::Link { uri, name, title, description, mime_type: known(mime_type), size }
}

/// Leaves out a text that is not a media type, which the content does not need.
fn known(mime_type: Option<String>) -> Option<String> {
    mime_type.filter(|mime_type| is_media_type(mime_type))
}

/// Returns how many bytes of text a model reads of the part.
fn text_bytes(part: &ContentPart) -> usize {
    match part {
        ContentPart::TextFile { text, .. } => text.len(),
        _ => 0,
    }
}

/// Returns the fault of a call whose answer cannot be used.
pub(super) fn malformed(server: &str, why: &str) -> Fault {
    let message = format!("The server '{server}' sent an invalid answer: {}", clean(why, 1_000));
    Fault::new(Code::MalformedOutput, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::client::tools::RemoteCall;
    use serde_json::json;
    use tollgate::tools::DeclaredTool;
    use tollgate_agent::schema::Schema;

    fn remote(output: Option<&Value>) -> RemoteTool {
        RemoteTool {
            call: RemoteCall::Tool("t".to_owned()),
            output: output.map(|schema| Schema::compile(schema).unwrap()),
            declared: DeclaredTool { output_schema: output.cloned(), ..DeclaredTool::default() },
        }
    }

    fn read_of(output: Option<&Value>, answered: Value) -> Outcome {
        outcome("s", &remote(output), serde_json::from_value(answered).unwrap(), 1 << 20)
    }

    #[test]
    fn the_parts_of_an_answer_are_kept() {
        let answered = json!({"content": [
            {"type": "text", "text": "Here:"},
            {"type": "image", "mimeType": "image/png", "data": "iVBORw0="},
            {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "Hello"}},
            {"type": "resource", "resource": {"uri": "file:///b.png", "mimeType": "image/png", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "https://example.org/c", "name": "c", "size": 3},
        ]});
        let Outcome::Returned(output) = read_of(None, answered) else { panic!("it faulted") };
        assert_eq!(output.result.data, "Here:");
        assert_eq!(output.result.content.len(), 5);
        assert_eq!(output.result.content.iter().filter(|part| part.is_image()).count(), 2);
        let structured = json!({"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}],
            "structuredContent": {"n": 1}});
        let Outcome::Returned(output) = read_of(Some(&json!({"type": "object"})), structured) else {
            panic!("it faulted")
        };
        assert_eq!((output.result.data["n"].clone(), output.result.content.len()), (json!(1), 1));
    }

    #[test]
    fn a_part_that_is_not_what_it_says_is_left_out() {
        for block in [
            json!({"type": "image", "mimeType": "text/html", "data": "AAAA"}),
            json!({"type": "image", "mimeType": "image/png", "data": "<svg>"}),
            json!({"type": "resource_link", "uri": "not a uri", "name": "x"}),
        ] {
            let text = json!({"type": "text", "text": "The rest."});
            let Outcome::Returned(output) = read_of(None, json!({"content": [block, text]})) else {
                panic!("it is refused")
            };
            assert!(output.result.content.is_empty());
            let said = output.result.data.to_string();
            assert!(said.contains("[content was left out: ") && said.contains("The rest."), "{said}");
        }
    }

    #[test]
    fn z1_an_answer_that_costs_too_much_to_check_is_malformed() {
        let branches = vec![json!({"items": {"maximum": 5}}); 900];
        let schema = json!({"properties": {"list": {"anyOf": branches}}});
        let tool = remote(Some(&schema));
        let mut list = vec![1; 20_000];
        list.push(9);
        let answered = json!({"content": [], "structuredContent": {"list": list}});
        let answered = serde_json::from_value(answered).unwrap();
        let Outcome::Faulted(fault) = outcome("s", &tool, answered, 1 << 20) else { panic!("it is taken") };
        assert_eq!(fault.code, Code::MalformedOutput);
        assert!(fault.message.contains("too much work"), "{}", fault.message);
    }
}
