//! `regex_extract`: finds the matches of a regular expression in a text.

pub mod extract;

use document::Directories;
use extract::{Extract, Flags};
use tollgate_sdk::{CodedError, component, tool};

/// The most matches that are listed; all are counted.
const MAX_MATCHES: u32 = 1000;

/// Finds everything in a text that matches a regular expression, with line
/// numbers and groups. No look-around, no back-references. Give the text itself,
/// or the path of a file.
///
/// Args:
///     pattern: Such as `(?<user>\w+)@(?<host>[\w.]+)`; groups may be named.
///     text: The text to search.
///     path: A text file in a granted directory, such as `/logs/app.log`.
///     ignore_case: `a` matches `A`.
///     multi_line: `^` and `$` match at each line.
///     dot_all: `.` matches line ends.
///     max_matches: List this many; at most 1000. All are counted.
#[tool(category = "text", idempotent)]
pub fn regex_extract(
    pattern: &str,
    text: Option<String>,
    path: Option<String>,
    #[default] ignore_case: bool,
    #[default] multi_line: bool,
    #[default] dot_all: bool,
    #[default = 100] max_matches: u32,
) -> Result<Extract, CodedError> {
    let flags = Flags { ignore_case, multi_line, dot_all };
    let regex = extract::compile(pattern, flags)?;
    let text = document::fetch(text, path.as_deref(), &Directories::granted("regex-extract"))?;
    Ok(extract::extract(&regex, &text, max_matches.min(MAX_MATCHES) as usize))
}

component! { id: "regex-extract", tools: [regex_extract] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::{Component, Context, ToolResult, Value, json};

    fn call(args: Value) -> ToolResult {
        let mut ctx = Context::for_test().with_tool_name("regex_extract");
        Exported::execute(&args.to_string(), &mut ctx).unwrap().result
    }

    #[test]
    fn a_call_answers_with_matches_and_groups() {
        let result = call(json!({"pattern": r"(?<k>\w)=(\d)", "text": "a=1, b=2", "max_matches": 1}));
        let first = json!({"text": "a=1", "line": 1, "groups": {"k": "a", "2": "1"}});
        assert_eq!(result.data(), json!({"count": 2, "matches": [first], "truncated": true}));
    }

    #[test]
    fn flags_reach_the_pattern() {
        let args = json!({"pattern": "^a.b$", "text": "x\nA\nB", "ignore_case": true,
            "multi_line": true, "dot_all": true});
        assert_eq!(call(args).data()["count"], 1);
    }

    #[test]
    fn a_file_is_searched_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "ok\nERROR one\n").unwrap();
        let result = call(json!({"pattern": "ERROR .*", "path": path}));
        assert_eq!(result.data()["matches"], json!([{"text": "ERROR one", "line": 2}]));
    }

    #[test]
    fn a_bad_pattern_is_the_tools_own_error() {
        let result = call(json!({"pattern": "(", "text": ""}));
        assert_eq!(result.data()["error"]["code"], "bad_pattern");
    }
}
