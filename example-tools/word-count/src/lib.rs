//! `word_count`: the figures of a text.

pub mod statistics;

use document::Directories;
use statistics::Statistics;
use tollgate_sdk::{CodedError, component, tool};

/// The most words that are listed.
const MAX_TOP: u32 = 100;

/// Counts a text: characters, words, sentences, lines, paragraphs, reading time
/// and the most frequent words. Give the text itself, or the path of a file.
///
/// Args:
///     text: The text to count.
///     path: A text file in a granted directory, such as `/docs/guide.md`.
///     top: How many of the most frequent words to list; at most 100.
///     min_letters: Leave words shorter than this out of that list.
#[tool(category = "text", idempotent)]
pub fn word_count(
    text: Option<String>,
    path: Option<String>,
    #[default = 5] top: u32,
    #[default = 1] min_letters: u32,
) -> Result<Statistics, CodedError> {
    let text = document::fetch(text, path.as_deref(), &Directories::granted("word-count"))?;
    let top = top.min(MAX_TOP) as usize;
    Ok(statistics::statistics(&text, top, min_letters as usize))
}

component! { id: "word-count", tools: [word_count] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::{Component, Context, json};

    fn call(args: tollgate_sdk::Value) -> tollgate_sdk::ToolResult {
        let mut ctx = Context::for_test().with_tool_name("word_count");
        Exported::execute(&args.to_string(), &mut ctx).unwrap().result
    }

    #[test]
    fn a_call_answers_with_the_figures() {
        let result = call(json!({"text": "one two two", "top": 1}));
        assert!(result.is_success());
        assert_eq!(result.data()["words"], 3);
        assert_eq!(result.data()["frequent_words"], json!([{"word": "two", "count": 2}]));
    }

    #[test]
    fn a_file_is_counted_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        std::fs::write(&path, "three words here").unwrap();
        assert_eq!(call(json!({"path": path})).data()["words"], 3);
        let missing = call(json!({"path": dir.path().join("b.txt")}));
        assert_eq!(missing.data()["error"]["code"], "not_found");
    }

    #[test]
    fn a_call_without_text_is_the_tools_own_error() {
        let result = call(json!({}));
        assert!(result.is_error());
        assert_eq!(result.data()["error"]["code"], "no_text");
    }

    #[test]
    fn the_list_is_bounded() {
        let words: Vec<String> = (0..300).map(|number| format!("w{number}")).collect();
        let result = call(json!({"text": words.join(" "), "top": 4_000_000_000_u32}));
        assert_eq!(result.data()["frequent_words"].as_array().unwrap().len(), 100);
    }

    #[test]
    fn the_descriptor_says_what_a_model_needs() {
        let described = Exported::describe();
        assert_eq!(described.id, "word-count");
        let tool = &described.tools[0];
        assert_eq!((tool.id.as_str(), tool.name.as_str()), ("word-count", "word_count"));
        assert!(tool.execution.idempotent);
        assert_eq!(tool.parameters["properties"]["top"]["default"], 5);
        assert_eq!(tool.parameters["required"], json!(null));
    }
}
