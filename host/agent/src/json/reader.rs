//! The strict reader: it builds a value, or rewrites a text without building the value in between,
//! since a large value takes many times the memory of its text.
//!
//! `serde_json` fails at 128 levels below its starting point. A text beyond that is split, one level
//! at a time, until each part is within the limit.

use super::measure::{JsonError, MAX_DEPTH, READER_DEPTH, RESERVED, bounded, nesting};
use super::numbers::check_numbers;
use serde::Serialize;
use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};
use serde_json::map::Entry;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use std::collections::BTreeSet;
use std::fmt;

/// The deepest nesting accepted in the host's own records.
const MAX_RECORD_DEPTH: usize = 2 * MAX_DEPTH;

/// Parses one JSON text, refusing repeated keys, more than [`MAX_DEPTH`] levels and more than
/// [`MAX_NODES`](super::MAX_NODES) values. Both limits are checked before parsing starts.
///
/// # Errors
/// The text is not JSON by RFC 8259, repeats a key within one object, nests too deep, has too many
/// values, contains a number beyond the range of a 64-bit float, or has a key that starts with
/// `$serde_json::`, which could be recorded but not read back.
pub fn parse(text: &str) -> Result<Value, JsonError> {
    let nesting = bounded(text)?;
    read_nested(text, nesting)
}

/// Parses one JSON text as [`parse`] does, and refuses numbers that do not survive a round trip
/// through this host.
///
/// # Errors
/// Same as [`parse`], and if a number would be passed on as a different number.
pub fn parse_exact(text: &str) -> Result<Value, JsonError> {
    let value = parse(text)?;
    check_numbers(text)?;
    Ok(value)
}

/// Reads a record that this host wrote. A record adds levels of its own around values that may
/// themselves be [`MAX_DEPTH`] levels deep.
///
/// # Errors
/// The text is not JSON, or does not match the type.
pub fn from_record<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    let nesting = nesting(text);
    if nesting > MAX_RECORD_DEPTH {
        return Err(JsonError(format!("nested deeper than {MAX_RECORD_DEPTH} levels")));
    }
    let record = if nesting < READER_DEPTH {
        serde_json::from_str(text)
    } else {
        serde_json::from_value(read_nested(text, nesting)?)
    };
    record.map_err(|e| JsonError(e.to_string()))
}

/// Reads a text of any depth, which the caller has bounded. A repeated key is refused.
pub(super) fn read(text: &str) -> Result<Value, JsonError> {
    read_nested(text, nesting(text))
}

/// Reads a text with this depth of nesting.
fn read_nested(text: &str, nesting: usize) -> Result<Value, JsonError> {
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

fn strict(text: &str) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = StrictVisitor.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Returns the text as this host writes it. The text must nest less deep than serde_json's limit.
///
/// # Errors
/// Same as [`parse`].
pub(super) fn rewritten(sent: &str) -> Result<String, JsonError> {
    let mut written = Vec::with_capacity(sent.len());
    let mut reader = serde_json::Deserializer::from_str(sent);
    let read = Rewrite(&mut written).deserialize(&mut reader).and_then(|()| reader.end());
    read.map_err(|e| JsonError(e.to_string()))?;
    String::from_utf8(written).map_err(|e| JsonError(e.to_string()))
}

/// Returns what a reader reads as text, as this host writes it. Its value is not built.
///
/// # Errors
/// The reader fails, or it reads a repeated or reserved key.
pub(super) fn written_from<'de, D: Deserializer<'de>>(reader: D) -> Result<String, D::Error> {
    let mut written = Vec::new();
    Rewrite(&mut written).deserialize(reader)?;
    String::from_utf8(written).map_err(D::Error::custom)
}

/// A visitor that builds a [`Value`] and refuses repeated keys.
struct StrictVisitor;

impl<'de> DeserializeSeed<'de> for StrictVisitor {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_f64<E: Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(StrictVisitor)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            check_key(&key).map_err(A::Error::custom)?;
            match map.entry(key) {
                Entry::Occupied(first) => return Err(A::Error::custom(repeated(first.key()))),
                Entry::Vacant(free) => free.insert(entries.next_value_seed(StrictVisitor)?),
            };
        }
        Ok(Value::Object(map))
    }
}

/// A visitor that writes a value while it is read.
struct Rewrite<'t>(&'t mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Rewrite<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl Rewrite<'_> {
    fn put<E: Error>(self, value: impl Serialize) -> Result<(), E> {
        write(&value, self.0)
    }
}

impl<'de> Visitor<'de> for Rewrite<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, v: bool) -> Result<(), E> {
        self.put(v)
    }

    fn visit_i64<E: Error>(self, v: i64) -> Result<(), E> {
        self.put(v)
    }

    fn visit_u64<E: Error>(self, v: u64) -> Result<(), E> {
        self.put(v)
    }

    fn visit_f64<E: Error>(self, v: f64) -> Result<(), E> {
        let number = Number::from_f64(v).ok_or_else(|| E::custom("number out of range"))?;
        self.put(number)
    }

    fn visit_str<E: Error>(self, v: &str) -> Result<(), E> {
        self.put(v)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.put(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.push(b'[');
        let began = self.0.len();
        loop {
            let end = self.0.len();
            if end > began {
                self.0.push(b',');
            }
            if seq.next_element_seed(Rewrite(self.0))?.is_none() {
                self.0.truncate(end);
                self.0.push(b']');
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        self.0.push(b'{');
        let mut keys = BTreeSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            check_key(&key).map_err(A::Error::custom)?;
            if !keys.is_empty() {
                self.0.push(b',');
            }
            write(&key, self.0)?;
            self.0.push(b':');
            if let Some(first) = keys.replace(key) {
                return Err(A::Error::custom(repeated(&first)));
            }
            entries.next_value_seed(Rewrite(self.0))?;
        }
        self.0.push(b'}');
        Ok(())
    }
}

fn write<E: Error>(value: &impl Serialize, text: &mut Vec<u8>) -> Result<(), E> {
    serde_json::to_writer(text, value).map_err(E::custom)
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
        let mut keys = BTreeSet::new();
        while let Some((key, value)) = entries.next_entry::<String, &RawValue>()? {
            check_key(&key).map_err(A::Error::custom)?;
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(repeated(&key)));
            }
            members.push((key, value));
        }
        Ok(Members(members))
    }
}

/// Refuses a value that would not be read back from a record: one that nests deeper than [`MAX_DEPTH`] levels,
/// or that has a reserved key.
pub(crate) fn check_recordable(value: &Value) -> Result<(), JsonError> {
    check_within(value, MAX_DEPTH).map_err(JsonError)
}

/// Refuses a value that nests deeper than this many levels, or that has a reserved key.
fn check_within(value: &Value, levels: usize) -> Result<(), String> {
    let below =
        || levels.checked_sub(1).ok_or_else(|| format!("it nests deeper than {MAX_DEPTH} levels; send less"));
    match value {
        Value::Array(items) => {
            let below = below()?;
            items.iter().try_for_each(|item| check_within(item, below))
        }
        Value::Object(members) => {
            let below = below()?;
            members.iter().try_for_each(|(key, value)| {
                check_key(key)?;
                check_within(value, below)
            })
        }
        _ => Ok(()),
    }
}

/// Refuses a key that would not be read back unchanged: serde_json, which reads and writes records,
/// gives members with such a name a special meaning.
fn check_key(key: &str) -> Result<(), String> {
    match key.starts_with(RESERVED) {
        false => Ok(()),
        true => Err(format!(
            "the key \"{}\" is reserved (name it otherwise: what begins with \"{RESERVED}\" is not read back from a record)",
            shown(key)
        )),
    }
}

fn shown(key: &str) -> String {
    key.chars().take(64).collect()
}

fn repeated(key: &str) -> String {
    format!("the key \"{}\" is repeated", shown(key))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json::LazyJson;
    use proptest::prelude::*;

    #[test]
    fn l9_repeated_keys_are_refused_at_any_depth() {
        let error = parse(r#"{"a":[{"b":1,"b":2}]}"#).unwrap_err();
        assert!(error.to_string().contains("the key \"b\" is repeated"), "{error}");
        // The same key spelled with an escape is the same key.
        assert!(parse(r#"{"a":1,"\u0061":2}"#).is_err());
    }

    #[test]
    fn l9_keys_that_mean_something_else_to_the_reader_of_records_are_refused() {
        for key in ["$serde_json::private::RawValue", "\\u0024serde_json::private::Number"] {
            let deep = format!("{}{{\"{key}\":\"1\"}}{}", "[".repeat(127), "]".repeat(127));
            for text in [format!("{{\"{key}\":\"[\"}}"), format!("[{{\"a\":0,\"{key}\":1}}]"), deep] {
                assert!(parse(&text).unwrap_err().to_string().contains("is reserved"), "{text}");
                assert!(LazyJson::from_text(text).is_err());
            }
        }
    }

    #[test]
    fn the_deepest_value_is_read_and_one_level_more_is_not() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |levels: usize| format!("{}0{}", open.repeat(levels), close.repeat(levels));
            let text = nested(MAX_DEPTH);
            assert_eq!(parse(&text).unwrap().to_string(), text);
            assert!(parse(&nested(MAX_DEPTH + 1)).is_err());
            assert!(parse(&nested(10_000)).is_err());
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

    #[test]
    fn z3_what_is_rewritten_is_what_would_be_read_and_written() {
        for text in [
            " { } ",
            "[ [], [1.50 , 2e2, -0.0, 18446744073709551615], {\"\\u0061\": \"\\u00e4\\n\"} ]",
            "\"a\\/b\"",
            " null",
        ] {
            assert_eq!(rewritten(text).unwrap(), parse(text).unwrap().to_string(), "{text}");
        }
        for text in
            ["{\"a\":1,\"\\u0061\":2}", "{\"$serde_json::private::Number\":\"1\"}", "[1,]", "[1] 2", "1e400"]
        {
            assert_eq!(rewritten(text), parse(text).map(|value| value.to_string()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn l9_what_is_accepted_reads_back_as_itself(f in proptest::num::f64::NORMAL, i in any::<i64>()) {
            let text = serde_json::to_string(&serde_json::json!({"f": f, "i": i})).unwrap();
            let value = parse_exact(&text).unwrap();
            prop_assert_eq!(serde_json::to_string(&value).unwrap(), text);
        }

        #[test]
        fn never_panics(text in "\\PC{0,60}") {
            let _ = parse_exact(&text);
        }

        #[test]
        fn z3_of_any_text_the_same_is_accepted(text in r#"([\[{]?("\PC{0,3}"|"a":|[0-9.eE+-]{1,5}|[\]\[}{:, ]|null|true)){0,12}"#) {
            let (rewritten, read) = (rewritten(&text), parse(&text).map(|value| value.to_string()));
            prop_assert_eq!(rewritten.ok(), read.ok());
        }
    }
}
