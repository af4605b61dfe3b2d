//! Scans a reply for calls. Each byte is examined a bounded number of times, whatever the
//! model wrote.

use crate::json;
use serde::de::IgnoredAny;
use serde_json::Value;

/// The start tag of a call.
pub const OPEN: &str = "[TOOL_CALL]";
/// The end tag; a model may omit it.
pub const CLOSE: &str = "[/TOOL_CALL]";

/// The most tags of one reply that are read.
const MAX_TAGS: usize = 64;

/// A part of a model's text.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    Call { name: String, arguments: String },
    Malformed { why: String, sent: &'a str },
}

/// Splits a reply into its parts, in order.
pub(super) fn pieces(reply: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = reply;
    for tag in 0.. {
        let Some(at) = rest.find(OPEN) else { break };
        let (before, tagged) = rest.split_at(at);
        let body = &tagged[OPEN.len()..];
        let end = if tag < MAX_TAGS {
            read_body(body, &mut pieces, before)
        } else {
            pieces.push(Piece::Text(before));
            pieces.push(Piece::Malformed {
                why: format!("a reply may contain at most {MAX_TAGS} calls"),
                sent: tagged,
            });
            body.len()
        };
        rest = &body[end..];
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// Parses the text after a tag, and returns where it ends.
fn read_body<'a>(body: &'a str, pieces: &mut Vec<Piece<'a>>, before: &'a str) -> usize {
    // A fence may enclose the whole call, or only the JSON between the tags.
    let (before, is_fenced) = without_fence_at_end(before);
    pieces.push(Piece::Text(before));
    let start = body.len() - after_opening_fence(body).len();
    let mut values = serde_json::Deserializer::from_str(&body[start..]).into_iter::<IgnoredAny>();
    let read = values.next();
    let end = start + values.byte_offset();
    match read {
        Some(Ok(_)) => {
            let sent = &body[start..end];
            match json::parse_exact(sent) {
                Ok(Value::Array(calls)) if !calls.is_empty() => {
                    pieces.extend(calls.into_iter().map(|call| one(call, sent)));
                }
                Ok(call) => pieces.push(one(call, sent)),
                Err(why) => {
                    pieces.push(Piece::Malformed { why: format!("it is not acceptable JSON: {why}"), sent })
                }
            }
            after_the_call(body, end, is_fenced)
        }
        _ => {
            // It ends at its end tag, or where the next call begins.
            let end = [body.find(CLOSE), body.find(OPEN)].into_iter().flatten().min().unwrap_or(body.len());
            let why = match read {
                Some(Err(why)) => format!("it is not JSON: {why}"),
                _ => "nothing follows the tag".to_owned(),
            };
            pieces.push(Piece::Malformed { why, sent: &body[..end] });
            if body[end..].starts_with(CLOSE) { end + CLOSE.len() } else { end }
        }
    }
}

fn one(call: Value, sent: &str) -> Piece<'_> {
    let malformed = |why: &str| Piece::Malformed { why: why.to_owned(), sent };
    let Value::Object(mut fields) = call else {
        return malformed("it is not an object with `name` and `args`");
    };
    let Some(Value::String(name)) = fields.remove("name") else {
        return malformed("`name` is missing or not a string");
    };
    match fields.remove("args").or_else(|| fields.remove("arguments")) {
        None | Some(Value::Null) => Piece::Call { name, arguments: "{}".to_owned() },
        Some(Value::Object(args)) => Piece::Call { name, arguments: Value::Object(args).to_string() },
        Some(_) => malformed("`args` is not an object"),
    }
}

/// Returns where the text continues after a call: after closing fences and the end tag, if
/// present.
fn after_the_call(body: &str, end: usize, is_fenced: bool) -> usize {
    let mut rest = body[end..].trim_start();
    if rest.starts_with("```") && !is_fenced {
        rest = rest[3..].trim_start();
    }
    let tagged = rest.strip_prefix(CLOSE);
    if let Some(after) = tagged {
        rest = after;
    }
    if is_fenced && let Some(after) = rest.trim_start().strip_prefix("```") {
        rest = after;
    }
    if tagged.is_some() || rest.len() < body[end..].trim_start().len() {
        body.len() - rest.len()
    } else {
        end
    }
}

/// Returns the text without a fence that opens at its end, and whether there was one.
fn without_fence_at_end(text: &str) -> (&str, bool) {
    let trimmed = text.trim_end();
    let line_start = trimmed.rfind('\n').map_or(0, |at| at + 1);
    let line = trimmed[line_start..].trim_start();
    let word = line.strip_prefix("```");
    let opens = word.is_some_and(|word| word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    // An even number of fences before it: this one opens.
    let fences = trimmed[..line_start].matches("```").count();
    if opens && fences.is_multiple_of(2) { (&trimmed[..line_start], true) } else { (text, false) }
}

fn after_opening_fence(body: &str) -> &str {
    let trimmed = body.trim_start();
    match trimmed.strip_prefix("```") {
        Some(fenced) => fenced.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_'),
        None => body,
    }
}
