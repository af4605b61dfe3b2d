//! Recognizes canonical JSON: text that is byte for byte as this host writes it, without
//! insignificant white space, unnecessary escapes or alternative notations of numbers. Such a text
//! can be kept in place of its value.
//!
//! Only common cases are recognized. Canonical text outside them (numbers with a fraction,
//! characters that only `\u` can write) is parsed like any other text.

use super::RESERVED;
use super::text::next_escaped;

/// The deepest nesting that is recognized.
const MAX_LEVELS: usize = 32;
/// The most members of all open objects at one time.
const MAX_MEMBERS: usize = 64;
/// The number of digits that always fit 64 bits.
const MAX_DIGITS: usize = 18;

/// Returns whether the text is an object or a list as this host writes it, without a repeated key.
pub(crate) fn is_canonical(text: &str) -> bool {
    if !text.starts_with(['{', '[']) {
        return false;
    }
    let mut reader = Reader { text: text.as_bytes(), at: 0, keys: Vec::new() };
    reader.value(0).is_some() && reader.at == text.len()
}

/// A reader that makes one pass over a text and returns `None` once it gives up.
struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    /// The keys of the open objects as written; a canonical key has only one spelling.
    keys: Vec<&'t [u8]>,
}

impl<'t> Reader<'t> {
    fn value(&mut self, levels: usize) -> Option<()> {
        match self.next()? {
            b'"' => self.string().map(|_| ()),
            b'{' if levels < MAX_LEVELS => self.members(levels + 1),
            b'[' if levels < MAX_LEVELS => self.items(levels + 1),
            b't' => self.rest_of(b"rue"),
            b'f' => self.rest_of(b"alse"),
            b'n' => self.rest_of(b"ull"),
            b'0' => Some(()),
            b'1'..=b'9' => self.digits(),
            b'-' => matches!(self.next()?, b'1'..=b'9').then(|| self.digits())?,
            _ => None,
        }
    }

    fn members(&mut self, levels: usize) -> Option<()> {
        if self.skips(b'}') {
            return Some(());
        }
        let others = self.keys.len();
        loop {
            let key = (self.next()? == b'"').then(|| self.string())??;
            let is_reserved = key.starts_with(RESERVED.as_bytes());
            if is_reserved || self.keys.len() == MAX_MEMBERS || self.keys[others..].contains(&key) {
                return None;
            }
            self.keys.push(key);
            (self.next()? == b':').then(|| self.value(levels))??;
            match self.next()? {
                b',' => {}
                b'}' => break,
                _ => return None,
            }
        }
        self.keys.truncate(others);
        Some(())
    }

    fn items(&mut self, levels: usize) -> Option<()> {
        if self.skips(b']') {
            return Some(());
        }
        loop {
            self.value(levels)?;
            match self.next()? {
                b',' => {}
                b']' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Reads the rest of a string and returns it without its quotes.
    fn string(&mut self) -> Option<&'t [u8]> {
        let began = self.at;
        loop {
            self.at += next_escaped(self.text.get(self.at..)?)?;
            match self.next()? {
                b'"' => return Some(&self.text[began..self.at - 1]),
                b'\\' => {
                    matches!(self.next()?, b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't').then_some(())?;
                }
                _ => return None,
            }
        }
    }

    /// Reads the remaining digits of an integer.
    fn digits(&mut self) -> Option<()> {
        let left = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += left;
        let goes_on = matches!(self.text.get(self.at), Some(b'.' | b'e' | b'E'));
        (left < MAX_DIGITS && !goes_on).then_some(())
    }

    fn rest_of(&mut self, word: &[u8]) -> Option<()> {
        let follows = self.text[self.at..].starts_with(word);
        self.at += word.len();
        follows.then_some(())
    }

    fn skips(&mut self, byte: u8) -> bool {
        let follows = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(follows);
        follows
    }

    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json::{LazyJson, from_record, parse, to_text};
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn what_this_host_writes_is_recognized() {
        for text in [
            "{}",
            "[]",
            "[[],{}]",
            r#"{"a":[1,-2,0,true,false,null,"ä😀\n\"\\\t"],"b":{"a":{"a":""}},"c":[{"a":1},{"a":2}]}"#,
            "[999999999999999999,-999999999999999999]",
        ] {
            assert!(is_canonical(text), "{text}");
            assert_eq!(to_text(&parse(text).unwrap(), 0), text);
        }
    }

    #[test]
    fn what_it_would_write_otherwise_or_refuse_is_not() {
        for text in [
            "",
            "1",
            "\"text\"",
            "null",
            "[ ]",
            "[1 ]",
            " []",
            "[]\n",
            "[] []",
            "[1,]",
            "[,1]",
            "[1",
            "[\"",
            "[\"\\",
            "[nul",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\" :1}",
            "{a:1}",
            "{\"a\":1,}",
            "{\"a\":1]",
            "[1}",
            "[01]",
            "[-0]",
            "[-]",
            "[+1]",
            "[1.0]",
            "[1e2]",
            "[1E2]",
            "[12345678901234567890123]",
            "[\"\\/\"]",
            "[\"\\u0041\"]",
            "[\"\\u001F\"]",
            "[\"\u{1}\"]",
            "{\"a\":1,\"a\":2}",
            "[{\"a\":{\"a\":1},\"b\":0,\"a\":2}]",
            "{\"$serde_json::private::RawValue\":\"1\"}",
        ] {
            assert!(!is_canonical(text), "{text}");
        }
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(is_canonical(&deep(MAX_LEVELS)) && !is_canonical(&deep(MAX_LEVELS + 1)));
        let wide = |keys: usize| to_text(&(0..keys).map(|key| (key.to_string(), Value::Null)).collect(), 0);
        assert!(is_canonical(&wide(MAX_MEMBERS)) && !is_canonical(&wide(MAX_MEMBERS + 1)));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            "(\\PC|[\\x00-\\x1f\"\\\\]){0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::hash_map("[ab\"\\\\\n]{0,3}|\\$serde_json::private::RawValue", inner, 0..6)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    /// Recognized text parses as JSON, and is serialized, copied and recorded unchanged.
    fn holds(text: &str) -> Result<(), TestCaseError> {
        if is_canonical(text) {
            let value = parse(text);
            prop_assert!(value.is_ok(), "{text}: {value:?}");
            let value = value.unwrap();
            prop_assert_eq!(to_text(&value, 0), text);
            let kept = LazyJson::from_text(text.to_owned()).unwrap();
            prop_assert_eq!(serde_json::to_value(&kept).unwrap(), value);
            let record = serde_json::to_string(&[&kept]).unwrap();
            prop_assert_eq!(from_record::<[LazyJson; 1]>(&record).unwrap(), [kept]);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn what_is_recognized_stands_for_its_value(value in any_json()) {
            let text = to_text(&value, 0);
            holds(&text)?;
            holds(&serde_json::to_string_pretty(&value).unwrap())?;
        }

        #[test]
        fn whatever_becomes_of_a_text(value in any_json(), at in any::<prop::sample::Index>(),
                                      with in "[\\[\\]{},:\"\\\\0-9.eE+\\-tnu \n]{0,2}", cut in 0..3_usize) {
            let mut text = to_text(&value, 0);
            let mut place = at.index(text.len() + 1);
            while !text.is_char_boundary(place) {
                place -= 1;
            }
            let mut end = (place + cut).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            text.replace_range(place..end, &with);
            holds(&text)?;
        }

        #[test]
        fn of_brackets_and_quotes_alone(text in "[\\[{][\\[\\]{},:\"\\\\1-]{0,12}") {
            holds(&text)?;
        }
    }
}
