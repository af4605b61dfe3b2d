//! Cleaning of untrusted text that a person or a model will read.

use std::borrow::Cow;
use std::time::Duration;
use unicode_general_category::{GeneralCategory, get_general_category};

/// The maximum number of marks on one character. More of them would cover the lines above and below.
const MAX_MARKS: usize = 4;

/// Cuts a text to `max_bytes` at a character boundary and removes control characters (except tab
/// and newline), terminal escapes, and characters that are invisible or change the direction of
/// writing. A cut is marked.
#[must_use]
pub fn clean(text: &str, max_bytes: usize) -> String {
    cleaned(text, max_bytes).into_owned()
}

/// Cleans like [`clean`], without a copy if the text is already clean.
#[must_use]
pub fn cleaned(text: &str, max_bytes: usize) -> Cow<'_, str> {
    // Most texts are plain ASCII and need no second look.
    if text.len() <= max_bytes && text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(gathered(text.chars().filter(|c| !is_unwanted(*c)), max_bytes))
}

/// Cleans like [`clean`], and removes marks after the fourth on one character, for text that is
/// displayed among the host's own. Some languages stack more marks, so data is not changed this way.
#[must_use]
pub fn shown(text: &str, max_bytes: usize) -> String {
    gathered(judged(text).filter(|(_, is_removed)| !is_removed).map(|(c, _)| c), max_bytes)
}

/// Returns these characters as a text, cut to `max_bytes`.
fn gathered(chars: impl Iterator<Item = char>, max_bytes: usize) -> String {
    let mut text = String::new();
    for c in chars {
        if text.len() + c.len_utf8() > max_bytes {
            cut(&mut text, max_bytes);
            break;
        }
        text.push(c);
    }
    text
}

/// Formats a duration for a person: `5.0s`, `1.25s`, and below one second `150ms`.
#[must_use]
pub fn seconds(span: Duration) -> String {
    let (ms, hundredths) = (span.as_millis(), span.as_millis() / 10);
    match hundredths % 10 {
        _ if ms < 1_000 => format!("{ms}ms"),
        0 => format!("{}.{}s", hundredths / 100, hundredths / 10 % 10),
        _ => format!("{}.{:02}s", hundredths / 100, hundredths % 100),
    }
}

/// Returns an untrusted text as one line: cleaned like [`shown`], with each run of white space replaced by one
/// space, and cut to `max_bytes`.
#[must_use]
pub fn one_line(text: &str, max_bytes: usize) -> String {
    // Do not scan a text that is far too long to its end.
    let mut line = shown(text, max_bytes.saturating_mul(4));
    line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > max_bytes {
        cut(&mut line, max_bytes);
    }
    line
}

/// Returns a text that others wrote as the end of a sentence: with a full stop, unless it has one.
#[must_use]
pub fn sentence(text: &str) -> Cow<'_, str> {
    let text = text.trim_end();
    match text.ends_with(['.', '!', '?', '…']) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("{text}.")),
    }
}

/// Writes characters of a JSON text that [`shown`] removes as `\u` escapes.
/// The JSON value stays the same.
#[must_use]
pub fn escaped_json(text: String) -> String {
    if !judged(&text).any(|(_, is_removed)| is_removed) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len());
    for (c, is_removed) in judged(&text) {
        if is_removed {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Marks a text as cut, and shortens it to `max_bytes`, mark included, at a character boundary. A
/// text that already fits is marked, too.
pub fn cut(text: &mut String, max_bytes: usize) {
    const MARK: &str = " [cut]";
    text.truncate(text.floor_char_boundary(max_bytes.saturating_sub(MARK.len())));
    if max_bytes >= MARK.len() {
        text.push_str(MARK);
    }
}

/// Returns a word as a shell reads it back, in quotes if it needs them. The word is not sanitized.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Returns each character with whether it is removed from a text that is displayed.
fn judged(text: &str) -> impl Iterator<Item = (char, bool)> {
    let mut marks = 0;
    text.chars().map(move |c| {
        // A character that is removed does not separate the marks around it.
        if is_unwanted(c) {
            return (c, true);
        }
        marks = if is_mark(c) { marks + 1 } else { 0 };
        (c, marks > MAX_MARKS)
    })
}

/// Returns whether a character is drawn over the one before it.
fn is_mark(c: char) -> bool {
    use GeneralCategory::{EnclosingMark, NonspacingMark};
    !c.is_ascii() && matches!(get_general_category(c), NonspacingMark | EnclosingMark)
}

/// Returns whether a character is removed because it controls the terminal or is invisible.
fn is_unwanted(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || is_invisible(c)
}

/// Returns whether a character is invisible or changes how others are displayed: Unicode's default
/// ignorable characters and format controls, line and paragraph separators, and blank characters
/// other than the space. The signs that precede numbers in Arabic, Syriac and Kaithi are format
/// controls by category, but visible.
fn is_invisible(c: char) -> bool {
    matches!(c,
        // Zero width and joiners, direction marks and overrides, isolates.
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        // Format controls and fillers of hieroglyphs, Khitan, shorthand and music.
        | '\u{13430}'..='\u{1343f}' | '\u{16fe4}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}'
        | '\u{1d173}'..='\u{1d17a}'
        // Tags and variation selectors that can carry hidden text.
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_text_and_escapes_are_taken_out() {
        assert_eq!(clean("a\u{202e}b\u{200b}c\x1b[31m\0d\u{e0041}", 100), "abc[31md");
        assert_eq!(clean("line\n\ttab", 100), "line\n\ttab");
    }

    #[test]
    fn z22_few_marks_stay_on_a_character() {
        let marks = |count| "\u{30d}".repeat(count);
        assert_eq!(
            shown(&format!("a{}b{}", marks(50), marks(2)), 200),
            format!("a{}b{}", marks(4), marks(2))
        );
        assert_eq!(shown(&format!("a{0}\u{200b}{0}", marks(4)), 200), format!("a{}", marks(4)));
        assert_eq!(one_line(&format!("a{}", marks(5)), 200), format!("a{}", marks(4)));
        let text = serde_json::json!(marks(6)).to_string();
        assert_eq!(escaped_json(text), format!("\"{}\\u030d\\u030d\"", marks(4)));
    }

    #[test]
    fn data_keeps_all_marks_of_a_character() {
        for stacked in
            [format!("a{}", "\u{30d}".repeat(5)), "\u{5e9}\u{5bc}\u{5c1}\u{5b8}\u{591}\u{5bd}".to_owned()]
        {
            assert_eq!(clean(&stacked, 200), stacked);
            assert_ne!(shown(&stacked, 200), stacked);
        }
    }

    /// Covers the Unicode version of the table of categories.
    #[test]
    fn z14_every_invisible_character_of_unicode_is_taken_out() {
        const VISIBLE: [char; 13] = [
            '\u{600}',
            '\u{601}',
            '\u{602}',
            '\u{603}',
            '\u{604}',
            '\u{605}',
            '\u{6dd}',
            '\u{70f}',
            '\u{890}',
            '\u{891}',
            '\u{8e2}',
            '\u{110bd}',
            '\u{110cd}',
        ];
        let hidden = |c: &char| {
            use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator};
            let kind = get_general_category(*c);
            matches!(kind, Control | Format | LineSeparator | ParagraphSeparator) && !VISIBLE.contains(c)
        };
        let kept: Vec<char> =
            ('\0'..=char::MAX).filter(hidden).filter(|c| !is_unwanted(*c) && !"\n\t".contains(*c)).collect();
        assert!(kept.is_empty(), "{kept:?}");
        // Ignorable or blank characters in other categories.
        for c in
            "\u{34f}\u{115f}\u{1160}\u{17b4}\u{180b}\u{2065}\u{2800}\u{3164}\u{fe0f}\u{ffa0}\u{fff3}\u{e01ef}"
                .chars()
        {
            assert!(is_unwanted(c), "{c:?}");
        }
        for c in "aä語🎉 \u{a0}\u{3000}\u{301}\u{fffd}".chars().chain(VISIBLE) {
            assert!(!is_unwanted(c), "{c:?}");
        }
    }

    #[test]
    fn z14_one_line_has_no_second() {
        assert_eq!(one_line("a\r\nerror: b\u{2028}c\u{85}\td ", 100), "a error: bc d");
        assert!(one_line(&"x\n".repeat(1_000), 50).len() <= 50);
    }

    #[test]
    fn z14_json_keeps_its_meaning_without_what_a_terminal_obeys() {
        let text = serde_json::json!({"a": "\u{9b}2J\u{202e}\u{e0041}ä"}).to_string();
        let escaped = escaped_json(text.clone());
        assert_eq!(escaped, r#"{"a":"\u009b2J\u202e\udb40\udc41ä"}"#);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&escaped).ok(),
            serde_json::from_str::<serde_json::Value>(&text).ok()
        );
    }

    #[test]
    fn a_sentence_ends_once() {
        for (text, whole) in [("no", "no."), ("No. \n", "No."), ("why?", "why?"), ("wait …", "wait …")] {
            assert_eq!(sentence(text), whole);
        }
    }

    #[test]
    fn t3_short_spans_are_written_in_milliseconds() {
        for (ms, text) in [(150, "150ms"), (999, "999ms"), (1_000, "1.0s"), (1_250, "1.25s"), (5_003, "5.0s")]
        {
            assert_eq!(seconds(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn long_text_is_cut_at_a_character_and_marked() {
        let cleaned = clean(&"ä".repeat(1000), 100);
        assert!(cleaned.len() <= 100 && cleaned.ends_with(" [cut]"), "{cleaned}");
        assert_eq!(clean("short", 5), "short");
    }
}
