//! `markdown_outline`: the structure of a Markdown document.

pub mod outline;

use document::Directories;
use outline::Outline;
use tollgate_sdk::{CodedError, component, tool};

/// The most headings that are listed.
const MAX_HEADINGS: usize = 500;

/// The longest document, in bytes. Documents written by people at this size fit into
/// the memory of a tool. A text of nothing but brackets does not, and ends as
/// `out_of_memory`.
const MAX_MARKDOWN_BYTES: usize = 512 << 10;

/// Outlines a Markdown document: its headings with level, line, anchor and words
/// of each section, and how many links, images, tables, tasks and code blocks it
/// has. Give the Markdown itself, or the path of a file.
///
/// Args:
///     text: The Markdown.
///     path: A Markdown file in a granted directory, such as `/docs/guide.md`.
///     max_level: Leave out headings below this level, 1 to 6.
#[tool(category = "text", idempotent)]
pub fn markdown_outline(
    text: Option<String>,
    path: Option<String>,
    #[default = 6] max_level: u8,
) -> Result<Outline, CodedError> {
    let directories = Directories::granted("markdown-outline");
    let markdown = document::fetch(text, path.as_deref(), &directories)?;
    if markdown.len() > MAX_MARKDOWN_BYTES {
        let message = format!("The document has more than {MAX_MARKDOWN_BYTES} bytes.");
        return Err(CodedError::new("too_large", message));
    }
    Ok(outline::outline(&markdown, max_level, MAX_HEADINGS))
}

component! { id: "markdown-outline", tools: [markdown_outline] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::{Component, Context, ToolResult, Value, json};

    fn call(args: Value) -> ToolResult {
        let mut ctx = Context::for_test().with_tool_name("markdown_outline");
        Exported::execute(&args.to_string(), &mut ctx).unwrap().result
    }

    #[test]
    fn a_call_answers_with_the_outline() {
        let result = call(json!({"text": "# A\n\nsome words\n\n## B\n", "max_level": 1}));
        let heading = json!({"level": 1, "text": "A", "line": 1, "anchor": "a", "words": 2});
        assert_eq!(result.data()["headings"], json!([heading]));
        assert_eq!(result.data()["headings_left_out"], 1);
    }

    #[test]
    fn a_file_is_outlined_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.md");
        std::fs::write(&path, "# The title\n").unwrap();
        assert_eq!(call(json!({"path": path})).data()["title"], "The title");
    }

    #[test]
    fn a_call_without_text_is_the_tools_own_error() {
        assert_eq!(call(json!({})).data()["error"]["code"], "no_text");
    }

    #[test]
    fn a_document_past_the_bound_is_refused() {
        let longest = call(json!({"text": "x".repeat(MAX_MARKDOWN_BYTES)}));
        assert!(longest.is_success());
        let longer = call(json!({"text": "x".repeat(MAX_MARKDOWN_BYTES + 1)}));
        assert_eq!(longer.data()["error"]["code"], "too_large");
    }

    #[test]
    fn long_outlines_are_cut() {
        let result = call(json!({"text": "# x\n".repeat(MAX_HEADINGS + 1)}));
        assert_eq!(result.data()["headings"].as_array().unwrap().len(), MAX_HEADINGS);
        assert_eq!(result.data()["headings_left_out"], 1);
    }
}
