//! JSON that is parsed on first access.

use super::measure::{JsonError, Measure, READER_DEPTH, bounded, nesting};
use super::numbers::check_numbers;
use super::reader::{parse_exact, read, rewritten, written_from};
use memchr::memchr2_iter;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

/// The length of a text from which a list or object is charged as text alone, because its value is
/// seldom accessed.
const CHARGED_AS_TEXT_BYTES: usize = 64 * 1024;

/// The memory by which a number with an exponent grows when this host writes it, in bytes: `1e15` becomes
/// `1000000000000000.0`, in a text whose capacity doubles.
const EXPONENT_BYTES: u64 = 28;

/// The most values, itself and nested ones included, of a recorded value that is parsed at once. A
/// larger one is kept as text.
const MAX_PARSED_NODES: usize = 64;

/// A JSON value, or its text.
///
/// A received object or list is kept as the text that this host writes for it, until its value is
/// accessed: a value takes many times the memory of its text, and the data of many calls is only
/// returned and recorded. Everything else is parsed at once.
#[derive(Clone)]
pub struct LazyJson(Representation);

#[derive(Clone)]
enum Representation {
    Value(Value),
    Text(WrittenJson),
}

impl LazyJson {
    /// Parses a received text, refusing what [`parse_exact`] refuses.
    ///
    /// # Errors
    /// Same as [`parse_exact`]; the text is returned along with the reason.
    pub fn from_text(text: String) -> Result<Self, (JsonError, String)> {
        match Self::read(&text) {
            Ok(read) => Ok(read),
            Err(why) => Err((why, text)),
        }
    }

    fn read(text: &str) -> Result<Self, JsonError> {
        // serde_json's depth limit is lower than the depth allowed here.
        if !begins_container(text) || bounded(text)? >= READER_DEPTH {
            return parse_exact(text).map(Self::from);
        }
        let written = rewritten(text)?;
        check_numbers(text)?;
        let written = RawValue::from_string(written).map_err(|e| JsonError(e.to_string()))?;
        Ok(Self(Representation::Text(WrittenJson::new(written))))
    }

    /// Returns the most bytes of memory needed to hold a text of this measure, both during and
    /// after parsing.
    #[must_use]
    pub fn held_bytes(text: &str, measure: &Measure) -> u64 {
        let bytes = text.len() as u64;
        match begins_container(text) && text.len() >= CHARGED_AS_TEXT_BYTES {
            // The text, its rewritten form, and the keys of open objects.
            true => 2 * bytes + EXPONENT_BYTES * exponents(text) + 96 * measure.members as u64,
            false => bytes + measure.parsed_bytes,
        }
    }

    /// Returns the content of a string, or `None` for any other value, which is not parsed for
    /// this.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Representation::Value(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the value as text, byte for byte as serde_json writes it.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match &self.0 {
            Representation::Value(value) => Cow::Owned(value.to_string()),
            Representation::Text(written) => Cow::Borrowed(written.text()),
        }
    }

    /// Returns a string without its quotes, or any other value as [`text`](Self::text).
    #[must_use]
    pub fn words(&self) -> Cow<'_, str> {
        match &self.0 {
            Representation::Value(Value::String(words)) => Cow::Borrowed(words),
            _ => self.text(),
        }
    }

    /// Returns whether the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.0, Representation::Value(Value::Null))
    }

    /// Changes the value in place.
    pub fn change(&mut self, change: impl FnOnce(&mut Value)) {
        let mut value = std::mem::take(self).into_value();
        change(&mut value);
        *self = Self::from(value);
    }

    /// Returns the value.
    #[must_use]
    pub fn into_value(self) -> Value {
        match self.0 {
            Representation::Value(value) => value,
            Representation::Text(written) => written.into_value(),
        }
    }
}

/// Returns an upper bound for how many numbers in a text have an exponent.
fn exponents(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let follows_digit = |at: &usize| at.checked_sub(1).is_some_and(|before| bytes[before].is_ascii_digit());
    memchr2_iter(b'e', b'E', bytes).filter(follows_digit).count() as u64
}

/// Returns whether a text can only be a list or an object, if it is JSON at all.
fn begins_container(text: &str) -> bool {
    text.trim_start().starts_with(['[', '{'])
}

impl Deref for LazyJson {
    type Target = Value;

    fn deref(&self) -> &Value {
        match &self.0 {
            Representation::Value(value) => value,
            Representation::Text(written) => written.value(),
        }
    }
}

impl From<Value> for LazyJson {
    fn from(value: Value) -> Self {
        Self(Representation::Value(value))
    }
}

impl Default for LazyJson {
    fn default() -> Self {
        Self::from(Value::Null)
    }
}

impl PartialEq for LazyJson {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Representation::Text(one), Representation::Text(other)) => one == other,
            _ => **self == **other,
        }
    }
}

/// Implements comparisons as a [`Value`] has them: `data == 2`, `data == "text"`, `data == json!({"a": 1})`.
macro_rules! compared_with {
    ($($other:ty),*) => {$(
        impl PartialEq<$other> for LazyJson {
            fn eq(&self, other: &$other) -> bool {
                **self == *other
            }
        }
    )*};
}

compared_with!(Value, bool, i32, i64, u32, u64, f64, str, &str, String);

impl fmt::Display for LazyJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Debug for LazyJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Serialize for LazyJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Representation::Value(value) => value.serialize(serializer),
            Representation::Text(written) => written.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for LazyJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if Measure::of(&value).nodes <= MAX_PARSED_NODES {
            return Ok(Self::from(value));
        }
        Ok(Self(Representation::Text(WrittenJson::new(raw(&value)))))
    }
}

/// JSON as this host writes it. The value is parsed on first access; until then, the text is copied
/// where the value is to be written.
#[derive(Clone)]
pub(crate) struct WrittenJson {
    text: Box<RawValue>,
    value: OnceLock<Box<Value>>,
}

impl WrittenJson {
    /// Wraps a text that this host wrote, or that is byte for byte what it would have written.
    pub(crate) fn new(text: Box<RawValue>) -> Self {
        Self { text, value: OnceLock::new() }
    }

    /// Wraps such a text along with its value.
    pub(crate) fn with_value(text: Box<RawValue>, value: Value) -> Self {
        Self { text, value: OnceLock::from(Box::new(value)) }
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        self.text.get()
    }

    /// Returns the value.
    pub(crate) fn value(&self) -> &Value {
        self.value.get_or_init(|| Box::new(read_own(self.text())))
    }

    /// Returns the value without caching it if it has to be parsed.
    pub(crate) fn value_uncached(&self) -> Cow<'_, Value> {
        match self.value.get() {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(read_own(self.text())),
        }
    }

    /// Returns the value and drops the text.
    pub(crate) fn into_value(self) -> Value {
        self.value.into_inner().map_or_else(|| read_own(self.text.get()), |value| *value)
    }

    /// Returns whether the parsed value is cached.
    #[cfg(test)]
    pub(crate) fn is_read(&self) -> bool {
        self.value.get().is_some()
    }

    /// Drops the cached value; the next access parses it again. Only valid for a value that was
    /// parsed from text, since one built otherwise may nest too deep to be parsed.
    pub(crate) fn forget(&mut self) {
        self.value.take();
    }
}

/// Keeps the text, without building the value in between.
impl<'de> Deserialize<'de> for WrittenJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = written_from(deserializer)?;
        RawValue::from_string(text).map(Self::new).map_err(D::Error::custom)
    }
}

/// Parses a text that this host wrote.
#[expect(clippy::expect_used, reason = "tests check that what is written here can be read")]
fn read_own(text: &str) -> Value {
    read(text).expect("JSON as this host writes it")
}

impl PartialEq for WrittenJson {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text() || self.value() == other.value()
    }
}

impl Serialize for WrittenJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value.get() {
            Some(value) => value.serialize(serializer),
            // Serializing a raw text to a value parses it, with serde_json's lower depth limit.
            None if nesting(self.text()) >= READER_DEPTH => self.value_uncached().serialize(serializer),
            None => self.text.serialize(serializer),
        }
    }
}

/// Returns a value's JSON.
#[expect(clippy::expect_used, reason = "keys are strings and numbers are finite")]
pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a value can be written")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn lazy(text: &str) -> LazyJson {
        LazyJson::from_text(text.to_owned()).unwrap()
    }

    fn is_text(json: &LazyJson) -> bool {
        matches!(&json.0, Representation::Text(written) if !written.is_read())
    }

    #[test]
    fn a_value_that_is_not_accessed_stays_text() {
        let kept = lazy(r#"{"a":[1,"x"]}"#);
        assert_eq!(kept.to_string(), r#"{"a":[1,"x"]}"#);
        assert_eq!(serde_json::to_string(&[&kept]).unwrap(), r#"[{"a":[1,"x"]}]"#);
        assert_eq!(serde_json::to_value(&kept).unwrap(), json!({"a": [1, "x"]}));
        assert!(kept == kept.clone() && is_text(&kept));
        assert_eq!(kept["a"][0], 1);
        assert!(!is_text(&kept));
        assert_eq!(
            (kept.text().as_ref(), kept.clone().into_value()),
            (r#"{"a":[1,"x"]}"#, json!({"a": [1, "x"]}))
        );
    }

    #[test]
    fn a_text_is_kept_as_this_host_writes_it_and_scalars_are_parsed() {
        for (sent, text) in [("[1.50]", "[1.5]"), ("{ }", "{}"), (r#"["\u0061\/"]"#, r#"["a/"]"#)] {
            let json = lazy(sent);
            assert!(is_text(&json));
            assert_eq!(json.text(), text);
        }
        for (sent, text) in [
            (r#""\u0061""#, r#""a""#),
            (" null", "null"),
            ("2e0", "2.0"),
            (r#""see [1], {2}""#, r#""see [1], {2}""#),
        ] {
            let json = lazy(sent);
            assert!(!is_text(&json));
            assert_eq!(json.text(), text);
        }
        assert_eq!(lazy(r#""see [1]\n{2}""#).as_str(), Some("see [1]\n{2}"));
        assert!(LazyJson::from_text(r#"{"a":1,"a":1}"#.to_owned()).is_err());
    }

    #[test]
    fn text_and_value_are_equal_and_both_are_recorded() {
        let (text, value) = (lazy(r#"{"a":1,"b":2}"#), LazyJson::from(json!({"b": 2, "a": 1})));
        assert_eq!(text, value);
        assert_eq!(lazy(r#"{"a":1,"b":2}"#), lazy(r#"{"b":2,"a":1}"#));
        assert_ne!(text, LazyJson::default());
        assert_eq!(serde_json::from_str::<LazyJson>(&serde_json::to_string(&text).unwrap()).unwrap(), value);
    }

    /// A record of many large results would take many times its size.
    #[test]
    fn a_large_recorded_value_stays_text() {
        let large = json!((0..100).map(|n| json!([n])).collect::<Vec<_>>());
        let back: LazyJson = serde_json::from_value(large.clone()).unwrap();
        assert!(is_text(&back));
        assert_eq!(back.text(), large.to_string());
        assert_eq!(back, large);
        let small: LazyJson = serde_json::from_str(r#"{"a":[1,2]}"#).unwrap();
        assert!(!is_text(&small));
    }

    #[test]
    fn z3_numbers_that_grow_when_they_are_written_are_charged_before() {
        let sent = format!("[{}0]", "1e15,".repeat(100_000));
        let held = LazyJson::held_bytes(&sent, &crate::json::measure(sent.as_bytes()));
        let written = lazy(&sent);
        assert!(is_text(&written) && written.text().len() > 3 * sent.len());
        assert!(held >= (sent.len() + written.text().len()) as u64, "{held}");
        assert_eq!(exponents(r#"["see e2", 1, 2E+3, "3e"]"#), 2);
    }

    #[test]
    fn what_is_changed_is_what_is_kept() {
        let mut json = lazy(r#"["a"]"#);
        json.change(|value| value[0] = json!("b"));
        assert_eq!((json.text().as_ref(), &json), (r#"["b"]"#, &LazyJson::from(json!(["b"]))));
    }
}
