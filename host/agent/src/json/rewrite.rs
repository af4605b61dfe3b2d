//! Rewrites a JSON text as this host writes it without building the value in between, since a large
//! value takes many times the memory of its text.

use super::{JsonError, check_key, repeated};
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use std::collections::BTreeSet;
use std::fmt;

/// Returns the text as this host writes it. The text must nest less deep than serde_json's limit.
///
/// # Errors
/// Same as [`parse`](super::parse).
pub(super) fn rewritten(sent: &str) -> Result<String, JsonError> {
    let mut written = Vec::with_capacity(sent.len());
    let mut reader = serde_json::Deserializer::from_str(sent);
    let read = Rewrite(&mut written).deserialize(&mut reader).and_then(|()| reader.end());
    read.map_err(|e| JsonError(e.to_string()))?;
    String::from_utf8(written).map_err(|e| JsonError(e.to_string()))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json::parse;
    use proptest::prelude::*;

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
        fn z3_of_any_text_the_same_is_accepted(text in r#"([\[{]?("\PC{0,3}"|"a":|[0-9.eE+-]{1,5}|[\]\[}{:, ]|null|true)){0,12}"#) {
            let (rewritten, read) = (rewritten(&text), parse(&text).map(|value| value.to_string()));
            prop_assert_eq!(rewritten.ok(), read.ok());
        }
    }
}
