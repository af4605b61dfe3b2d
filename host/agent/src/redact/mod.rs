//! Redacts secrets from output that untrusted readers may see, in the forms in which servers and
//! tools echo them (`form`), however the output is split into pieces.
//!
//! Each byte of a secret is replaced by an asterisk, so that announced lengths stay correct.
//! Redaction is best effort: it catches a secret that is returned whole. It misses a secret that a
//! server returns in pieces with something between them, encoded twice, or in an encoding of its
//! own. Do not send a secret to a server that must not disclose it.

mod form;
mod spelling;

use form::{Form, FormProgress, SecretStarts};
use serde_json::Value;
use spelling::read_character;
use std::ops::Range;
use std::sync::Arc;

/// The shortest secret that callers accept, in bytes; redacting shorter ones would hide ordinary words.
pub const MIN_SECRET_BYTES: usize = 8;
/// The longest secret that callers accept, in bytes.
pub const MAX_SECRET_BYTES: usize = 4 * 1024;
/// The most partial matches of the same characters that are followed at once from one position.
/// Only a secret that consists of escapes has more than a few.
const MAX_PARTIAL_MATCHES: usize = 256;

/// The secrets to be redacted. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Redactor {
    /// `None` if there is nothing to redact.
    secrets: Option<Arc<Secrets>>,
}

/// All forms of all secrets.
struct Secrets {
    forms: Vec<Form>,
    starts: SecretStarts,
}

impl Redactor {
    /// Creates a redactor of these secrets, whatever their length. It ignores letter case and
    /// recognizes the plain text, also backwards, and the usual encodings: JSON, URL, HTML,
    /// hexadecimal, and base64 at every offset.
    #[must_use]
    pub fn of<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let forms = Form::all_of(secrets.into_iter().filter(|secret| !secret.is_empty()));
        if forms.is_empty() {
            return Self::default();
        }
        let starts = SecretStarts::of(&forms);
        Self { secrets: Some(Arc::new(Secrets { forms, starts })) }
    }

    /// Returns whether there is nothing to redact.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.secrets.is_none()
    }

    /// Returns the text without secrets.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut redacted = text.to_owned();
        self.in_place(&mut redacted);
        redacted
    }

    /// Redacts the text in place.
    pub fn in_place(&self, text: &mut String) {
        if self.occurs_in(text) {
            let mut bytes = std::mem::take(text).into_bytes();
            self.redact(&mut bytes);
            // Only whole characters are replaced, so the result is valid UTF-8.
            *text = String::from_utf8(bytes)
                .unwrap_or_else(|failed| String::from_utf8_lossy(failed.as_bytes()).into_owned());
        }
    }

    /// Returns the bytes without secrets.
    #[must_use]
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut redacted = bytes.to_vec();
        self.redact(&mut redacted);
        redacted
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
                properties.values_mut().for_each(|value| self.value(value));
                if properties.keys().any(|name| self.occurs_in(name)) {
                    *properties = std::mem::take(properties)
                        .into_iter()
                        .map(|(name, value)| (self.text(&name), value))
                        .collect();
                }
            }
            Value::Number(number) => {
                let text = number.to_string();
                if self.occurs_in(&text) {
                    *value = Value::String(self.text(&text));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Returns a redactor of a stream that arrives in pieces.
    #[must_use]
    pub fn stream(&self) -> RedactingStream {
        RedactingStream { redactor: self.clone(), held: Vec::new(), search: SecretSearch::default() }
    }

    fn occurs_in(&self, text: &str) -> bool {
        self.secrets.as_ref().is_some_and(|secrets| {
            matches!(SecretSearch::default().next(secrets, text.as_bytes(), 0, true), Occurrence::Secret(_))
        })
    }

    fn redact(&self, bytes: &mut [u8]) {
        if let Some(secrets) = &self.secrets {
            SecretSearch::default().redact(secrets, bytes, true);
        }
    }
}

/// A search for secrets. Its memory is reused from one position to the next.
#[derive(Default)]
struct SecretSearch {
    /// Partial matches at one position of the text, which further bytes may complete.
    open: Vec<PartialMatch>,
    /// The length of the longest complete secret at that position, in bytes.
    whole: Option<usize>,
    /// The partial matches that are to be continued.
    to_do: Vec<PartialMatch>,
    /// Those of `to_do`, each with one more character.
    longer: Vec<PartialMatch>,
}

/// A partial match: the form, its patterns that agree with the text, and the number of bytes read.
#[derive(Clone, Copy, PartialEq)]
struct PartialMatch {
    form: usize,
    progress: FormProgress,
    end: usize,
}

/// The result of a search for the next secret in a text.
enum Occurrence {
    /// A secret at these bytes.
    Secret(Range<usize>),
    /// The rest of the text, from here on, may be the beginning of a secret.
    Open(usize),
    /// The text has no further secret, and none that begins in it.
    Nothing,
}

impl SecretSearch {
    /// Replaces the secrets in the text. Returns the length of the part that is decided; the rest
    /// depends on later bytes, unless `is_last`.
    fn redact(&mut self, secrets: &Secrets, text: &mut [u8], is_last: bool) -> usize {
        let mut at = 0;
        loop {
            match self.next(secrets, text, at, is_last) {
                Occurrence::Secret(bytes) => {
                    at = bytes.end;
                    text[bytes].fill(b'*');
                }
                Occurrence::Open(begin) => return begin,
                Occurrence::Nothing => return text.len(),
            }
        }
    }

    /// Finds the first secret that begins at `at` or later, and of these the longest. If there are
    /// open matches, they begin at `at`.
    fn next(&mut self, secrets: &Secrets, text: &[u8], mut at: usize, is_last: bool) -> Occurrence {
        loop {
            if self.open.is_empty() {
                let Some(candidate) = secrets.starts.next(text, at) else { return Occurrence::Nothing };
                at = candidate;
                self.begin(secrets, &text[at..]);
            }
            self.read_on(secrets, &text[at..]);
            if !is_last && !self.open.is_empty() {
                return Occurrence::Open(at);
            }
            self.open.clear();
            match self.whole.take() {
                Some(bytes) => return Occurrence::Secret(at..at + bytes),
                None => at += 1,
            }
        }
    }

    /// Reads the first character of all forms at once.
    fn begin(&mut self, secrets: &Secrets, text: &[u8]) {
        let Self { open, whole, .. } = self;
        let is_cut = read_character(text, |character, end| {
            if !secrets.starts.has(character) {
                return;
            }
            for (form, of_form) in secrets.forms.iter().enumerate() {
                if let Some(progress) = of_form.step(of_form.start(), character) {
                    keep(of_form, PartialMatch { form, progress, end }, whole, open);
                }
            }
        });
        if is_cut {
            let starts = secrets.forms.iter().enumerate();
            open.extend(starts.map(|(form, of_form)| PartialMatch {
                form,
                progress: of_form.start(),
                end: 0,
            }));
        }
    }

    /// Continues all open matches to the end of the text, which starts at their position.
    fn read_on(&mut self, secrets: &Secrets, text: &[u8]) {
        let Self { open, whole, to_do, longer } = self;
        std::mem::swap(open, to_do);
        while !to_do.is_empty() {
            if let [only] = &mut to_do[..] {
                secrets.forms[only.form].read_literals(&mut only.progress, &mut only.end, text);
            }
            for partial in to_do.drain(..) {
                let PartialMatch { form, progress, end } = partial;
                let of_form = &secrets.forms[form];
                let begin = end + of_form.separators(progress, &text[end..]);
                let is_cut = read_character(&text[begin..], |character, bytes| {
                    if let Some(progress) = of_form.step(progress, character) {
                        keep(of_form, PartialMatch { form, progress, end: begin + bytes }, whole, longer);
                    }
                });
                if is_cut {
                    add(open, partial);
                }
            }
            std::mem::swap(to_do, longer);
        }
    }
}

/// Notes the length of a match that is a whole secret, and keeps a match that may become a longer one.
fn keep(form: &Form, found: PartialMatch, whole: &mut Option<usize>, matches: &mut Vec<PartialMatch>) {
    if form.is_whole(found.progress) {
        *whole = (*whole).max(Some(found.end));
    }
    if form.continues(found.progress) {
        add(matches, found);
    }
}

/// Adds a match that is not among them. Matches of the same characters are limited, so that
/// those of one secret cannot hide another.
fn add(matches: &mut Vec<PartialMatch>, found: PartialMatch) {
    let mut alike = 0;
    for other in &*matches {
        if other.form == found.form && other.progress == found.progress {
            alike += 1;
            if other.end == found.end {
                return;
            }
        }
    }
    if alike < MAX_PARTIAL_MATCHES {
        matches.push(found);
    }
}

/// Redacts a stream. Bytes that may be the beginning of a secret are held back until later bytes
/// decide.
pub struct RedactingStream {
    redactor: Redactor,
    held: Vec<u8>,
    /// Its open matches start at the beginning of `held`.
    search: SecretSearch,
}

impl RedactingStream {
    /// Takes the next bytes and returns those that may be passed on.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.redactor.is_empty() {
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
        let Some(secrets) = &self.redactor.secrets else { return Vec::new() };
        let decided = self.search.redact(secrets, &mut self.held, is_last);
        let rest = self.held.split_off(decided);
        std::mem::replace(&mut self.held, rest)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const SECRET: &str = "s3cr+t/\"v\\lue ä?";

    fn redactor() -> Redactor {
        Redactor::of([SECRET])
    }

    #[test]
    fn a_secret_is_redacted_in_every_usual_form() {
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
            let redacted = redactor().text(&format!("before {form} after"));
            assert_eq!(redacted, format!("before {} after", "*".repeat(form.len())));
        }
    }

    /// Each character may be escaped separately, in any letter case, or the whole text encoded.
    #[test]
    fn z13_common_encodings_are_redacted_whatever_their_case_and_mixture() {
        const TOKEN: &str = "tok/En \u{e9}\u{1f511}+x";
        let redactor = Redactor::of([TOKEN]);
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
            let redacted = redactor.text(&format!("<{form}>"));
            assert_eq!(redacted, format!("<{}>", "*".repeat(form.len())), "{form}");
            // Splitting the stream into single bytes gives the same result.
            let mut stream = redactor.stream();
            let mut passed: Vec<u8> = form.bytes().flat_map(|byte| stream.push(&[byte])).collect();
            passed.extend(stream.finish());
            assert_eq!(String::from_utf8(passed).unwrap(), "*".repeat(form.len()), "{form}");
        }
    }

    #[test]
    fn z13_base64_is_redacted_in_lines_in_escapes_and_in_both_alphabets() {
        // The secret is "??>>secret~~", whose base64 contains both special characters.
        let redactor = Redactor::of(["??>>secret~~"]);
        for form in [
            "Pz8+PnNlY3JldH5+",
            "Pz8-PnNlY3JldH5-",
            r"Pz8\u002bPnNlY3JldH5\u002B",
            "Pz8%2BPnNlY3JldH5%2b",
            "Pz8+PnNl\r\nY3JldH5+",
        ] {
            assert!(!redactor.text(&format!("x {form} y")).contains("Y3"), "{form}");
        }
        let padded = "eHg/Pz4+c2VjcmV0fn4=";
        assert!(!redactor.text(padded).contains("c2Vj"), "{}", redactor.text(padded));
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
    fn base64_is_redacted_wherever_the_secret_stands_in_it() {
        // Alone, after "user:", after "users:", and after "x".
        let redactor = Redactor::of(["password"]);
        for (encoded, redacted) in [
            ("cGFzc3dvcmQ=", "**********Q="),
            ("dXNlcjpwYXNzd29yZA==", "dXNlcjp**********A=="),
            ("dXNlcnM6cGFzc3dvcmQ=", "dXNlcnM6**********Q="),
            ("eHBhc3N3b3Jk", "eH**********"),
        ] {
            assert_eq!(redactor.text(encoded), redacted);
        }
    }

    #[test]
    fn values_are_redacted_throughout() {
        let mut value = json!({"a": ["x password y", {"password": true}], "n": 12_345_678, "m": 1});
        Redactor::of(["password", "12345678"]).value(&mut value);
        assert_eq!(value, json!({"a": ["x ******** y", {"********": true}], "n": "********", "m": 1}));
    }

    #[test]
    fn nothing_to_redact_changes_nothing() {
        assert!(Redactor::of([]).is_empty());
        assert_eq!(Redactor::default().text("text"), "text");
        assert_eq!(Redactor::of(["password"]).bytes(b"passwor"), b"passwor");
    }

    #[test]
    fn of_two_secrets_the_longer_is_redacted() {
        let redactor = Redactor::of(["password", "password-of-ada"]);
        assert_eq!(redactor.text("password-of-ada!"), "***************!");
        assert_eq!(redactor.text("password-of-bob"), "********-of-bob");
    }

    #[test]
    fn z13_of_a_hundred_secrets_each_is_redacted() {
        let secrets: Vec<String> = (0..100).map(|number| format!("token-{number:03}-of-ada")).collect();
        let redactor = Redactor::of(secrets.iter().map(String::as_str));
        for secret in &secrets {
            let escaped: String = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
            for form in [secret, &escaped] {
                assert_eq!(redactor.text(form), "*".repeat(form.len()), "{form}");
            }
        }
    }

    /// Redacts by following every match from every position.
    fn redacted_slowly(redactor: &Redactor, text: &[u8]) -> Vec<u8> {
        let secrets = redactor.secrets.as_ref().unwrap();
        let (mut redacted, mut at) = (text.to_vec(), 0);
        while at < text.len() {
            let mut longest = 0;
            for form in &secrets.forms {
                let mut left = vec![(form.start(), at)];
                while let Some((progress, end)) = left.pop() {
                    let begin = end + form.separators(progress, &text[end..]);
                    read_character(&text[begin..], |character, bytes| {
                        let Some(progress) = form.step(progress, character) else { return };
                        if form.is_whole(progress) {
                            longest = longest.max(begin + bytes - at);
                        }
                        if form.continues(progress) {
                            left.push((progress, begin + bytes));
                        }
                    });
                }
            }
            redacted[at..at + longest].fill(b'*');
            at += longest.max(1);
        }
        redacted
    }

    /// Texts in which each byte may begin an escape take little longer than plain ones.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "only time shows how often a text is searched")]
    fn z13_a_text_of_escapes_is_searched_about_as_fast_as_a_plain_one() {
        let redactor = Redactor::of(["s3cr3t-value-0123456789abcdef"]);
        let takes = |unit: &str| {
            let text = unit.repeat(100_000 / unit.len());
            let once = || {
                let began = std::time::Instant::now();
                assert_eq!(redactor.text(&text), text);
                began.elapsed()
            };
            (0..5).map(|_| once()).min().unwrap()
        };
        let plain = takes("x");
        for unit in ["&", "%", "=", "\\", "&#", "&#x00000", "%25", "&lt;"] {
            let taken = takes(unit);
            assert!(taken < plain * 50, "{unit}: {taken:?}, plain text: {plain:?}");
        }
    }

    proptest! {
        #[test]
        fn secrets_are_found_as_by_trying_all_matches(parts in proptest::collection::vec(0..22_usize, 0..40)) {
            const PARTS: [&str; 22] = [
                "a", "%a", "A", "%61", "&", "&amp", "&amp;", "%", "%25", "=25", "\\", "\\\\", "\\x5C", "61", "25", "5c",
                "YSV", "hJVx", "\r\n", ":", "\u{e9}", "\\u0061",
            ];
            let text: String = parts.iter().map(|part| PARTS[*part]).collect();
            for secrets in [&["a%\\a"][..], &["&a", "aa&", "a%\\a"], &["\u{e9}a", "%%"]] {
                let redactor = Redactor::of(secrets.iter().copied());
                let found = redactor.bytes(text.as_bytes());
                prop_assert_eq!(found, redacted_slowly(&redactor, text.as_bytes()), "{}", text);
            }
        }

        #[test]
        fn pieces_are_redacted_as_the_whole_is(
            before in ".{0,20}", after in ".{0,20}", cuts in proptest::collection::vec(1_usize..9, 0..40)
        ) {
            let text = format!("{before}{SECRET}{after}{SECRET}").into_bytes();
            let mut stream = redactor().stream();
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
            prop_assert_eq!(passed, redactor().bytes(&text));
        }
    }
}
