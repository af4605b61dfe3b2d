//! Paths and URLs as permission rules compare them.

use std::borrow::Cow;

/// Returns whether a text that a glob matched has no empty, `.` or `..` segment, so that
/// it cannot lead outside the glob's path. In doubt, the answer is no: backslashes count as
/// separators, and percent-encoded dots and separators are decoded.
///
/// One leading slash is the root, and a scheme that the glob itself spells out
/// (`https://`) is not a segment.
pub(super) fn is_plain(text: &str, glob: &str) -> bool {
    let text = match scheme(glob) {
        Some(scheme) => text.strip_prefix(scheme).unwrap_or(text),
        None => text.strip_prefix('/').unwrap_or(text),
    };
    let text = decoded(text);
    text.split(['/', '\\']).all(|segment| !matches!(segment, "" | "." | ".."))
}

/// Returns the text with its empty, `.` and `..` segments resolved; `None` if it has none.
pub(super) fn normalized(text: &str) -> Option<String> {
    let (root, path) = match scheme(text) {
        None => ("", text),
        Some(scheme) => {
            let host = &text[scheme.len()..];
            text.split_at(scheme.len() + host.find('/').unwrap_or(host.len()))
        }
    };
    let is_absolute = path.starts_with('/');
    let segments = path.strip_prefix('/').unwrap_or(path);
    if segments.is_empty() || segments.split('/').all(|segment| !matches!(segment, "" | "." | "..")) {
        return None;
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in segments.split('/') {
        match segment {
            "" | "." => {}
            ".." if !is_absolute && kept.last().is_none_or(|last| *last == "..") => kept.push(".."),
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let slash = if is_absolute { "/" } else { "" };
    Some(format!("{root}{slash}{}", kept.join("/")))
}

/// Returns the scheme with which a URL begins, including `://`.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    is_scheme.then(|| &text[..scheme.len() + 3])
}

/// Decodes percent-encoded dots and separators.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return text.into();
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        decoded.push_str(&rest[..at]);
        let (c, taken) = match rest.as_bytes().get(at + 1..at + 3) {
            Some(b"2e" | b"2E") => ('.', 3),
            Some(b"2f" | b"2F") => ('/', 3),
            Some(b"5c" | b"5C") => ('\\', 3),
            _ => ('%', 1),
        };
        decoded.push(c);
        rest = &rest[at + taken..];
    }
    decoded.push_str(rest);
    decoded.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z10_a_text_that_may_lead_elsewhere_is_not_plain() {
        for (text, glob) in [
            ("/docs/a.md", "/docs/**"),
            ("docs/a..b/...", "docs/**"),
            ("/100%/a%41", "**"),
            ("https://a.test/x/y", "https://a.test/**"),
        ] {
            assert!(is_plain(text, glob), "{text}");
        }
        for (text, glob) in [
            ("", "**"),
            ("/", "**"),
            ("/docs/../etc/passwd", "/docs/**"),
            ("/docs/./a", "/docs/**"),
            ("/docs//a", "/docs/**"),
            ("//docs/a", "**"),
            ("/docs/", "/docs/**"),
            ("..", "**"),
            ("docs\\..\\..\\etc", "docs**"),
            ("/docs/%2E%2e/etc", "/docs/**"),
            ("/docs/..%2fetc", "/docs/**"),
            ("https://a.test/x/../y", "https://a.test/**"),
            ("https://a.test//y", "https://a.test/**"),
            ("https://a.test/x", "**"),
        ] {
            assert!(!is_plain(text, glob), "{text}");
        }
    }

    #[test]
    fn z10_dots_and_empty_segments_are_resolved() {
        for (text, path) in [
            ("/docs/../etc/passwd", "/etc/passwd"),
            ("/docs//a/./b/", "/docs/a/b"),
            ("/../../etc", "/etc"),
            ("./a/../../b", "../b"),
            ("//etc", "/etc"),
            ("https://a.test/x/../../y", "https://a.test/y"),
        ] {
            assert_eq!(normalized(text).as_deref(), Some(path), "{text}");
        }
        for plain in
            ["", "/", "/etc/passwd", "a/b", "https://a.test", "https://a.test/x", "a text. And more."]
        {
            assert_eq!(normalized(plain), None, "{plain}");
        }
    }
}
