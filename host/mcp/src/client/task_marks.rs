//! Marks tools that only run as tasks. The protocol's library drops the field that says so, so the
//! list is read before the library reads it.

use rmcp::model::Tool as Listed;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// The field of a tool that tells how it relates to tasks.
const FIELD: &[u8] = b"\"taskSupport\"";
/// The key of the mark in a tool's metadata.
const MARK: &str = "tollgate/requires-task";
/// The number of bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// Returns whether the tool was marked: its server only runs it as a task.
pub(super) fn requires_task(tool: &Listed) -> bool {
    tool.meta.as_ref().is_some_and(|meta| meta.contains_key(MARK))
}

/// Returns the message with marks, or as it is if no tool in it requires a task.
pub(super) fn marked(message: &[u8]) -> Cow<'_, [u8]> {
    match has_field(message).then(|| mark(message)).flatten() {
        Some(marked) => Cow::Owned(marked),
        None => Cow::Borrowed(message),
    }
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

/// A stream of lines with marks.
pub(super) struct MarkedLines<R> {
    inner: R,
    max_bytes: usize,
    /// The beginning of a line.
    line: Vec<u8>,
    /// The line is longer than `max_bytes` and is passed on as it is.
    is_long: bool,
    ready: Vec<u8>,
    passed: usize,
}

impl<R> MarkedLines<R> {
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
                self.ready.extend_from_slice(&marked(&self.line));
                self.line.clear();
            } else if self.line.len() > self.max_bytes {
                self.ready.append(&mut self.line);
                self.is_long = true;
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MarkedLines<R> {
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
        MarkedLines::new(text.as_bytes(), 200).read_to_string(&mut read).await.unwrap();
        let lines: Vec<&str> = read.lines().collect();
        assert_eq!((lines[0], lines[2], lines[3]), (other, &*long, "last"));
        let listed: Value = serde_json::from_str(lines[1]).unwrap();
        assert_eq!(listed["result"]["tools"][0]["_meta"][MARK], true);
        assert_eq!(listed["result"]["tools"][1]["_meta"], serde_json::json!({"x": 1}));
    }
}
