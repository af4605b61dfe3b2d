//! Reads text that nests deeper than serde_json's limit, level by level.
//!
//! The reader fails at 128 levels below its starting point. A text beyond that is split, one level
//! at a time, until each part is within the limit.

use super::{JsonError, Strict};
use memchr::{memchr2, memchr2_iter};
use serde::de::{Deserialize, DeserializeSeed as _, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

/// The depth at which serde_json refuses a text.
pub(super) const READER_DEPTH: usize = 128;

/// Reads a text of any depth, which the caller has bounded. A repeated key is refused.
pub(super) fn read(text: &str) -> Result<Value, JsonError> {
    read_nested(text, nesting(text))
}

/// Reads a text with this depth of nesting.
pub(super) fn read_nested(text: &str, nesting: usize) -> Result<Value, JsonError> {
    if nesting < READER_DEPTH {
        return strict(text).map_err(|e| JsonError(e.to_string()));
    }
    let error = |e: serde_json::Error| JsonError(e.to_string());
    if text.trim_start().starts_with('[') {
        let elements: Vec<&RawValue> = serde_json::from_str(text).map_err(error)?;
        elements.into_iter().map(|element| read(element.get())).collect()
    } else {
        let Members(members) = serde_json::from_str(text).map_err(error)?;
        members.into_iter().map(|(key, member)| Ok((key, read(member.get())?))).collect()
    }
}

/// Returns how deep the brackets outside strings nest. With fewer than [`READER_DEPTH`] opening
/// brackets, returns their number instead. For text that is not JSON, the result is at least the
/// depth that a reader could reach.
pub(super) fn nesting(text: &str) -> usize {
    let (bytes, mut at) = (text.as_bytes(), 0);
    let opened = memchr2_iter(b'[', b'{', bytes).take(READER_DEPTH).count();
    if opened < READER_DEPTH {
        return opened;
    }
    let (mut now, mut deepest) = (0_usize, 0);
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

fn strict(text: &str) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// An object's members with unparsed values.
struct Members<'t>(Vec<(String, &'t RawValue)>);

impl<'t> Deserialize<'t> for Members<'t> {
    fn deserialize<D: Deserializer<'t>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'t> Visitor<'t> for MembersVisitor {
    type Value = Members<'t>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut entries: A) -> Result<Members<'t>, A::Error> {
        let mut members: Vec<(String, &RawValue)> = Vec::new();
        let mut keys = std::collections::BTreeSet::new();
        while let Some((key, value)) = entries.next_entry::<String, &RawValue>()? {
            super::check_key(&key).map_err(A::Error::custom)?;
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(super::repeated(&key)));
            }
            members.push((key, value));
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json::{MAX_DEPTH, from_record, parse};

    #[test]
    fn the_deepest_value_is_read_and_one_level_more_is_not() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |levels: usize| format!("{}0{}", open.repeat(levels), close.repeat(levels));
            let text = nested(MAX_DEPTH);
            assert_eq!(parse(&text).unwrap().to_string(), text);
            assert!(parse(&nested(MAX_DEPTH + 1)).is_err());
        }
    }

    #[test]
    fn what_was_read_can_be_recorded_and_read_again() {
        let deepest = format!("{}1.5{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        let record = format!("{{\"event\":{{\"values\":[\"[{{\",{deepest}]}}}}");
        let read: Value = from_record(&record).unwrap();
        assert_eq!(read.to_string(), record);
    }

    #[test]
    fn deep_text_is_read_as_strictly_as_any() {
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(MAX_DEPTH - 1), "]".repeat(MAX_DEPTH - 1));
        assert!(parse(&deep("{\"a\":1}")).is_ok());
        for wrong in ["{\"a\":1,\"a\":2}", "{\"a\":01}", "{a:1}", "{\"a\":1}]"] {
            assert!(parse(&deep(wrong)).is_err(), "{wrong}");
        }
        let outer = format!("{{\"a\":{},\"a\":1}}", deep("0"));
        assert!(parse(&outer).is_err());
    }
}
