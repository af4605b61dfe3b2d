//! Messages that are rewritten before the protocol's library reads them, because it drops what
//! matters here. Tools that only run as tasks are marked. An answer with a number that cannot be kept
//! becomes an error; the library would ignore the message, or round the number.

use rmcp::model::{ErrorData, Tool as Listed};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tollgate_agent::json::check_numbers;

/// The field of a tool that tells how it relates to tasks.
const FIELD: &[u8] = b"\"taskSupport\"";
/// The key of the mark in a tool's metadata.
const MARK: &str = "tollgate/requires-task";
/// The field that makes a message an answer.
const RESULT: &[u8] = b"\"result\"";
/// The field of an answer that is data.
const DATA: &[u8] = b"\"structuredContent\"";
/// The key of the mark in the data of an error that replaces an answer.
const MALFORMED: &str = "tollgate/malformed";
/// The number of bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// Returns whether the tool was marked: its server only runs it as a task.
pub(super) fn requires_task(tool: &Listed) -> bool {
    tool.meta.as_ref().is_some_and(|meta| meta.contains_key(MARK))
}

/// Returns whether the error replaces an answer that cannot be kept.
pub(super) fn is_malformed(error: &ErrorData) -> bool {
    error.data.as_ref().is_some_and(|data| data.get(MALFORMED).is_some())
}

/// Returns the message as it is to be read: mostly as it is.
pub(super) fn rewritten(message: &[u8]) -> Cow<'_, [u8]> {
    match malformed(message).or_else(|| has_field(message).then(|| mark(message)).flatten()) {
        Some(rewritten) => Cow::Owned(rewritten),
        None => Cow::Borrowed(message),
    }
}

/// Returns the error that replaces an answer with a number that cannot be kept. A number is rounded
/// only where no data is passed on, such as in a schema.
fn malformed(message: &[u8]) -> Option<Vec<u8>> {
    /// An answer of which only the id is read.
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
        #[serde(borrow, rename = "result")]
        _result: &'a RawValue,
    }
    memchr::memmem::find(message, RESULT)?;
    let why = check_numbers(std::str::from_utf8(message).ok()?).err()?;
    let answer: Answer<'_> = serde_json::from_slice(message).ok()?;
    let is_data = memchr::memmem::find(message, DATA).is_some();
    if !is_data && serde_json::from_slice::<Value>(message).is_ok() {
        return None;
    }
    let error = json!({"code": -32603, "message": why.to_string(), "data": {MALFORMED: true}});
    Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}\n", answer.id).into_bytes())
}

fn has_field(message: &[u8]) -> bool {
    memchr::memmem::find(message, FIELD).is_some()
}

fn mark(message: &[u8]) -> Option<Vec<u8>> {
    let mut parsed: Value = serde_json::from_slice(message).ok()?;
    let tools = parsed.pointer_mut("/result/tools")?.as_array_mut()?;
    for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
        let support = tool.get("execution").and_then(|execution| execution.get("taskSupport"));
        if support.and_then(Value::as_str) == Some("required") {
            let meta = tool.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
            meta.as_object_mut()?.insert(MARK.to_owned(), Value::Bool(true));
        }
    }
    let mut marked = serde_json::to_vec(&parsed).ok()?;
    marked.push(b'\n');
    Some(marked)
}

/// A stream of rewritten lines.
pub(super) struct RewrittenLines<R> {
    inner: R,
    max_bytes: usize,
    /// The beginning of a line.
    line: Vec<u8>,
    /// The line is longer than `max_bytes` and is passed on as it is.
    is_long: bool,
    ready: Vec<u8>,
    passed: usize,
}

impl<R> RewrittenLines<R> {
    /// Wraps a stream. Lines longer than `max_bytes` are not read.
    pub(super) fn new(inner: R, max_bytes: usize) -> Self {
        Self { inner, max_bytes, line: Vec::new(), is_long: false, ready: Vec::new(), passed: 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = part.ends_with(b"\n");
            if self.is_long {
                self.ready.extend_from_slice(part);
                self.is_long = !ends;
                continue;
            }
            self.line.extend_from_slice(part);
            if ends {
                self.ready.extend_from_slice(&rewritten(&self.line));
                self.line.clear();
            } else if self.line.len() > self.max_bytes {
                self.ready.append(&mut self.line);
                self.is_long = true;
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for RewrittenLines<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.passed == this.ready.len() {
            (this.ready, this.passed) = (Vec::new(), 0);
            let mut bytes = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                if this.line.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                this.ready = std::mem::take(&mut this.line);
            } else {
                this.take(read.filled());
            }
        }
        let left = &this.ready[this.passed..];
        let passed = left.len().min(into.remaining());
        into.put_slice(&left[..passed]);
        this.passed += passed;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tokio::io::AsyncReadExt as _;

    const LIST: &str = r#"{"id":1,"result":{"tools":[{"name":"a","execution":{"taskSupport":"required"}},{"name":"b","execution":{"taskSupport":"optional"},"_meta":{"x":1}}]}}"#;

    #[tokio::test]
    async fn tools_that_require_a_task_are_marked_and_everything_else_stays() {
        let long = "x".repeat(300);
        let other = r#"{"id":2,"result":{"content":[{"type":"text","text":"\"taskSupport\""}]}}"#;
        let text = format!("{other}\n{LIST}\n{long}\nlast");
        let mut read = String::new();
        RewrittenLines::new(text.as_bytes(), 200).read_to_string(&mut read).await.unwrap();
        let lines: Vec<&str> = read.lines().collect();
        assert_eq!((lines[0], lines[2], lines[3]), (other, &*long, "last"));
        let listed: Value = serde_json::from_str(lines[1]).unwrap();
        assert_eq!(listed["result"]["tools"][0]["_meta"][MARK], true);
        assert_eq!(listed["result"]["tools"][1]["_meta"], serde_json::json!({"x": 1}));
    }

    #[test]
    fn an_answer_with_a_number_that_cannot_be_kept_becomes_an_error() {
        let answer = |member: &str| format!(r#"{{"jsonrpc":"2.0","id":"7","result":{{{member}}}}}"#);
        for member in [
            r#""content":[],"structuredContent":{"x":1e400}"#,
            r#""content":[],"structuredContent":{"x":123456789012345678901234567890}"#,
            r#""content":[],"_meta":{"x":-1e999}"#,
        ] {
            let error: Value = serde_json::from_slice(&rewritten(answer(member).as_bytes())).unwrap();
            assert_eq!(error["id"], "7");
            assert!(is_malformed(&serde_json::from_value(error["error"].clone()).unwrap()), "{member}");
        }
        for member in [
            r#""content":[],"structuredContent":{"x":[0.1,18446744073709551615,"1e400"]}"#,
            r#""tools":[{"inputSchema":{"maximum":123456789012345678901234567890}}]"#,
        ] {
            let answer = answer(member);
            assert!(matches!(rewritten(answer.as_bytes()), Cow::Borrowed(_)), "{member}");
        }
    }
}
