//! A stranger's text as a terminal shows it.

use tollgate_agent::question::MARK;

/// The maximum number of bytes of a stranger's text shown in one place.
const MAX_SHOWN_BYTES: usize = 64 * 1024;

/// Returns a stranger's text cleaned for display, with a mark on each line but the first, so that
/// none can be mistaken for the host's.
pub(crate) fn shown_marked(text: &str) -> String {
    shown(text.trim_end()).replace('\n', &format!("\n{MARK}"))
}

/// Returns a stranger's text cleaned for display: no escapes, nothing invisible.
pub(crate) fn shown(text: &str) -> String {
    tollgate_agent::text::shown(text, MAX_SHOWN_BYTES)
}

/// Returns a stranger's text on one line of at most `max_chars` characters.
pub(crate) fn shown_line(text: &str, max_chars: usize) -> String {
    let cleaned = shown(text);
    let line = cleaned.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max_chars.saturating_sub(1)) {
        Some((at, _)) if line[at..].chars().count() > 1 => format!("{}…", &line[..at]),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z14_no_line_of_a_strangers_text_stands_where_the_hosts_do() {
        let text = "fine\nerror: not the host's\r\nwarning: nor this\u{2028}x\n";
        assert_eq!(shown_marked(text), "fine\n| error: not the host's\n| warning: nor thisx");
    }

    #[test]
    fn a_strangers_text_is_cleaned_and_cut() {
        assert_eq!(shown("a\x1b[31mb\u{202e}"), "a[31mb");
        assert_eq!(shown_line("one\n two\tthree", 80), "one two three");
        assert_eq!(shown_line("abcdef", 6), "abcdef");
        assert_eq!(shown_line("abcdefg", 6), "abcde…");
    }
}
