//! Text that a stranger wrote and that a person or a model will read.

use std::borrow::Cow;
use std::time::Duration;

/// Cuts a text to `max_bytes` at a character boundary and takes out control
/// characters (tab and newline stay), terminal escapes, and the characters that
/// are invisible or change the direction of writing. What was cut is marked.
#[must_use]
pub fn clean(text: &str, max_bytes: usize) -> String {
    cleaned(text, max_bytes).into_owned()
}

/// The same, of a text that is mostly clean.
#[must_use]
pub fn cleaned(text: &str, max_bytes: usize) -> Cow<'_, str> {
    // Most texts are plain, and seen to be so at once.
    if text.len() <= max_bytes && text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len().min(max_bytes));
    for c in text.chars().filter(|c| !is_unwanted(*c)) {
        if cleaned.len() + c.len_utf8() > max_bytes {
            cut(&mut cleaned, max_bytes);
            break;
        }
        cleaned.push(c);
    }
    Cow::Owned(cleaned)
}

/// Writes a span of time for a person: `5.0s`, `1.25s`, and below one second `150ms`.
#[must_use]
pub fn seconds(span: Duration) -> String {
    let (ms, hundredths) = (span.as_millis(), span.as_millis() / 10);
    match hundredths % 10 {
        _ if ms < 1_000 => format!("{ms}ms"),
        0 => format!("{}.{}s", hundredths / 100, hundredths / 10 % 10),
        _ => format!("{}.{:02}s", hundredths / 100, hundredths % 100),
    }
}

/// Cuts a text to `max_bytes`, mark included, at a character boundary.
/// Returns whether anything was cut.
pub fn cut(text: &mut String, max_bytes: usize) -> bool {
    const MARK: &str = " [cut]";
    let mut end = max_bytes.saturating_sub(MARK.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    if max_bytes >= MARK.len() {
        text.push_str(MARK);
    }
    true
}

fn is_unwanted(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c,
            // Zero width and joiners, direction marks and overrides, isolates.
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
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
