//! Takes secrets out of what a stranger may read: byte for byte, in the forms in
//! which servers and tools write them back.
//!
//! A secret is replaced by as many asterisks, so that lengths that were announced
//! stay true. This catches a secret that is sent back whole. A server that sends it
//! in pieces with something between them, or in a form of its own, gets through:
//! what must never come back must not be sent to that server.

use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The shortest secret, in bytes: shorter ones would blank ordinary words.
pub const MIN_SECRET_BYTES: usize = 8;
/// The longest secret, in bytes.
pub const MAX_SECRET_BYTES: usize = 4 * 1024;

/// The texts that nobody shall see. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Blanks {
    /// For each first byte the forms that begin with it, longest first; none where there
    /// is nothing to blank.
    forms: Option<Arc<Vec<Vec<Vec<u8>>>>>,
}

impl Blanks {
    /// Blanks these secrets, as they are and in the usual encodings: JSON, URL,
    /// hexadecimal, base64 at every offset.
    #[must_use]
    pub fn of<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let forms: BTreeSet<Vec<u8>> = secrets.into_iter().flat_map(forms_of).collect();
        if forms.is_empty() {
            return Self::default();
        }
        let mut by_first = vec![Vec::new(); 256];
        for form in forms {
            if let Some(first) = form.first() {
                by_first[usize::from(*first)].push(form);
            }
        }
        for forms in &mut by_first {
            forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        }
        Self { forms: Some(Arc::new(by_first)) }
    }

    /// Whether there is nothing to blank.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forms.is_none()
    }

    /// The text without secrets.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut blanked = text.to_owned();
        self.in_place(&mut blanked);
        blanked
    }

    /// The same, in place.
    pub fn in_place(&self, text: &mut String) {
        if !self.is_empty() && self.occurs_in(text.as_bytes()) {
            // Whole characters are replaced, so it stays text.
            *text = String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned();
        }
    }

    /// The bytes without secrets.
    #[must_use]
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.stream();
        let mut blanked = stream.push(bytes);
        blanked.extend(stream.finish());
        blanked
    }

    /// Takes secrets out of every text in the value, names of properties included. A
    /// number that is one becomes a text.
    pub fn value(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        match value {
            Value::String(text) => self.in_place(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(properties) => {
                *properties = std::mem::take(properties)
                    .into_iter()
                    .map(|(name, mut value)| {
                        self.value(&mut value);
                        (self.text(&name), value)
                    })
                    .collect();
            }
            Value::Number(number) => {
                let text = number.to_string();
                if self.occurs_in(text.as_bytes()) {
                    *value = Value::String(self.text(&text));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Blanks what arrives in pieces.
    #[must_use]
    pub fn stream(&self) -> BlankStream {
        BlankStream { blanks: self.clone(), held: Vec::new() }
    }

    fn occurs_in(&self, bytes: &[u8]) -> bool {
        (0..bytes.len()).any(|at| matches!(self.at(&bytes[at..]), At::Secret(_)))
    }

    fn at(&self, rest: &[u8]) -> At {
        let Some(forms) = self.forms.as_ref().and_then(|forms| forms.get(usize::from(*rest.first()?))) else {
            return At::Nothing;
        };
        if forms.iter().any(|form| form.len() > rest.len() && form.starts_with(rest)) {
            return At::Perhaps(forms.iter().find(|form| rest.starts_with(form)).map(Vec::len));
        }
        forms.iter().find(|form| rest.starts_with(form)).map_or(At::Nothing, |form| At::Secret(form.len()))
    }
}

/// What begins at a place.
enum At {
    Nothing,
    /// A secret of so many bytes.
    Secret(usize),
    /// The first bytes of one that may go on; a shorter one may be there whole.
    Perhaps(Option<usize>),
}

/// Blanks a stream: what may be the beginning of a secret is held back until what
/// follows shows whether it is.
pub struct BlankStream {
    blanks: Blanks,
    held: Vec<u8>,
}

impl BlankStream {
    /// Takes the next bytes, and gives those that may be passed on.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        self.pass(false)
    }

    /// Gives what is left: nothing follows.
    pub fn finish(&mut self) -> Vec<u8> {
        self.pass(true)
    }

    fn pass(&mut self, is_last: bool) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        let mut passed = Vec::with_capacity(held.len());
        let mut at = 0;
        while at < held.len() {
            let secret = match self.blanks.at(&held[at..]) {
                At::Perhaps(_) if !is_last => break,
                At::Secret(bytes) | At::Perhaps(Some(bytes)) => Some(bytes),
                At::Nothing | At::Perhaps(None) => None,
            };
            match secret {
                Some(bytes) => passed.resize(passed.len() + bytes, b'*'),
                None => passed.push(held[at]),
            }
            at += secret.unwrap_or(1);
        }
        self.held = held[at..].to_vec();
        passed
    }
}

/// A secret in each of the forms in which it may be written.
fn forms_of(secret: &str) -> Vec<Vec<u8>> {
    let json = Value::from(secret).to_string();
    let json = json[1..json.len() - 1].to_owned();
    let url = |upper, space: &str| -> String {
        let byte = |b: u8| match b {
            b' ' if !space.is_empty() => space.to_owned(),
            _ if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) => char::from(b).to_string(),
            _ if upper => format!("%{b:02X}"),
            _ => format!("%{b:02x}"),
        };
        secret.bytes().map(byte).collect()
    };
    let mut texts = vec![
        secret.to_owned(),
        json.replace('/', "\\/"),
        json,
        url(true, ""),
        url(false, ""),
        url(true, "+"),
        secret.bytes().map(|b| format!("{b:02x}")).collect(),
        secret.bytes().map(|b| format!("{b:02X}")).collect(),
    ];
    for offset in 0..3 {
        let standard = base64_within(secret.as_bytes(), offset);
        texts.push(standard.replace('+', "-").replace('/', "_"));
        texts.push(standard);
    }
    texts.into_iter().map(String::into_bytes).collect()
}

/// The characters of base64 that depend on the secret alone, where it stands at this
/// offset (modulo three) of a longer text.
fn base64_within(secret: &[u8], offset: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bit = |at: usize| {
        let at = at.checked_sub(offset * 8)?;
        secret.get(at / 8).map(|byte| byte >> (7 - at % 8) & 1)
    };
    let digits = ((offset + secret.len()) * 8).div_ceil(6);
    (0..digits)
        .filter_map(|digit| {
            let index = (0..6).try_fold(0_u8, |index, n| Some(index << 1 | bit(digit * 6 + n)?))?;
            Some(char::from(DIGITS[usize::from(index)]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const SECRET: &str = "s3cr+t/\"v\\lue ä?";

    fn blanks() -> Blanks {
        Blanks::of([SECRET])
    }

    #[test]
    fn a_secret_is_blanked_in_every_usual_form() {
        for form in [
            SECRET,
            r#"s3cr+t/\"v\\lue ä?"#,
            r#"s3cr+t\/\"v\\lue ä?"#,
            "s3cr%2Bt%2F%22v%5Clue%20%C3%A4%3F",
            "s3cr%2bt%2f%22v%5clue%20%c3%a4%3f",
            "s3cr%2Bt%2F%22v%5Clue+%C3%A4%3F",
            "733363722b742f22765c6c756520c3a43f",
            "733363722B742F22765C6C756520C3A43F",
        ] {
            let blanked = blanks().text(&format!("before {form} after"));
            assert_eq!(blanked, format!("before {} after", "*".repeat(form.len())));
        }
    }

    #[test]
    fn base64_is_blanked_wherever_the_secret_stands_in_it() {
        // Alone, behind "user:", behind "users:", and behind "x".
        let blanks = Blanks::of(["password"]);
        for (encoded, blanked) in [
            ("cGFzc3dvcmQ=", "**********Q="),
            ("dXNlcjpwYXNzd29yZA==", "dXNlcjp**********A=="),
            ("dXNlcnM6cGFzc3dvcmQ=", "dXNlcnM6**********Q="),
            ("eHBhc3N3b3Jk", "eH**********"),
        ] {
            assert_eq!(blanks.text(encoded), blanked);
        }
    }

    #[test]
    fn values_are_blanked_throughout() {
        let mut value = json!({"a": ["x password y", {"password": true}], "n": 12_345_678, "m": 1});
        Blanks::of(["password", "12345678"]).value(&mut value);
        assert_eq!(value, json!({"a": ["x ******** y", {"********": true}], "n": "********", "m": 1}));
    }

    #[test]
    fn nothing_to_blank_changes_nothing() {
        assert!(Blanks::of([]).is_empty());
        assert_eq!(Blanks::default().text("text"), "text");
        assert_eq!(Blanks::of(["password"]).bytes(b"passwor"), b"passwor");
    }

    #[test]
    fn of_two_secrets_the_longer_is_blanked() {
        let blanks = Blanks::of(["password", "password-of-ada"]);
        assert_eq!(blanks.text("password-of-ada!"), "***************!");
        assert_eq!(blanks.text("password-of-bob"), "********-of-bob");
    }

    proptest! {
        #[test]
        fn pieces_are_blanked_as_the_whole_is(
            before in ".{0,20}", after in ".{0,20}", cuts in proptest::collection::vec(1_usize..9, 0..40)
        ) {
            let text = format!("{before}{SECRET}{after}{SECRET}").into_bytes();
            let mut stream = blanks().stream();
            let (mut passed, mut rest) = (Vec::new(), &text[..]);
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                passed.extend(stream.push(piece));
                rest = after;
            }
            passed.extend(stream.push(rest));
            passed.extend(stream.finish());
            prop_assert_eq!(passed.len(), text.len());
            prop_assert!(!String::from_utf8_lossy(&passed).contains(SECRET));
            prop_assert_eq!(passed, blanks().bytes(&text));
        }
    }
}
