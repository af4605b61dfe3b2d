//! Edits the text in brackets or braces: members separated by commas, with comments anywhere. A
//! comment on the line of a member belongs to it and is removed with it; all others stay.

use std::ops::Range;
use toml_edit::{Array, InlineTable, Value};

/// A list in brackets, or a table in braces.
pub(super) struct Block {
    /// The offset after the opening bracket.
    open: usize,
    /// The offset of the closing bracket.
    close: usize,
    /// The end of each member, in order.
    ends: Vec<usize>,
}

impl Block {
    pub(super) fn of_array(list: &Array) -> Option<Self> {
        let ends = list.iter().filter_map(|value| Some(value.span()?.end)).collect();
        Self::of_span(list.span()?, ends)
    }

    pub(super) fn of_braces(table: &InlineTable) -> Option<Self> {
        let mut ends = Vec::new();
        leaf_ends(table, &mut ends);
        ends.sort_unstable();
        Self::of_span(table.span()?, ends)
    }

    fn of_span(span: Range<usize>, ends: Vec<usize>) -> Option<Self> {
        Some(Self { open: span.start + 1, close: span.end.checked_sub(1)?, ends })
    }

    /// Returns the text with one more member, on a line of its own if the last one is.
    pub(super) fn with(&self, text: &str, member: &str) -> String {
        let Some(last) = self.ends.len().checked_sub(1) else { return self.with_first(text, member) };
        let end = self.ends[last];
        let start = self.start_of(text, last);
        let comma = self.comma_behind(text, last);
        let behind = comma.map_or(end, |comma| comma + 1);
        let before = &text[self.begin_of(text, last)..start];
        let line_end = text[behind..self.close].find('\n').map(|at| behind + at);
        let closing = if comma.is_some() { "," } else { "" };
        let (at, new) = if before.contains('\n') || line_end.is_some() {
            let indent = match before.rsplit_once('\n') {
                Some((_, indent)) => indent,
                None => "  ",
            };
            (line_end.unwrap_or(behind), format!("\n{indent}{member}{closing}"))
        } else {
            (behind, format!(" {member}{closing}"))
        };
        let separator = if comma.is_some() { "" } else { "," };
        format!("{}{separator}{}{new}{}", &text[..end], &text[end..at], &text[at..])
    }

    fn with_first(&self, text: &str, member: &str) -> String {
        let inside = &text[self.open..self.close];
        match inside.find('\n') {
            Some(at) => {
                let (before, behind) = text.split_at(self.open + at);
                format!("{before}\n  {member}{behind}")
            }
            None if text[..self.open].ends_with('{') => {
                format!("{} {member} {}", &text[..self.open], &text[self.close..])
            }
            None => format!("{}{member}{}", &text[..self.open], &text[self.close..]),
        }
    }

    /// Returns the text without the member that ends here.
    pub(super) fn without(&self, text: &str, end: usize) -> Option<String> {
        let member = self.ends.iter().position(|at| *at == end)?;
        let start = self.start_of(text, member);
        let comma = self.comma_behind(text, member);
        let behind = comma.map_or(end, |comma| comma + 1);
        let between = kept_before_comma(text, end, comma);
        let line = line_start(text, start);
        let rest = text[behind..].find('\n').map(|at| behind + at + 1);
        if let Some(next) = rest
            && next <= self.close
            && line >= self.open
            && is_blank(&text[line..start])
            && skip(text, behind, next) >= next
        {
            return Some(format!("{}{between}{}", &text[..line], &text[next..]));
        }
        // The last member takes the comma before it along, the others the comma after them.
        let before = match (member.checked_sub(1), comma) {
            (Some(previous), None) => self.comma_behind(text, previous),
            _ => None,
        };
        let kept = match before {
            Some(at) if is_blank(&text[at + 1..start]) => text[..at].to_owned(),
            Some(at) => format!("{}{}", &text[..at], &text[at + 1..start]),
            None => text[..start].to_owned(),
        };
        let follows = text[behind..].trim_start_matches([' ', '\t']);
        let follows = if follows.starts_with('#') || comma.is_none() { &text[behind..] } else { follows };
        Some(format!("{kept}{between}{follows}"))
    }

    /// Returns the start of everything that belongs to a member: after the previous comma.
    fn begin_of(&self, text: &str, member: usize) -> usize {
        match member.checked_sub(1) {
            None => self.open,
            Some(previous) => {
                self.comma_behind(text, previous).map_or(self.ends[previous], |comma| comma + 1)
            }
        }
    }

    /// Returns the offset of a member's first letter.
    fn start_of(&self, text: &str, member: usize) -> usize {
        skip(text, self.begin_of(text, member), self.ends[member])
    }

    fn comma_behind(&self, text: &str, member: usize) -> Option<usize> {
        let at = skip(text, self.ends[member], self.close);
        (text.as_bytes().get(at) == Some(&b',')).then_some(at)
    }
}

/// Returns the comments between a member and its comma. They stay, on lines of their own.
fn kept_before_comma(text: &str, end: usize, comma: Option<usize>) -> &str {
    let between = comma.map_or("", |comma| &text[end..comma]);
    if between.contains('#') { between } else { "" }
}

fn leaf_ends(table: &InlineTable, ends: &mut Vec<usize>) {
    for (_, value) in table.iter() {
        match value {
            Value::InlineTable(below) if below.is_dotted() => leaf_ends(below, ends),
            other => ends.extend(other.span().map(|span| span.end)),
        }
    }
}

/// Skips whitespace, newlines and comments, up to `to`.
fn skip(text: &str, from: usize, to: usize) -> usize {
    let mut at = from;
    let bytes = text.as_bytes();
    while at < to {
        match bytes[at] {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'#' => at += text[at..to].find('\n').unwrap_or(to - at),
            _ => break,
        }
    }
    at
}

fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' ' | b'\t'))
}

/// Returns the start of the line that contains this offset.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns the end of the line that contains this offset: its newline, or the end of the text.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline)
}
