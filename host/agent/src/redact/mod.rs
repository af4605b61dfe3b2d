//! Redacts secrets from output that untrusted readers may see, in the forms in which servers and
//! tools echo them (`pattern`), however the output is split into pieces.
//!
//! Each byte of a secret is replaced by an asterisk, so that announced lengths stay correct.
//! Redaction is best effort: it catches a secret that is returned whole. It misses a secret that a
//! server returns in pieces with something between them, encoded twice, or in an encoding of its
//! own. Do not send a secret to a server that must not disclose it.

mod pattern;

use pattern::Pattern;
use serde_json::Value;
use std::sync::Arc;

/// The shortest secret, in bytes; redacting shorter ones would hide ordinary words.
pub const MIN_SECRET_BYTES: usize = 8;
/// The longest secret, in bytes.
pub const MAX_SECRET_BYTES: usize = 4 * 1024;
/// The most partial readings of one form of a secret that are followed at once from one position.
/// Only a secret that consists of escapes has more than a few.
const MAX_READINGS: usize = 256;

/// The secrets to be redacted. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Redactor {
    /// `None` if there is nothing to redact.
    forms: Option<Arc<Forms>>,
}

/// All forms of all secrets.
struct Forms {
    patterns: Vec<Pattern>,
    /// For each byte, the patterns that can begin with it.
    beginning: Vec<Vec<usize>>,
}

impl Redactor {
    /// Creates a redactor of these secrets. It ignores letter case and recognizes the plain text
    /// and the usual encodings: JSON, URL, HTML, hexadecimal, and base64 at every offset.
    #[must_use]
    pub fn of<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let secrets = secrets.into_iter().filter(|secret| !secret.is_empty());
        let patterns: Vec<Pattern> =
            secrets.flat_map(Pattern::all_of).filter(|pattern| pattern.len() > 0).collect();
        if patterns.is_empty() {
            return Self::default();
        }
        let mut beginning = vec![Vec::new(); 256];
        for (at, pattern) in patterns.iter().enumerate() {
            for byte in pattern.first_bytes() {
                let of_byte: &mut Vec<usize> = &mut beginning[usize::from(byte)];
                if of_byte.last() != Some(&at) {
                    of_byte.push(at);
                }
            }
        }
        Self { forms: Some(Arc::new(Forms { patterns, beginning })) }
    }

    /// Returns whether there is nothing to redact.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forms.is_none()
    }

    /// Returns the text without secrets.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut blanked = text.to_owned();
        self.in_place(&mut blanked);
        blanked
    }

    /// Redacts the text in place.
    pub fn in_place(&self, text: &mut String) {
        if !self.is_empty() && self.occurs_in(text.as_bytes()) {
            // Only whole characters are replaced, so the result is valid UTF-8.
            *text = String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned();
        }
    }

    /// Returns the bytes without secrets.
    #[must_use]
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.stream();
        let mut blanked = stream.push(bytes);
        blanked.extend(stream.finish());
        blanked
    }

    /// Redacts every string in the value, including property names. A number that contains a secret
    /// becomes a string.
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

    /// Returns a redactor of a stream that arrives in pieces.
    #[must_use]
    pub fn stream(&self) -> BlankStream {
        BlankStream { blanks: self.clone(), held: Vec::new(), begun: None }
    }

    fn occurs_in(&self, bytes: &[u8]) -> bool {
        let Some(forms) = &self.forms else { return false };
        (0..bytes.len()).any(|at| {
            forms.begin(bytes[at]).is_some_and(|mut found| {
                found.read_on(forms, &bytes[at..]);
                found.whole.is_some()
            })
        })
    }
}

impl Forms {
    /// Starts reading the patterns that can begin with this byte.
    fn begin(&self, byte: u8) -> Option<Candidates> {
        let patterns = &self.beginning[usize::from(byte)];
        let open = || patterns.iter().map(|at| Reading { pattern: *at, character: 0, end: 0 }).collect();
        (!patterns.is_empty()).then(|| Candidates { open: open(), whole: None })
    }
}

/// The secrets found at one position of a text.
struct Candidates {
    /// Readings that further bytes may complete; those of one pattern are adjacent.
    open: Vec<Reading>,
    /// The length of the longest complete secret.
    whole: Option<usize>,
}

/// A partial match: how many characters of a pattern were read, and the byte at which they end.
struct Reading {
    pattern: usize,
    character: usize,
    end: usize,
}

impl Candidates {
    /// Continues all readings to the end of the text, which starts at the secret's position.
    fn read_on(&mut self, forms: &Forms, text: &[u8]) {
        let mut left = std::mem::take(&mut self.open);
        while let Some(last) = left.last().map(|reading| reading.pattern) {
            let others = left.iter().rposition(|reading| reading.pattern != last);
            self.read_pattern(forms, text, left.split_off(others.map_or(0, |at| at + 1)));
        }
    }

    /// Continues the readings of one pattern. Their number is limited for each pattern, so that
    /// many readings of one pattern cannot hide another.
    fn read_pattern(&mut self, forms: &Forms, text: &[u8], mut to_do: Vec<Reading>) {
        let most_open = self.open.len() + MAX_READINGS;
        while let Some(Reading { pattern, character, end }) = to_do.pop() {
            let form = &forms.patterns[pattern];
            if character == form.len() {
                self.whole = self.whole.max(Some(end));
                continue;
            }
            let is_cut = form.read(character, &text[end..], |bytes| {
                if to_do.len() < MAX_READINGS {
                    to_do.push(Reading { pattern, character: character + 1, end: end + bytes });
                }
            });
            if is_cut && self.open.len() < most_open {
                self.open.push(Reading { pattern, character, end });
            }
        }
    }
}

/// Redacts a stream. Bytes that may be the beginning of a secret are held back until later bytes
/// decide.
pub struct BlankStream {
    blanks: Redactor,
    held: Vec<u8>,
    /// The readings that start at the beginning of `held`.
    begun: Option<Candidates>,
}

impl BlankStream {
    /// Takes the next bytes and returns those that may be passed on.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.blanks.is_empty() {
            return bytes.to_vec();
        }
        self.held.extend_from_slice(bytes);
        self.pass(false)
    }

    /// Returns the remaining bytes at the end of the stream.
    pub fn finish(&mut self) -> Vec<u8> {
        self.pass(true)
    }

    fn pass(&mut self, is_last: bool) -> Vec<u8> {
        let Some(forms) = &self.blanks.forms else { return Vec::new() };
        let (mut passed, mut at) = (Vec::new(), 0);
        while let Some(byte) = self.held.get(at) {
            let Some(mut found) = self.begun.take().or_else(|| forms.begin(*byte)) else {
                passed.push(*byte);
                at += 1;
                continue;
            };
            found.read_on(forms, &self.held[at..]);
            if !is_last && !found.open.is_empty() {
                self.begun = Some(found);
                break;
            }
            match found.whole {
                Some(bytes) => passed.resize(passed.len() + bytes, b'*'),
                None => passed.push(*byte),
            }
            at += found.whole.unwrap_or(1);
        }
        self.held.drain(..at);
        passed
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const SECRET: &str = "s3cr+t/\"v\\lue ä?";

    fn blanks() -> Redactor {
        Redactor::of([SECRET])
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

    /// Each character may be escaped separately, in any letter case, or the whole text encoded.
    #[test]
    fn z13_common_encodings_are_blanked_whatever_their_case_and_mixture() {
        const TOKEN: &str = "tok/En \u{e9}\u{1f511}+x";
        let blanks = Redactor::of([TOKEN]);
        for form in [
            "TOK/eN \u{e9}\u{1f511}+X",
            "%74ok%2fEn %c3%A9\u{1f511}%2Bx",
            "%74%6F%6b%2F%45%6e%20%C3%a9%f0%9F%94%91%2b%78",
            "tok%2FEn+\u{e9}%F0%9f%94%91+x",
            "=74ok=2FEn=20=C3=A9=F0=9F=94=91+x",
            r"\u0074\u006F\u006b\/\u0045n \u00E9\ud83d\uDD11\u002bx",
            r"\u{74}ok\u{2F}En \u{e9}\u{1F511}+x",
            r"\x74ok\x2fEn \xc3\xa9\xf0\x9f\x94\x91+x",
            "&#116;ok&#x2F;En&#32;&#xE9;&#128273;&plus;x",
            "&#0116ok&sol;En&#X20;&#00233;&#x1f511&#43x",
            "x+\u{1f511}\u{e9} nE/kot",
            "746f6B2f456E20c3A9F09f94912b78",
            "74:6f:6b:2F:45:6e:20:C3:A9:F0:9F:94:91:2b:78",
        ] {
            let blanked = blanks.text(&format!("<{form}>"));
            assert_eq!(blanked, format!("<{}>", "*".repeat(form.len())), "{form}");
            // Splitting the stream into single bytes gives the same result.
            let mut stream = blanks.stream();
            let mut passed: Vec<u8> = form.bytes().flat_map(|byte| stream.push(&[byte])).collect();
            passed.extend(stream.finish());
            assert_eq!(String::from_utf8(passed).unwrap(), "*".repeat(form.len()), "{form}");
        }
    }

    #[test]
    fn z13_base64_is_blanked_in_lines_in_escapes_and_in_both_alphabets() {
        // The secret is "??>>secret~~", whose base64 contains both special characters.
        let blanks = Redactor::of(["??>>secret~~"]);
        for form in [
            "Pz8+PnNlY3JldH5+",
            "Pz8-PnNlY3JldH5-",
            r"Pz8\u002bPnNlY3JldH5\u002B",
            "Pz8%2BPnNlY3JldH5%2b",
            "Pz8+PnNl\r\nY3JldH5+",
        ] {
            assert!(!blanks.text(&format!("x {form} y")).contains("Y3"), "{form}");
        }
        let padded = "eHg/Pz4+c2VjcmV0fn4=";
        assert!(!blanks.text(padded).contains("c2Vj"), "{}", blanks.text(padded));
    }

    /// Bytes that cannot begin a secret are passed on at once; a stream is not delayed by bytes
    /// after them.
    #[test]
    fn z13_only_what_may_be_a_secret_is_held_back() {
        let mut stream = Redactor::of(["password"]).stream();
        assert_eq!(stream.push(b"data: 1 & 2\n\nq"), b"data: 1 & 2\n\nq");
        assert_eq!(stream.push(b"pass"), b"");
        assert_eq!(stream.push(b"ing"), b"passing");
        assert_eq!(stream.push(b"%70assw&#111;r"), b"");
        assert_eq!(stream.push(b"t"), b"%70assw&#111;rt");
    }

    #[test]
    fn base64_is_blanked_wherever_the_secret_stands_in_it() {
        // Alone, after "user:", after "users:", and after "x".
        let blanks = Redactor::of(["password"]);
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
        Redactor::of(["password", "12345678"]).value(&mut value);
        assert_eq!(value, json!({"a": ["x ******** y", {"********": true}], "n": "********", "m": 1}));
    }

    #[test]
    fn nothing_to_blank_changes_nothing() {
        assert!(Redactor::of([]).is_empty());
        assert_eq!(Redactor::default().text("text"), "text");
        assert_eq!(Redactor::of(["password"]).bytes(b"passwor"), b"passwor");
    }

    #[test]
    fn of_two_secrets_the_longer_is_blanked() {
        let blanks = Redactor::of(["password", "password-of-ada"]);
        assert_eq!(blanks.text("password-of-ada!"), "***************!");
        assert_eq!(blanks.text("password-of-bob"), "********-of-bob");
    }

    #[test]
    fn z13_of_a_hundred_secrets_each_is_blanked() {
        let secrets: Vec<String> = (0..100).map(|number| format!("token-{number:03}-of-ada")).collect();
        let blanks = Redactor::of(secrets.iter().map(String::as_str));
        for secret in &secrets {
            let escaped: String = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
            for form in [secret, &escaped] {
                assert_eq!(blanks.text(form), "*".repeat(form.len()), "{form}");
            }
        }
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
