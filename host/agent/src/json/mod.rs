//! Strict parsing of JSON from models and guests.
//!
//! The value that is checked must be the value that runs. Two readers of `{"path":"a","path":"b"}`
//! may disagree on its meaning, so a repeated key is refused. So is a number that this host would
//! pass on as a different number.

mod deep;
mod lazy;
mod measure;
mod rewrite;
mod written;

pub use lazy::LazyJson;
pub use measure::{Measure, NodesLeft, measure, written_bytes};
pub(crate) use written::WrittenJson;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Number, Value};
use std::fmt;

/// The deepest nesting that is accepted.
pub const MAX_DEPTH: usize = 128;
/// The most JSON values that are parsed at one time: those of one text, or of all texts that one
/// call returns. Each takes many times the memory of its text.
pub const MAX_NODES: usize = 500_000;
/// The deepest nesting accepted in the host's own records.
const MAX_RECORD_DEPTH: usize = 2 * MAX_DEPTH;

/// The prefix of the keys with which `serde_json` marks its own special values.
const RESERVED: &str = "$serde_json::";

/// The reason why a text was refused as JSON, with line and column if known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(String);

/// Parses one JSON text, refusing repeated keys, more than [`MAX_DEPTH`] levels and more than
/// [`MAX_NODES`] values. Both limits are checked before parsing starts.
///
/// # Errors
/// The text is not JSON by RFC 8259, repeats a key within one object, nests too deep, has too many
/// values, contains a number beyond the range of a 64-bit float, or has a key that starts with
/// `$serde_json::`, which could be recorded but not read back.
pub fn parse(text: &str) -> Result<Value, JsonError> {
    let nesting = bounded(text)?;
    deep::read_nested(text, nesting)
}

/// Returns how deep a text nests, refusing one that nests too deep or has too many values.
fn bounded(text: &str) -> Result<usize, JsonError> {
    let nesting = deep::nesting(text);
    if nesting > MAX_DEPTH {
        return Err(JsonError(format!("nested deeper than {MAX_DEPTH} levels")));
    }
    measure::bound(text)?;
    Ok(nesting)
}

/// Reads a record that this host wrote. A record adds levels of its own around values that may
/// themselves be [`MAX_DEPTH`] levels deep.
///
/// # Errors
/// The text is not JSON, or does not match the type.
pub fn from_record<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    let nesting = deep::nesting(text);
    if nesting > MAX_RECORD_DEPTH {
        return Err(JsonError(format!("nested deeper than {MAX_RECORD_DEPTH} levels")));
    }
    let record = if nesting < deep::READER_DEPTH {
        serde_json::from_str(text)
    } else {
        serde_json::from_value(deep::read_nested(text, nesting)?)
    };
    record.map_err(|e| JsonError(e.to_string()))
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

/// Refuses a text, known to be JSON, with a number that does not survive a round trip.
///
/// # Errors
/// A number would be passed on as a different number.
pub fn check_numbers(text: &str) -> Result<(), JsonError> {
    match number_tokens(text).find(|token| !survives(token)) {
        None => Ok(()),
        Some(token) => Err(JsonError(format!(
            "the number {} does not survive a round trip; send it as a string or with fewer digits",
            token.chars().take(40).collect::<String>()
        ))),
    }
}

/// Writes numbers without a fraction as integers, as JSON Schema and people see them: `2.0` becomes
/// `2`, within the range in which a double represents every integer. Readers that distinguish more
/// kinds of numbers than JSON would otherwise accept one spelling and refuse the other.
pub(crate) fn unify_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
                *value = Value::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(unify_integers),
        Value::Object(map) => map.values_mut().for_each(unify_integers),
        _ => {}
    }
}

/// Returns the number as an integer. Minus zero is not converted because it would lose its sign.
#[expect(clippy::cast_possible_truncation, reason = "it is whole, and within the bounds")]
fn whole(number: f64) -> Option<i64> {
    const MAX: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && number.abs() <= MAX;
    (is_whole && !(number == 0.0 && number.is_sign_negative())).then_some(number as i64)
}

/// Writes a value.
#[expect(clippy::expect_used, reason = "keys are strings and numbers are finite")]
pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a value can be written")
}

/// Returns how deep a value nests; a number or string has depth 0.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// A visitor that builds a [`Value`] and refuses repeated keys.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
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

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
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
        while let Some(item) = seq.next_element_seed(Strict)? {
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
                Entry::Vacant(free) => free.insert(entries.next_value_seed(Strict)?),
            };
        }
        Ok(Value::Object(map))
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

/// Returns the number tokens of a text that is known to be JSON.
fn number_tokens(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            match bytes[at] {
                b'"' => at = deep::end_of_string(bytes, at),
                b'-' | b'0'..=b'9' => {
                    let start = at;
                    while at < bytes.len()
                        && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
                    {
                        at += 1;
                    }
                    return Some(&text[start..at]);
                }
                _ => at += 1,
            }
        }
        None
    })
}

fn survives(token: &str) -> bool {
    if token.parse::<i64>().is_ok() || token.parse::<u64>().is_ok() {
        return true;
    }
    let Ok(float) = token.parse::<f64>() else {
        return false;
    };
    // Compare with what this host would write, because that is what every other reader sees.
    Number::from_f64(float).is_some_and(|number| decimal(token) == decimal(&number.to_string()))
}

/// Returns a decimal number as its significant digits and the exponent of the last one.
fn decimal(token: &str) -> (String, i64) {
    let token = token.trim_start_matches('-').to_ascii_lowercase();
    let (mantissa, exponent) = token.split_once('e').unwrap_or((&token, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return (String::new(), 0);
    }
    let dropped = (digits.len() - significant.len()) as i64;
    // An exponent that does not fit 64 bits cannot belong to a finite float unless all digits are
    // zero, which is handled above.
    let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX / 2);
    (significant.to_owned(), exponent - fraction.len() as i64 + dropped)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
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
    fn l9_numbers_that_do_not_survive_are_refused() {
        for lossy in [
            "12345678901234567890123",
            "0.1000000000000000055511151231257827",
            "1e400",
            "[9007199254740993.0]",
        ] {
            assert!(parse_exact(lossy).is_err(), "{lossy} must be refused");
        }
        for exact in [
            "0",
            "-0",
            "1.0",
            "1e2",
            "0.1",
            "18446744073709551615",
            "-9223372036854775808",
            "1E-7",
            "5e-324",
            "100000000000000000000",
            "\"12345678901234567890123\"",
            "{\"1e999\":\"\\\"1e999\"}",
        ] {
            assert!(parse_exact(exact).is_ok(), "{exact} must be accepted");
        }
    }

    #[test]
    fn a_whole_number_is_an_integer_however_it_was_written() {
        let unified = |text: &str| {
            let mut value = parse_exact(text).unwrap();
            unify_integers(&mut value);
            value.to_string()
        };
        assert_eq!(unified(r#"{"a":[2.0,2e0,-3.0,0.0,7]}"#), r#"{"a":[2,2,-3,0,7]}"#);
        assert_eq!(unified("9007199254740992.0"), "9007199254740992");
        for kept in ["1.5", "-0.0", "1e300", "18446744073709551615"] {
            let value = parse_exact(kept).unwrap();
            assert_eq!(unified(kept), value.to_string(), "{kept}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        assert!(parse(&nested(MAX_DEPTH + 1)).is_err());
        assert!(parse(&nested(10_000)).is_err());
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
    }
}
