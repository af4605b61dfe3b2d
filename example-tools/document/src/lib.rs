//! The text that a tool works on: from its arguments, or from a file in a directory
//! that an operator granted.
//!
//! Six of the example tools work on a text. Each takes it as `text` or as the `path`
//! of a file and fetches it with this crate. Every failure is a [`CodedError`]: a
//! code and a sentence that suggests what to do next.

mod directories;

pub use directories::Directories;

use tollgate_sdk::CodedError;

/// The longest text that is read, in bytes. A tool has 64 MiB of memory by default,
/// and a table or a document of many small parts takes twenty times its text.
pub const MAX_TEXT_BYTES: u64 = 2 << 20;

/// Returns the text named by the arguments: exactly one of `text` and `path` is set.
///
/// Fails with `no_text` if neither is set, with `two_texts` if both are, with
/// `too_large` above [`MAX_TEXT_BYTES`], and like [`Directories::read`].
pub fn fetch(
    text: Option<String>,
    path: Option<&str>,
    directories: &Directories,
) -> Result<String, CodedError> {
    match (text, path) {
        (Some(text), None) => within_bounds(text),
        (None, Some(path)) => directories.read(path),
        (None, None) => Err(CodedError::new("no_text", "Give either `text` or `path`.")),
        (Some(_), Some(_)) => Err(CodedError::new("two_texts", "Give `text` or `path`, not both.")),
    }
}

/// Cuts a text for a result: returns its first `max_chars` characters, with an
/// ellipsis if there are more.
pub fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn within_bounds(text: String) -> Result<String, CodedError> {
    let bytes = text.len() as u64;
    if bytes > MAX_TEXT_BYTES {
        return Err(CodedError::new(
            "too_large",
            format!("The text has {bytes} bytes; the limit is {MAX_TEXT_BYTES}."),
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn nothing_granted() -> Directories {
        Directories::new("word-count", Vec::new())
    }

    #[test]
    fn text_is_taken_as_it_is() {
        let text = fetch(Some("a b".to_owned()), None, &nothing_granted());
        assert_eq!(text.unwrap(), "a b");
    }

    #[test]
    fn neither_and_both_are_refused() {
        let neither = fetch(None, None, &nothing_granted()).unwrap_err();
        assert_eq!(neither.code(), "no_text");
        let both = fetch(Some(String::new()), Some("x"), &nothing_granted()).unwrap_err();
        assert_eq!(both.code(), "two_texts");
    }

    #[test]
    fn a_piece_is_cut_between_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöü", 2), "äö…");
        assert_eq!(cut("", 0), "");
    }

    #[test]
    fn a_text_past_the_bound_is_refused() {
        let bound = usize::try_from(MAX_TEXT_BYTES).unwrap();
        assert!(fetch(Some("x".repeat(bound)), None, &nothing_granted()).is_ok());
        let refused = fetch(Some("x".repeat(bound + 1)), None, &nothing_granted()).unwrap_err();
        assert_eq!(refused.code(), "too_large");
    }
}
