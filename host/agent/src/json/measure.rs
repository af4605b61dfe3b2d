//! The nesting of a text and its size once parsed, found without parsing it.

use memchr::{memchr2, memchr2_iter};
use serde::Serialize;
use serde_json::Value;
use std::io;

/// The deepest nesting that is accepted.
pub const MAX_DEPTH: usize = 128;
/// The most JSON values that are parsed at one time: those of one text, or of all texts that one
/// call returns. Each takes many times the memory of its text.
pub const MAX_NODES: usize = 500_000;
/// The depth at which serde_json refuses a text.
pub(super) const READER_DEPTH: usize = 128;

/// The prefix of the keys with which `serde_json` marks its own special values. It parses the string that
/// belongs to such a key as JSON of its own.
pub(super) const RESERVED: &str = "$serde_json::";

/// Bytes of one value within a list. A list's capacity is at most twice its length.
const ELEMENT_BYTES: u64 = 2 * size_of::<Value>() as u64;
/// Bytes of a list's initial allocation.
const LIST_BYTES: u64 = 4 * size_of::<Value>() as u64 + 16;
/// Bytes of one member of an object without the characters of its key: hash, key, value and its
/// entry in the table of keys, with room for twice as many.
const MEMBER_BYTES: u64 = 2 * (size_of::<Value>() + size_of::<String>() + 24) as u64 + 16;
/// Bytes of an object's initial allocation.
const OBJECT_BYTES: u64 = 4 * (size_of::<Value>() + size_of::<String>() + 8) as u64 + 96;
/// Bytes that a string takes in addition to its characters.
const TEXT_BYTES: u64 = 16;

/// Bytes of the quotes around a string.
const QUOTES_BYTES: usize = 2;

/// The reason why a text was refused as JSON, with line and column if known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(pub(super) String);

/// The size of a parsed JSON text. For text that is not JSON, at least the size of what a reader
/// has built when it fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measure {
    /// The number of values, including those within lists and objects.
    pub nodes: usize,
    /// The number of keys in all objects together.
    pub members: usize,
    /// The most bytes that the parsed form takes.
    pub parsed_bytes: u64,
}

/// Measures the text in one pass, without allocating.
#[must_use]
pub fn measure(bytes: &[u8]) -> Measure {
    let mut at = 0;
    let mut measure = Measure::default();
    let mut is_parsed_again = false;
    while let Some(byte) = bytes.get(at) {
        let began = at;
        at += 1;
        match byte {
            b'[' => measure.add_list(),
            b'{' => measure.add_object(),
            b'"' => {
                at = end_of_string(bytes, began);
                if is_key(bytes, at) {
                    measure.add_key(at - began);
                    is_parsed_again = is_reserved_key(&bytes[began + 1..at]);
                } else if std::mem::take(&mut is_parsed_again) {
                    measure.add_json_text(at - began);
                } else {
                    measure.add_text(at - began);
                }
            }
            b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' | b']' | b'}' => {}
            _ => {
                at += bytes[at..].iter().take_while(|byte| !ends_scalar(**byte)).count();
                measure.add_value(0);
            }
        }
    }
    measure
}

impl Measure {
    /// Measures a parsed value as [`measure`] does its text without escapes. Values that were read
    /// by this crate nest at most [`MAX_DEPTH`] levels deep.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        let mut measure = Self::default();
        measure.add(value);
        measure
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => self.add_value(0),
            Value::String(text) => self.add_text(text.len() + QUOTES_BYTES),
            Value::Array(items) => {
                self.add_list();
                items.iter().for_each(|item| self.add(item));
            }
            Value::Object(members) => {
                self.add_object();
                for (key, part) in members {
                    self.add_key(key.len() + QUOTES_BYTES);
                    self.add(part);
                }
            }
        }
    }

    /// Adds a list; its elements are added separately.
    pub fn add_list(&mut self) {
        self.add_value(LIST_BYTES);
    }

    /// Adds an object; its keys and their values are added separately.
    pub fn add_object(&mut self) {
        self.add_value(OBJECT_BYTES);
    }

    /// Adds a string of this many bytes, or any value that takes no more.
    pub fn add_text(&mut self, bytes: usize) {
        self.add_value(bytes as u64 + TEXT_BYTES);
    }

    /// Adds a key of this many bytes.
    pub fn add_key(&mut self, bytes: usize) {
        self.members += 1;
        // The member's value is also counted as an element, which is smaller.
        self.parsed_bytes += MEMBER_BYTES - ELEMENT_BYTES + bytes as u64;
    }

    /// Adds a string of this many bytes that is parsed as JSON of its own. Each of its values takes at
    /// least a byte and a separator, and at most the memory of an object.
    fn add_json_text(&mut self, bytes: usize) {
        let nodes = bytes / 2 + 1;
        self.nodes += nodes;
        self.parsed_bytes += bytes as u64 + nodes as u64 * (ELEMENT_BYTES + OBJECT_BYTES);
    }

    /// Adds a value that takes this many bytes beyond its element.
    fn add_value(&mut self, bytes: u64) {
        self.nodes += 1;
        self.parsed_bytes += ELEMENT_BYTES + bytes;
    }
}

/// Returns how deep the brackets outside strings nest. With fewer than [`READER_DEPTH`] opening
/// brackets, returns their number instead. For text that is not JSON, the result is at least the
/// depth that a reader could reach.
pub(super) fn nesting(text: &str) -> usize {
    let bytes = text.as_bytes();
    let opened = memchr2_iter(b'[', b'{', bytes).take(READER_DEPTH).count();
    if opened < READER_DEPTH {
        return opened;
    }
    let (mut at, mut now, mut deepest) = (0, 0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'[' | b'{' => {
                now += 1;
                deepest = deepest.max(now);
            }
            b']' | b'}' => now = now.saturating_sub(1),
            b'"' => {
                at = end_of_string(bytes, at);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    deepest
}

/// Returns the position after the string that begins at `start`, or the end of the text if the
/// string is not closed.
pub(super) fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// Returns whether a key, as it is written after its opening quote, begins like those with which
/// `serde_json` marks its own special values. Their strings are parsed as JSON of their own.
#[must_use]
pub fn is_reserved_key(written: &[u8]) -> bool {
    let mut rest = written;
    for expected in RESERVED.bytes() {
        rest = match rest {
            [byte, after @ ..] if *byte == expected => after,
            [b'\\', b'u', b'0', b'0', high, low, after @ ..] if code(*high, *low) == Some(expected) => after,
            _ => return false,
        };
    }
    true
}

/// Returns the byte of two hexadecimal digits.
fn code(high: u8, low: u8) -> Option<u8> {
    let digits = [high, low];
    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()
}

/// Returns whether the string that ends here is a key.
fn is_key(bytes: &[u8], end: usize) -> bool {
    let rest = bytes.get(end..).unwrap_or_default();
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

fn ends_scalar(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' | b'[' | b']' | b'{' | b'}' | b'"')
}

/// Returns the length of a value's JSON in bytes, without writing it to memory; `usize::MAX` if it
/// cannot be written.
#[must_use]
pub fn written_bytes(value: &impl Serialize) -> usize {
    let mut length = Length(0);
    match serde_json::to_writer(&mut length, value) {
        Ok(()) => length.0,
        Err(_) => usize::MAX,
    }
}

/// Counts the bytes that are written to it.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The number of nodes that texts of one origin may still have, such as the results of one call or
/// the content of one message.
#[derive(Debug)]
pub struct NodesLeft {
    left: usize,
    all: usize,
}

impl NodesLeft {
    /// Allows [`MAX_NODES`] nodes.
    #[must_use]
    pub fn all() -> Self {
        Self::up_to(MAX_NODES)
    }

    /// Allows this many nodes, at most [`MAX_NODES`].
    #[must_use]
    pub fn up_to(nodes: usize) -> Self {
        let all = nodes.min(MAX_NODES);
        Self { left: all, all }
    }

    /// Subtracts the nodes of a measured text.
    ///
    /// # Errors
    /// The texts have more nodes in all than allowed.
    pub fn take(&mut self, measure: &Measure) -> Result<(), JsonError> {
        let left = self.left.checked_sub(measure.nodes);
        self.left = left.ok_or_else(|| too_many(self.all))?;
        Ok(())
    }
}

/// Returns how deep a text nests, refusing one that nests too deep or has too many values.
pub(super) fn bounded(text: &str) -> Result<usize, JsonError> {
    let nesting = nesting(text);
    if nesting > MAX_DEPTH {
        return Err(JsonError(format!("nested deeper than {MAX_DEPTH} levels")));
    }
    // Each node takes at least one byte plus a separator.
    if text.len() > 2 * MAX_NODES {
        NodesLeft::all().take(&measure(text.as_bytes()))?;
    }
    Ok(nesting)
}

fn too_many(all: usize) -> JsonError {
    JsonError(format!(
        "more than {all} JSON values in all, those within lists and objects included (json_nodes)"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json::parse;
    use proptest::prelude::*;

    fn nodes_of(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(nodes_of).sum(),
            Value::Object(members) => members.values().map(nodes_of).sum(),
            _ => 0,
        }
    }

    #[test]
    fn z3_nodes_are_counted_without_reading() {
        for (text, nodes, members) in [
            ("null", 1, 0),
            (" [ ] ", 1, 0),
            ("[[],[],[]]", 4, 0),
            (r#"{"a" : {"b":[1,-2.5e3,"c\":"]},"d":true}"#, 7, 3),
            (r#"["a","b:",": "]"#, 4, 0),
        ] {
            let measure = measure(text.as_bytes());
            assert_eq!((measure.nodes, measure.members), (nodes, members), "{text}");
            assert_eq!(nodes_of(&parse(text).unwrap()), nodes, "{text}");
        }
    }

    #[test]
    fn z3_a_text_of_too_many_nodes_is_not_read() {
        let list = |items: usize| format!("[{}]", vec!["0"; items].join(","));
        assert!(parse(&list(MAX_NODES - 1)).is_ok());
        let why = parse(&list(MAX_NODES)).unwrap_err().to_string();
        assert!(why.contains("500000"), "{why}");
        let mut left = NodesLeft::all();
        assert!(left.take(&measure(list(MAX_NODES - 2).as_bytes())).is_ok());
        assert!(left.take(&measure(b"0")).is_ok());
        assert!(left.take(&measure(b"0")).is_err(), "all texts count together");
    }

    /// `serde_json` reads the string of such a key as JSON, however the key is written.
    #[test]
    fn z3_json_within_the_string_of_a_reserved_key_is_counted() {
        let values = r#"{\"a\":0},"#.repeat(1_000);
        for key in ["$serde_json::private::RawValue", r"\u0024serd\u0065_json::private::RawValue"] {
            let text = format!(r#"[{{"{key}":"[{values}0]"}}]"#);
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(nodes_of(&read), 2_003, "it is parsed again: {key}");
            let (counted, parsed) = (measure(text.as_bytes()), Measure::of(&read));
            assert!(counted.nodes >= nodes_of(&read) && counted.parsed_bytes >= parsed.parsed_bytes, "{key}");
        }
        for key in ["$serde_json:", "serde_json::x", r"\u0025serde_json::", ""] {
            let text = format!(r#"{{"{key}":"[{values}0]"}}"#);
            assert_eq!(measure(text.as_bytes()).nodes, 2, "{key}");
        }
    }

    proptest! {
        #[test]
        fn z3_whatever_is_read_was_counted(text in r#"([\[{]?("\PC{0,3}"|"\\"":|[0-9.eE+-]{1,5}|[\]\[}{:, ]|null|true)){0,12}"#) {
            if let Ok(value) = parse(&text) {
                prop_assert_eq!(measure(text.as_bytes()).nodes, nodes_of(&value));
            }
        }
    }
}
