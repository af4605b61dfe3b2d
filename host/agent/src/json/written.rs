//! Text that the host serialized itself, with its value.

use super::deep;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::OnceLock;

/// JSON as this host writes it. The value is parsed on first access; until then, the text is copied
/// where the value is to be written.
#[derive(Clone)]
pub(crate) struct WrittenJson<T> {
    text: T,
    value: OnceLock<Box<Value>>,
}

impl<T: AsRef<RawValue>> WrittenJson<T> {
    /// Takes a text that this host wrote, or that is byte for byte what it would have written.
    pub(crate) fn new(text: T) -> Self {
        Self { text, value: OnceLock::new() }
    }

    /// Takes such a text along with its value.
    pub(crate) fn of(text: T, value: Value) -> Self {
        Self { text, value: OnceLock::from(Box::new(value)) }
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        self.text.as_ref().get()
    }

    /// Returns the value.
    pub(crate) fn value(&self) -> &Value {
        self.value.get_or_init(|| Box::new(read(self.text())))
    }

    /// Returns the value without caching it if it has to be parsed.
    pub(crate) fn peek(&self) -> Cow<'_, Value> {
        match self.value.get() {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(read(self.text())),
        }
    }

    /// Returns the value and drops the text.
    pub(crate) fn into_value(self) -> Value {
        self.value.into_inner().map_or_else(|| read(self.text.as_ref().get()), |value| *value)
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

/// Parses a text that this host wrote.
#[expect(clippy::expect_used, reason = "tests check that what is written here can be read")]
fn read(text: &str) -> Value {
    deep::read(text).expect("JSON as this host writes it")
}

impl<T: AsRef<RawValue>> PartialEq for WrittenJson<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text() || self.value() == other.value()
    }
}

impl<T: AsRef<RawValue>> Serialize for WrittenJson<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value.get() {
            Some(value) => value.serialize(serializer),
            // Serializing a raw text to a value parses it, with serde_json's lower depth limit.
            None if deep::nesting(self.text()) >= deep::READER_DEPTH => self.peek().serialize(serializer),
            None => self.text.as_ref().serialize(serializer),
        }
    }
}
