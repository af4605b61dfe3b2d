//! Finds the matches of a regular expression in a text.
//!
//! Patterns come from a model, so their size is bounded. The engine does not
//! backtrack: one search is linear in the text, and finding all matches is at worst
//! quadratic.

use document::cut;
use regex::{Captures, Regex, RegexBuilder};
use serde::Serialize;
use std::collections::BTreeMap;
use tollgate_sdk::CodedError;

/// The longest pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 4096;

/// The largest compiled pattern, in bytes.
const MAX_PROGRAM_BYTES: usize = 1 << 20;

/// The maximum nesting of groups. The stack of a guest is small.
const MAX_NESTING: u32 = 48;

/// The longest match that a result quotes, in characters.
const MAX_QUOTED_CHARS: usize = 300;

/// The flags of a pattern.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flags {
    /// `a` finds `A`.
    pub ignore_case: bool,
    /// `^` and `$` match the ends of lines, not of the text.
    pub multi_line: bool,
    /// `.` matches line ends too.
    pub dot_all: bool,
}

/// The matches in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Extract {
    /// The number of matches, including those not listed.
    pub count: usize,
    /// The first matches.
    pub matches: Vec<Match>,
    /// Whether there are more matches than are listed.
    pub truncated: bool,
}

/// One match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Match {
    /// The whole match.
    pub text: String,
    /// The line that it begins on, counted from 1.
    pub line: usize,
    /// The groups by name, or by number if they have none. Groups that did not
    /// participate are omitted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, String>,
}

/// Compiles a pattern. Fails with `bad_pattern` or `pattern_too_large`.
pub fn compile(pattern: &str, flags: Flags) -> Result<Regex, CodedError> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(too_large());
    }
    RegexBuilder::new(pattern)
        .case_insensitive(flags.ignore_case)
        .multi_line(flags.multi_line)
        .dot_matches_new_line(flags.dot_all)
        .size_limit(MAX_PROGRAM_BYTES)
        .dfa_size_limit(MAX_PROGRAM_BYTES)
        .nest_limit(MAX_NESTING)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => too_large(),
            error => CodedError::new("bad_pattern", format!("The pattern cannot be read. {error}")),
        })
}

/// Counts all matches in the text and lists the first `max_matches`.
pub fn extract(regex: &Regex, text: &str, max_matches: usize) -> Extract {
    let mut matches = Vec::new();
    let mut count = 0;
    let (mut line, mut counted_to) = (1, 0);
    for found in regex.captures_iter(text) {
        count += 1;
        if matches.len() == max_matches {
            continue;
        }
        let start = found.get_match().start();
        line += text[counted_to..start].matches('\n').count();
        counted_to = start;
        matches.push(Match {
            text: cut(found.get_match().as_str(), MAX_QUOTED_CHARS),
            line,
            groups: groups(regex, &found),
        });
    }
    Extract { count, truncated: count > matches.len(), matches }
}

fn groups(regex: &Regex, found: &Captures<'_>) -> BTreeMap<String, String> {
    let numbered = regex.capture_names().enumerate().skip(1);
    numbered
        .filter_map(|(number, name)| {
            let group = found.get(number)?;
            let name = name.map_or_else(|| number.to_string(), str::to_owned);
            Some((name, cut(group.as_str(), MAX_QUOTED_CHARS)))
        })
        .collect()
}

fn too_large() -> CodedError {
    CodedError::new(
        "pattern_too_large",
        format!(
            "The pattern is too large: at most {MAX_PATTERN_BYTES} bytes, and at most \
             {MAX_PROGRAM_BYTES} when compiled. Large counts such as {{1000}} multiply its size."
        ),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn find(pattern: &str, text: &str, max: usize) -> Extract {
        extract(&compile(pattern, Flags::default()).unwrap(), text, max)
    }

    #[test]
    fn matches_have_line_and_groups() {
        let found = find(r"(?<key>\w+)=(\d+)?", "a=1\nx\nb=", 10);
        assert_eq!((found.count, found.truncated), (2, false));
        assert_eq!((found.matches[0].text.as_str(), found.matches[0].line), ("a=1", 1));
        assert_eq!(found.matches[0].groups["key"], "a");
        assert_eq!(found.matches[0].groups["2"], "1");
        assert_eq!(found.matches[1].line, 3);
        assert!(!found.matches[1].groups.contains_key("2"));
    }

    #[test]
    fn all_are_counted_and_some_are_listed() {
        let found = find(r"\d", "1 2 3 4", 2);
        assert_eq!((found.count, found.matches.len(), found.truncated), (4, 2, true));
    }

    #[test]
    fn flags_change_what_is_found() {
        let flags = Flags { ignore_case: true, multi_line: true, dot_all: true };
        let regex = compile("^b.c$", flags).unwrap();
        assert_eq!(extract(&regex, "a\nB\nC\nd", 9).count, 1);
        assert_eq!(find("^b.c$", "a\nB\nC\nd", 9).count, 0);
    }

    #[test]
    fn words_are_those_of_unicode() {
        let found = find(r"\p{Lu}\w+", "Zürich und Ägeri, 東京", 9);
        let texts: Vec<_> = found.matches.iter().map(|m| m.text.as_str()).collect();
        assert_eq!(texts, ["Zürich", "Ägeri"]);
    }

    #[test]
    fn an_empty_match_does_not_stop_the_search() {
        assert_eq!(find("x*", "axb", 10).count, 3);
    }

    #[test]
    fn bad_and_large_patterns_are_refused() {
        let code = |pattern: &str| compile(pattern, Flags::default()).unwrap_err().code();
        assert_eq!(code("("), "bad_pattern");
        assert_eq!(code(r"(a)\1"), "bad_pattern");
        assert_eq!(code(&"(".repeat(60)), "bad_pattern");
        assert_eq!(code(r"\w{1000}"), "pattern_too_large");
        assert_eq!(code(&"a".repeat(MAX_PATTERN_BYTES + 1)), "pattern_too_large");
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = format!("{}a{}", "(".repeat(60), ")".repeat(60));
        assert_eq!(compile(&nested, Flags::default()).unwrap_err().code(), "bad_pattern");
    }

    #[test]
    fn long_matches_are_cut() {
        let found = find("(a+)", &"a".repeat(MAX_QUOTED_CHARS + 1), 1);
        assert_eq!(found.matches[0].text.chars().count(), MAX_QUOTED_CHARS + 1);
        assert!(found.matches[0].groups["1"].ends_with('…'));
    }

    #[test]
    fn what_backtracks_elsewhere_is_linear_here() {
        let text = format!("{}!", "a".repeat(20_000));
        assert_eq!(find("^(a+)+$", &text, 1).count, 0);
    }
}
