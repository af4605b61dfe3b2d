//! Replacing text where the match is unambiguous.

use serde::Serialize;
use std::path::Path;
use tollgate_sdk::CodedError;

/// The result of an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edited {
    /// The file.
    pub path: String,
    /// The line of the first change, counted from 1.
    pub line: usize,
    /// The number of replacements.
    pub changed: usize,
    /// The whole text after the edit.
    #[serde(skip)]
    pub text: String,
}

impl Edited {
    /// Sets the path of the file.
    #[must_use]
    pub fn at(mut self, file: &Path) -> Self {
        self.path = file.display().to_string();
        self
    }
}

/// Replaces `old` with `new` if it occurs in the text exactly `expected` times.
///
/// Fails with `nothing_to_replace`, `not_found`, or `not_unique`.
pub fn replace(text: &str, old: &str, new: &str, expected: usize) -> Result<Edited, CodedError> {
    if old.is_empty() || old == new {
        return Err(CodedError::new("nothing_to_replace", "`old` is empty, or the same as `new`."));
    }
    let mut places = text.match_indices(old).map(|(at, _)| at);
    let Some(first) = places.next() else {
        return Err(CodedError::new("not_found", near(text, old)));
    };
    let found = 1 + places.count();
    if found != expected {
        return Err(CodedError::new(
            "not_unique",
            format!(
                "`old` occurs {found} times, not {expected}. Include more of the surrounding text, or set \
                 `expected`."
            ),
        ));
    }
    let line = text[..first].matches('\n').count() + 1;
    Ok(Edited { path: String::new(), line, changed: found, text: text.replace(old, new) })
}

/// Explains why `old` was not found: whether only the whitespace differs.
fn near(text: &str, old: &str) -> String {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    match squeezed(text).contains(&squeezed(old)) {
        true => {
            "`old` occurs only with different whitespace or line endings. Copy it from the file.".to_owned()
        }
        false => "`old` does not occur in the file. Read the file first.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_meant_is_replaced() {
        let edited = replace("a\nb\nc\n", "b", "x\ny", 1).unwrap();
        assert_eq!((edited.text.as_str(), edited.line, edited.changed), ("a\nx\ny\nc\n", 2, 1));
        assert_eq!(replace("a a", "a", "b", 2).unwrap().text, "b b");
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        assert_eq!(replace("a a", "a", "b", 1).unwrap_err().code(), "not_unique");
        assert_eq!(replace("a", "", "b", 1).unwrap_err().code(), "nothing_to_replace");
        let blanks = replace("if x {\n    y\n}", "if x {\n  y\n}", "z", 1).unwrap_err();
        assert!(blanks.message().contains("different whitespace"), "{blanks}");
        let absent = replace("if x {}", "while", "z", 1).unwrap_err();
        assert!(absent.message().contains("Read the file"), "{absent}");
    }
}
