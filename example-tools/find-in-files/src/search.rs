//! Searches the lines of files for a pattern.

use crate::walk::File;
use document::cut;
use regex::{Regex, RegexBuilder};
use serde::Serialize;
use std::fs;
use tollgate_sdk::CodedError;

/// Larger files are skipped and counted.
pub const MAX_FILE_BYTES: u64 = 2 << 20;

/// The most characters of a line that a result quotes.
const MAX_LINE_CHARS: usize = 300;

/// The largest compiled pattern, in bytes.
const MAX_PROGRAM_BYTES: usize = 1 << 20;

/// How deep groups may nest. The stack of a guest is small.
const MAX_NESTING: u32 = 48;

/// The longest pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 4096;

/// A line that matches the pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// The file, as a path that other tools take.
    pub path: String,
    /// The line's number, counted from 1.
    pub line: usize,
    /// The line without leading and trailing whitespace.
    pub text: String,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The matching lines in the order of the paths.
    pub matches: Vec<Hit>,
    /// Files read to the end.
    pub files_searched: usize,
    /// Files with a match.
    pub files_with_matches: usize,
    /// Files that were skipped.
    pub skipped: Skipped,
    /// Whether the search stopped at a limit. There may be more.
    pub truncated: bool,
}

/// Files that were skipped, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Not UTF-8 text.
    pub binary: usize,
    /// Above [`MAX_FILE_BYTES`].
    pub too_large: usize,
    /// Files and directories that could not be read.
    pub unreadable: usize,
}

/// Compiles the query. Fails with `bad_pattern` or `pattern_too_large`.
pub fn pattern(text: &str, is_regex: bool, ignore_case: bool) -> Result<Regex, CodedError> {
    if text.is_empty() || text.len() > MAX_PATTERN_BYTES {
        return Err(CodedError::new("bad_pattern", format!("The query has 1 to {MAX_PATTERN_BYTES} bytes.")));
    }
    let pattern = if is_regex { text.to_owned() } else { regex::escape(text) };
    RegexBuilder::new(&pattern)
        .case_insensitive(ignore_case)
        .size_limit(MAX_PROGRAM_BYTES)
        .dfa_size_limit(MAX_PROGRAM_BYTES)
        .nest_limit(MAX_NESTING)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => CodedError::new(
                "pattern_too_large",
                format!("The pattern has more than {MAX_PROGRAM_BYTES} bytes when compiled."),
            ),
            error => CodedError::new("bad_pattern", format!("The pattern cannot be read. {error}")),
        })
}

/// A search of one file after another.
pub struct Search {
    pattern: Regex,
    max_matches: usize,
    found: Found,
}

impl Search {
    /// Creates a search that lists at most `max_matches` lines.
    pub fn new(pattern: Regex, max_matches: usize) -> Self {
        Self { pattern, max_matches, found: Found::default() }
    }

    /// Searches one file. Returns false once the list is full and the search may
    /// stop.
    pub fn take(&mut self, file: &File) -> bool {
        if file.bytes > MAX_FILE_BYTES {
            self.found.skipped.too_large += 1;
            return true;
        }
        let Ok(bytes) = fs::read(&file.path) else {
            self.found.skipped.unreadable += 1;
            return true;
        };
        match std::str::from_utf8(&bytes) {
            Ok(text) => self.search(&file.path.display().to_string(), text),
            Err(_) => {
                self.found.skipped.binary += 1;
                true
            }
        }
    }

    /// Returns the number of files read.
    pub fn files_searched(&self) -> usize {
        self.found.files_searched
    }

    /// Returns the result. `unreadable` directories are counted with the files.
    pub fn finish(mut self, unreadable: usize, stopped: bool) -> Found {
        self.found.skipped.unreadable += unreadable;
        self.found.truncated |= stopped;
        self.found
    }

    fn search(&mut self, path: &str, text: &str) -> bool {
        let before = self.found.matches.len();
        for (index, line) in text.lines().enumerate() {
            if !self.pattern.is_match(line) {
                continue;
            }
            if self.found.matches.len() == self.max_matches {
                self.found.truncated = true;
                break;
            }
            let text = cut(line.trim(), MAX_LINE_CHARS);
            self.found.matches.push(Hit { path: path.to_owned(), line: index + 1, text });
        }
        self.found.files_searched += usize::from(!self.found.truncated);
        self.found.files_with_matches += usize::from(self.found.matches.len() > before);
        !self.found.truncated
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::path::Path;

    fn file(dir: &Path, name: &str, content: &[u8]) -> File {
        let path = dir.join(name);
        fs::write(&path, content).unwrap();
        File { path, relative: name.to_owned(), bytes: content.len() as u64 }
    }

    fn search(text: &str, is_regex: bool, max: usize) -> Search {
        Search::new(pattern(text, is_regex, false).unwrap(), max)
    }

    #[test]
    fn lines_are_found_by_number() {
        let dir = tempfile::tempdir().unwrap();
        let mut search = search("a.c", false, 10);
        assert!(search.take(&file(dir.path(), "one", b"abc\n  x a.c y\n")));
        assert!(search.take(&file(dir.path(), "two", b"nothing")));
        let found = search.finish(0, false);
        assert_eq!((found.files_searched, found.files_with_matches), (2, 1));
        assert_eq!(found.matches.len(), 1);
        assert_eq!((found.matches[0].line, found.matches[0].text.as_str()), (2, "x a.c y"));
        assert!(found.matches[0].path.ends_with("/one"));
        assert!(!found.truncated);
    }

    #[test]
    fn a_regex_is_one_only_where_it_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let lines = file(dir.path(), "lines", b"abc\na.c\n");
        let mut as_regex = search("a.c", true, 10);
        as_regex.take(&lines);
        assert_eq!(as_regex.finish(0, false).matches.len(), 2);
    }

    #[test]
    fn a_full_list_stops_the_search() {
        let dir = tempfile::tempdir().unwrap();
        let lines = file(dir.path(), "lines", b"x\nx\nx\n");
        let mut exactly = search("x", false, 3);
        assert!(exactly.take(&lines));
        assert!(!exactly.finish(0, false).truncated);
        let mut full = search("x", false, 2);
        assert!(!full.take(&lines));
        let found = full.finish(0, false);
        assert_eq!((found.matches.len(), found.truncated), (2, true));
    }

    #[test]
    fn what_is_no_small_text_is_skipped_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut search = search("x", false, 10);
        assert!(search.take(&file(dir.path(), "binary", &[b'x', 0xff])));
        let large = File { bytes: MAX_FILE_BYTES + 1, ..file(dir.path(), "large", b"x") };
        assert!(search.take(&large));
        assert!(search.take(&File { path: dir.path().join("gone"), ..large.clone_small() }));
        let skipped = Skipped { binary: 1, too_large: 1, unreadable: 3 };
        assert_eq!(search.finish(2, false).skipped, skipped);
    }

    impl File {
        fn clone_small(&self) -> Self {
            Self { bytes: 1, ..self.clone() }
        }
    }

    #[test]
    fn long_lines_are_cut() {
        let dir = tempfile::tempdir().unwrap();
        let mut search = search("x", false, 1);
        search.take(&file(dir.path(), "long", &[b'x'; 1000]));
        let found = search.finish(0, false);
        assert_eq!(found.matches[0].text.chars().count(), MAX_LINE_CHARS + 1);
    }

    #[test]
    fn bad_patterns_are_refused() {
        let code = |text: &str| pattern(text, true, false).unwrap_err().code();
        assert_eq!(code(""), "bad_pattern");
        assert_eq!(code("("), "bad_pattern");
        assert_eq!(code(r"\w{1000}"), "pattern_too_large");
    }
}
