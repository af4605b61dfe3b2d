//! Violations of a schema, and their words. Values and names are cut, whatever their size.

use super::node::{Enum, Limit, Types};
use crate::text::clean;
use serde_json::{Number, Value};
use std::fmt::Write as _;
use std::io;

/// The most bytes of a value that a message shows.
const SHOWN_BYTES: usize = 160;
/// The most options of an `enum`, and the most names, that a message shows.
const SHOWN_OPTIONS: usize = 3;
const SHOWN_NAMES: usize = 10;
/// The most bytes of a pointer.
const MAX_PLACE_BYTES: usize = 500;
/// The most bytes of the description of one problem.
const MAX_PROBLEM_BYTES: usize = 500;

/// The most violations that are reported for one value.
pub const MAX_VIOLATIONS: usize = 20;

/// One way in which a value does not fit a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer (RFC 6901) to the position in the value; empty for the whole value.
    pub pointer: String,
    /// The problem at that position.
    pub problem: String,
}

/// Returns a value as JSON, cut to [`SHOWN_BYTES`].
pub(super) fn shown(value: &Value) -> String {
    let mut text = PrefixWriter(Vec::new());
    let whole = serde_json::to_writer(&mut text, value).is_ok();
    let text = String::from_utf8_lossy(&text.0);
    if whole { text.into_owned() } else { format!("{}...", text.trim_end_matches('\u{fffd}')) }
}

/// A writer that accepts the first bytes and rejects the rest, so that the rest is never
/// serialized.
struct PrefixWriter(Vec<u8>);

impl io::Write for PrefixWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = SHOWN_BYTES - self.0.len();
        if room == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let taken = bytes.len().min(room);
        self.0.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Cuts a problem's description to its limit.
pub(super) fn problem(text: &str) -> String {
    clean(text, MAX_PROBLEM_BYTES)
}

/// Cuts a pointer to its limit.
pub(super) fn place(mut pointer: String) -> String {
    if pointer.len() > MAX_PLACE_BYTES {
        crate::text::cut(&mut pointer, MAX_PLACE_BYTES);
    }
    pointer
}

pub(super) fn wrong_type(value: &Value, types: &Types) -> String {
    let names: Vec<String> = types.names.iter().map(|name| format!("\"{}\"", name.as_str())).collect();
    let word = if names.len() == 1 { "type" } else { "types" };
    format!("{} is not of {word} {}", shown(value), names.join(", "))
}

pub(super) fn not_among(value: &Value, options: &Enum) -> String {
    let options = &options.options;
    // A count of one omitted option would be no shorter than the option.
    let count = if options.len() <= SHOWN_OPTIONS { options.len() } else { SHOWN_OPTIONS - 1 };
    let mut text = format!("{} is not one of ", shown(value));
    for (place, option) in options.iter().take(count).enumerate() {
        let before = match place {
            0 => "",
            last if last + 1 == options.len() => " or ",
            _ => ", ",
        };
        let _ = write!(text, "{before}{}", shown(option));
    }
    if count < options.len() {
        let _ = write!(text, " or {} other candidates", options.len() - count);
    }
    text
}

pub(super) fn beyond(value: &Value, limit: Limit, bound: &Number) -> String {
    let words = match limit {
        Limit::Minimum => "less than the minimum",
        Limit::Maximum => "greater than the maximum",
        Limit::ExclusiveMinimum => "less than or equal to the minimum",
        Limit::ExclusiveMaximum => "greater than or equal to the maximum",
    };
    format!("{} is {words} of {bound}", shown(value))
}

pub(super) fn too_few(value: &Value, words: &str, least: u64, of: (&str, &str)) -> String {
    format!("{} {words} {least} {}", shown(value), if least == 1 { of.0 } else { of.1 })
}

/// Returns a message about the names that an object may not contain.
pub(super) fn unexpected(kind: &str, names: &[&str], count: usize) -> String {
    let mut listed: Vec<String> =
        names.iter().take(SHOWN_NAMES).map(|name| format!("'{}'", beginning(name))).collect();
    if count > listed.len() {
        listed.push(format!("and {} more", count - listed.len()));
    }
    let were = if count == 1 { "was" } else { "were" };
    format!("{kind} are not allowed ({} {were} unexpected)", listed.join(", "))
}

/// Returns whether another name fits in the message.
pub(super) fn has_room(names: &[&str]) -> bool {
    names.len() < SHOWN_NAMES
}

/// Cuts a name or pattern to [`SHOWN_BYTES`].
pub(super) fn beginning(text: &str) -> &str {
    let mut end = text.len().min(SHOWN_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_beginning_of_a_value_is_written() {
        assert_eq!(shown(&json!({"a": [1, "b"]})), r#"{"a":[1,"b"]}"#);
        for large in [json!("\u{e4}".repeat(10_000_000)), json!(vec![json!({"a": "b"}); 100_000])] {
            let text = shown(&large);
            assert!(text.len() <= SHOWN_BYTES + 3 && text.ends_with("..."), "{text}");
        }
        let names = ["a"; 3];
        assert_eq!(unexpected("Extra", &names[..1], 1), "Extra are not allowed ('a' was unexpected)");
        assert!(unexpected("Extra", &names, 30).contains("and 27 more were unexpected"));
    }
}
