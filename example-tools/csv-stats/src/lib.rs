//! `csv_stats`: statistics of each column of a CSV table.

pub mod column;
pub mod statistics;

use document::Directories;
use statistics::{Format, TableStatistics};
use tollgate_sdk::{CodedError, component, tool};

/// Describes each column of a CSV table: count, empty and distinct cells; of
/// numbers also min, max, sum, mean, median and standard deviation; of text the
/// first, last and most frequent value. Give the CSV itself, or the path of a file.
///
/// Args:
///     text: The table.
///     path: A CSV file in a granted directory, such as `/data/sales.csv`.
///     delimiter: The character between cells; a tab is `\t`.
///     has_header: Whether the first row names the columns.
#[tool(category = "data", idempotent)]
pub fn csv_stats(
    text: Option<String>,
    path: Option<String>,
    #[default = ","] delimiter: String,
    #[default = true] has_header: bool,
) -> Result<TableStatistics, CodedError> {
    let delimiter = delimiter_byte(&delimiter)?;
    let csv = document::fetch(text, path.as_deref(), &Directories::granted("csv-stats"))?;
    statistics::statistics(&csv, Format { delimiter, has_header })
}

/// Accepts a tab as it is and as `\t`, since models write both.
fn delimiter_byte(delimiter: &str) -> Result<u8, CodedError> {
    match delimiter.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err(CodedError::new(
            "bad_delimiter",
            format!("`{delimiter}` is not a single ASCII character that can separate cells."),
        )),
    }
}

component! { id: "csv-stats", tools: [csv_stats] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::{Component, Context, ToolResult, Value, json};

    fn call(args: Value) -> ToolResult {
        let mut ctx = Context::for_test().with_tool_name("csv_stats");
        Exported::execute(&args.to_string(), &mut ctx).unwrap().result
    }

    #[test]
    fn a_call_answers_with_the_columns() {
        let result = call(json!({"text": "name,n\na,1\nb,3\n"}));
        let columns = json!([
            {"name": "name", "count": 2, "empty": 0, "distinct": 2, "type": "text",
             "min": "a", "max": "b", "most_frequent": "a", "most_frequent_count": 1},
            {"name": "n", "count": 2, "empty": 0, "distinct": 2, "type": "number",
             "min": 1.0, "max": 3.0, "sum": 4.0, "mean": 2.0, "median": 2.0, "std_dev": 1.0},
        ]);
        assert_eq!(result.data(), json!({"rows": 2, "uneven_rows": 0, "columns": columns}));
    }

    #[test]
    fn delimiters_are_one_character_or_a_tab() {
        for (delimiter, text) in [("\\t", "a\tb\n"), ("\t", "a\tb\n"), (";", "a;b\n")] {
            let result = call(json!({"text": text, "delimiter": delimiter}));
            assert_eq!(result.data()["columns"].as_array().unwrap().len(), 2);
        }
        for delimiter in ["", "::", "\"", "é", "\n"] {
            let result = call(json!({"text": "a", "delimiter": delimiter}));
            assert_eq!(result.data()["error"]["code"], "bad_delimiter");
        }
    }

    #[test]
    fn a_file_is_described_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        std::fs::write(&path, "1,2\n").unwrap();
        let result = call(json!({"path": path, "has_header": false}));
        assert_eq!(result.data()["rows"], 1);
        assert_eq!(result.data()["columns"][0]["name"], "column 1");
    }

    #[test]
    fn an_empty_table_is_the_tools_own_error() {
        assert_eq!(call(json!({"text": ""})).data()["error"]["code"], "no_rows");
    }
}
