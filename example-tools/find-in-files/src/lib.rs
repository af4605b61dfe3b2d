//! `find_in_files` and `list_files`: the files of a granted directory.

pub mod search;
pub mod walk;

use document::Directories;
use search::{Found, Search};
use serde::Serialize;
use std::path::PathBuf;
use tollgate_sdk::{CodedError, Context, component, tool};
use walk::{Filter, Walk};

/// The most lines that are listed.
const MAX_MATCHES: u32 = 500;

/// The most files that are listed.
const MAX_LISTED: u32 = 1000;

/// The most files that a search reads.
const MAX_SEARCHED: usize = 5000;

/// The number of files read between two reports.
const FILES_PER_REPORT: usize = 50;

/// Searches the lines of all text files below a granted directory, and returns
/// each line that matches with its path and number. Hidden files are passed over.
///
/// Args:
///     query: The text to find, literal or as a regular expression.
///     path: A directory or file to search, such as `/docs`. Without it, every
///         granted directory is searched.
///     globs: Search only files that one of these describes: `*.md` by name
///         anywhere, `guide/**/*.md` by path below the directory.
///     regex: The query is a regular expression.
///     ignore_case: `a` matches `A`.
///     max_results: List this many lines; at most 500.
#[tool(category = "files", idempotent, timeout = "30s")]
pub fn find_in_files(
    query: &str,
    path: Option<String>,
    #[default] globs: Vec<String>,
    #[default] regex: bool,
    #[default] ignore_case: bool,
    #[default = 50] max_results: u32,
    ctx: &Context,
) -> Result<Found, CodedError> {
    let pattern = search::pattern(query, regex, ignore_case)?;
    let filter = Filter::new(&globs)?;
    let mut search = Search::new(pattern, max_results.min(MAX_MATCHES) as usize);
    let (mut unreadable, mut stopped) = (0, false);
    for root in roots(path.as_deref())? {
        let mut walk = Walk::new(&root, &filter);
        stopped = !search_all(&mut walk, &mut search, ctx);
        unreadable += walk.unreadable;
        if stopped {
            break;
        }
    }
    Ok(search.finish(unreadable, stopped))
}

/// Searches all files; returns false if it stopped early, at a limit or because the
/// run is being cancelled.
fn search_all(walk: &mut Walk<'_>, search: &mut Search, ctx: &Context) -> bool {
    for file in walk {
        if search.files_searched() == MAX_SEARCHED || !search.take(&file) {
            return false;
        }
        if search.files_searched().is_multiple_of(FILES_PER_REPORT) {
            if ctx.is_cancelled() {
                return false;
            }
            ctx.activity("search", format!("{} files, now {}", search.files_searched(), file.relative));
        }
    }
    true
}

/// The files below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// The files in the order of their paths.
    pub files: Vec<Listed>,
    /// Whether there are more.
    pub truncated: bool,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The path, as other tools take it.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// Lists the files below a granted directory, with their sizes. Hidden files are
/// passed over.
///
/// Args:
///     path: A directory, such as `/docs`. Without it, every granted directory.
///     globs: List only files that one of these describes: `*.md` by name
///         anywhere, `guide/**/*.md` by path below the directory.
///     max_results: List this many files; at most 1000.
#[tool(category = "files", idempotent, timeout = "30s")]
pub fn list_files(
    path: Option<String>,
    #[default] globs: Vec<String>,
    #[default = 200] max_results: u32,
) -> Result<Listing, CodedError> {
    let filter = Filter::new(&globs)?;
    let max = max_results.min(MAX_LISTED) as usize;
    let mut files: Vec<Listed> = roots(path.as_deref())?
        .iter()
        .flat_map(|root| Walk::new(root, &filter))
        .take(max + 1)
        .map(|file| Listed { path: file.path.display().to_string(), bytes: file.bytes })
        .collect();
    let truncated = files.len() > max;
    files.truncate(max);
    Ok(Listing { files, truncated })
}

/// Returns the roots of the search: `path`, or each granted directory.
fn roots(path: Option<&str>) -> Result<Vec<PathBuf>, CodedError> {
    Directories::granted("find-in-files").roots(path)
}

component! { id: "find-in-files", tools: [find_in_files, list_files] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::{Component, Report, ToolResult, Value, json};

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("a.md"), "one Needle\ntwo\n").unwrap();
        std::fs::write(dir.path().join("sub/b.txt"), "needle\n").unwrap();
        dir
    }

    fn call(tool: &str, args: Value, ctx: Context) -> ToolResult {
        let mut ctx = ctx.with_tool_name(tool);
        Exported::execute(&args.to_string(), &mut ctx).unwrap().result
    }

    #[test]
    fn a_search_answers_with_paths_and_lines() {
        let dir = tree();
        let args = json!({"query": "needle", "path": dir.path(), "ignore_case": true});
        let found = call("find_in_files", args, Context::for_test()).data();
        assert_eq!(found["matches"][0]["path"], json!(dir.path().join("a.md")));
        assert_eq!(found["matches"][0]["text"], "one Needle");
        assert_eq!(found["matches"][1]["path"], json!(dir.path().join("sub/b.txt")));
        assert_eq!((&found["files_searched"], &found["truncated"]), (&json!(2), &json!(false)));
    }

    #[test]
    fn globs_and_bounds_hold() {
        let dir = tree();
        let args = json!({"query": "needle", "path": dir.path(), "globs": ["*.txt"]});
        let found = call("find_in_files", args, Context::for_test()).data();
        assert_eq!((&found["files_searched"], found["matches"].as_array().unwrap().len()), (&json!(1), 1));
        let args = json!({"query": "e", "path": dir.path(), "max_results": 1});
        let found = call("find_in_files", args, Context::for_test()).data();
        assert_eq!((&found["truncated"], found["matches"].as_array().unwrap().len()), (&json!(true), 1));
    }

    #[test]
    fn a_listing_has_paths_and_sizes() {
        let dir = tree();
        let listed = call("list_files", json!({"path": dir.path()}), Context::for_test()).data();
        assert_eq!(listed["files"][1], json!({"path": dir.path().join("sub/b.txt"), "bytes": 7}));
        let args = json!({"path": dir.path(), "max_results": 1});
        let listed = call("list_files", args, Context::for_test()).data();
        assert_eq!((listed["files"].as_array().unwrap().len(), &listed["truncated"]), (1, &json!(true)));
    }

    #[test]
    fn a_long_search_tells_where_it_is_and_stops_when_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..120 {
            std::fs::write(dir.path().join(format!("{number:03}")), "x\n").unwrap();
        }
        let path = dir.path().display().to_string();
        let search = |ctx: &Context| {
            find_in_files("none", Some(path.clone()), Vec::new(), false, false, 9, ctx).unwrap()
        };
        let ctx = Context::for_test();
        assert_eq!(search(&ctx).files_searched, 120);
        let told: Vec<_> = ctx.reports();
        assert!(matches!(&told[0], Report::Activity { content, .. } if content == "50 files, now 049"));
        assert_eq!(told.len(), 2);
        let stopped = search(&Context::for_test().cancelled());
        assert_eq!((stopped.files_searched, stopped.truncated), (50, true));
    }

    #[test]
    fn what_is_missing_is_the_tools_own_error() {
        let args = json!({"query": "x", "path": "/no/such/directory"});
        let result = call("find_in_files", args, Context::for_test());
        assert_eq!(result.data()["error"]["code"], "not_found");
    }
}
