//! `json_query`: jq filters over JSON.

pub mod query;

use document::Directories;
use query::Answer;
use tollgate_sdk::{CodedError, component, tool};

/// The most results that are returned.
const MAX_RESULTS: u32 = 1000;

/// Runs a jq filter over JSON and returns what it yields, as a list. Give the
/// JSON itself, or the path of a file; JSON lines are several inputs.
///
/// Args:
///     filter: A jq filter, such as `.users[] | select(.age > 30) | .name`.
///     text: The JSON, as text.
///     path: A JSON file in a granted directory, such as `/data/users.json`.
///     max_results: Stop after this many results; at most 1000.
#[tool(category = "data", idempotent)]
pub fn json_query(
    filter: &str,
    text: Option<String>,
    path: Option<String>,
    #[default = 100] max_results: u32,
) -> Result<Answer, CodedError> {
    let json = document::fetch(text, path.as_deref(), &Directories::granted("json-query"))?;
    query::query(filter, &json, max_results.min(MAX_RESULTS) as usize)
}

component! { id: "json-query", tools: [json_query] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::{Component, Context, ToolResult, Value, json};

    fn call(args: Value) -> ToolResult {
        let mut ctx = Context::for_test().with_tool_name("json_query");
        Exported::execute(&args.to_string(), &mut ctx).unwrap().result
    }

    #[test]
    fn a_call_answers_with_what_the_filter_yields() {
        let result = call(json!({"filter": ".a[]", "text": "{\"a\":[1,{\"b\":2}]}"}));
        assert_eq!(result.data(), json!({"results": [1, {"b": 2}], "truncated": false}));
    }

    #[test]
    fn a_file_is_queried_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines.jsonl");
        std::fs::write(&path, "{\"n\":1}\n{\"n\":2}\n").unwrap();
        let result = call(json!({"filter": ".n", "path": path, "max_results": 1}));
        assert_eq!(result.data(), json!({"results": [1], "truncated": true}));
    }

    #[test]
    fn a_bad_filter_is_the_tools_own_error() {
        let result = call(json!({"filter": "nope", "text": "1"}));
        assert!(result.is_error());
        assert_eq!(result.data()["error"]["code"], "bad_filter");
        assert!(result.message().unwrap().contains("nope/0"));
    }

    #[test]
    fn the_descriptor_requires_the_filter_alone() {
        let tool = &Exported::describe().tools[0];
        assert_eq!(tool.name, "json_query");
        assert_eq!(tool.parameters["required"], json!(["filter"]));
    }
}
