//! Serializes JSON as serde_json does, but faster for long strings: characters that need no escape
//! are found and copied many bytes at a time.

use serde_json::Value;

/// The bytes that are examined together: a block in a long string, a word at its beginning. Most
/// strings are short and end within their first words.
const BLOCK: usize = 32;
const WORD: usize = 8;
/// The length of that beginning, in bytes.
const SHORT: usize = 32;

/// Appends the value.
pub(super) fn write(value: &Value, text: &mut String) {
    match value {
        Value::String(string) => write_string(string, text),
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (at, (key, member)) in members.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_string(key, text);
                text.push(':');
                write(member, text);
            }
            text.push('}');
        }
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => text.push_str(&number.to_string()),
    }
}

/// Appends a string.
pub(super) fn write_string(string: &str, text: &mut String) {
    text.push('"');
    let mut rest = string;
    while let Some(at) = next_escaped(rest.as_bytes()) {
        // Escaped characters are ASCII, so this is a character boundary.
        let (plain, escaped) = rest.split_at(at);
        text.push_str(plain);
        escape(escaped.as_bytes()[0], text);
        rest = &escaped[1..];
    }
    text.push_str(rest);
    text.push('"');
}

/// Returns whether a byte must be escaped in a string.
const fn is_escaped(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// Returns the position of the first byte that must be escaped in a string.
pub(super) fn next_escaped(bytes: &[u8]) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<WORD>();
    let words = &words[..words.len().min(SHORT / WORD)];
    for (at, word) in words.iter().enumerate() {
        if let Some(byte) = escaped_in(*word) {
            return Some(at * WORD + byte);
        }
    }
    let mut plain = words.len() * WORD;
    // Without an early exit, a block compiles to a few instructions.
    for block in bytes[plain..].chunks(BLOCK) {
        if block.iter().fold(false, |found, byte| found | is_escaped(*byte)) {
            return block.iter().position(|byte| is_escaped(*byte)).map(|at| plain + at);
        }
        plain += block.len();
    }
    None
}

/// Returns the first byte of a word that must be escaped, testing all bytes at once. Subtracting
/// borrows from a byte's highest bit if the byte is less than the subtrahend.
fn escaped_in(word: [u8; WORD]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; WORD]);
    const HIGHEST: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    let less = |word: u64, than: u8| word.wrapping_sub(ONES * u64::from(than)) & !word & HIGHEST;
    let is = |byte: u8| less(word ^ (ONES * u64::from(byte)), 1);
    // A borrow from higher bytes cannot mark a byte below the first match.
    let found = less(word, b' ') | is(b'"') | is(b'\\');
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

fn escape(byte: u8, text: &mut String) {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    text.push('\\');
    match byte {
        b'"' | b'\\' => text.push(char::from(byte)),
        0x08 => text.push('b'),
        0x0c => text.push('f'),
        b'\n' => text.push('n'),
        b'\r' => text.push('r'),
        b'\t' => text.push('t'),
        _ => {
            text.push_str("u00");
            text.push(HEX[usize::from(byte >> 4)]);
            text.push(HEX[usize::from(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{is_escaped, next_escaped};
    use crate::json::to_text;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn every_ascii_character_is_written_as_serde_json_does() {
        let all: String = (0..=127_u8).map(char::from).collect();
        let value = json!({ &all: [all, "", null, true, false, -1, 1.5e300, u64::MAX] });
        assert_eq!(to_text(&value, 0), value.to_string());
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_found_wherever_it_stands(
            bytes in prop::collection::vec(prop_oneof![9 => b'#'..=b'~', 1 => 0_u8..=b'"', 1 => b'['..=b']', 1 => any::<u8>()], 0..80),
        ) {
            prop_assert_eq!(next_escaped(&bytes), bytes.iter().position(|byte| is_escaped(*byte)));
        }

        #[test]
        fn any_text_is_written_as_serde_json_does(text in "(\\PC|[\\x00-\\x1f\"\\\\]){0,100}", key in ".{0,40}") {
            let value = json!({ key: [text, { "a": Value::Null }] });
            prop_assert_eq!(to_text(&value, 0), value.to_string());
        }
    }
}
