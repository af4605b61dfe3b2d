//! A text of the host's own serialization, and the value that it says.

use super::deep;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::OnceLock;

/// JSON as this host writes it; the value is read when somebody looks into it.
#[derive(Clone)]
pub(crate) struct Written<T> {
    text: T,
    value: OnceLock<Box<Value>>,
}

impl<T: AsRef<str>> Written<T> {
    /// Takes a text that this host wrote, or would have written to the byte.
    pub(crate) fn new(text: T) -> Self {
        Self { text, value: OnceLock::new() }
    }

    /// The same of a value that is there already.
    pub(crate) fn of(text: T, value: Value) -> Self {
        Self { text, value: OnceLock::from(Box::new(value)) }
    }

    /// The text.
    pub(crate) fn text(&self) -> &str {
        self.text.as_ref()
    }

    /// The value.
    pub(crate) fn value(&self) -> &Value {
        self.value.get_or_init(|| Box::new(read(self.text())))
    }

    /// The value, which is not kept where it has to be read.
    pub(crate) fn peek(&self) -> Cow<'_, Value> {
        match self.value.get() {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(read(self.text())),
        }
    }

    /// The value, without the text.
    pub(crate) fn into_value(self) -> Value {
        self.value.into_inner().map_or_else(|| read(self.text.as_ref()), |value| *value)
    }

    /// Whether the value is held beside the text.
    #[cfg(test)]
    pub(crate) fn is_read(&self) -> bool {
        self.value.get().is_some()
    }

    /// Lets go of the value, which is read again when somebody looks into it again. Only of
    /// a value that was read from a text: what was built otherwise may nest too deep for it.
    pub(crate) fn forget(&mut self) {
        self.value.take();
    }
}

/// Reads a text that this host wrote.
#[expect(
    clippy::expect_used,
    reason = "what is written here can be read: `canonical` and `text` are tested for that"
)]
fn read(text: &str) -> Value {
    deep::read(text).expect("JSON as this host writes it")
}

impl<T: AsRef<str>> PartialEq for Written<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text() || self.value() == other.value()
    }
}

impl<T: AsRef<str>> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value.get() {
            Some(value) => value.serialize(serializer),
            // Serialized to a value, a raw text is read, and by a reader that goes less deep.
            None if deep::nesting(self.text()) >= deep::READER_DEPTH => self.peek().serialize(serializer),
            None => {
                let raw = serde_json::from_str::<&RawValue>(self.text()).map_err(S::Error::custom)?;
                raw.serialize(serializer)
            }
        }
    }
}
