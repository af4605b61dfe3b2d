//! The output of a server's process besides its messages, as far as it explains why the server
//! does not start.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::task::JoinHandle;
use tollgate_agent::text::one_line;

/// The number of bytes kept from the end of its standard error.
const MAX_ERROR_BYTES: usize = 300;
/// The number of bytes kept from the beginning of its standard output.
const MAX_FIRST_BYTES: usize = 100;
/// The maximum number of bytes of standard error read at once, before a pause: a server that
/// writes more has to wait.
const READ_BYTES: usize = 16 * 1024;
const READ_PAUSE: Duration = Duration::from_millis(2);

/// The output of one process.
#[derive(Debug, Default)]
pub(super) struct ProcessOutput {
    first: Mutex<Vec<u8>>,
    errors: Mutex<Errors>,
}

/// The end of a standard error.
#[derive(Debug, Default)]
struct Errors {
    last: VecDeque<u8>,
    is_cut: bool,
}

impl ProcessOutput {
    /// Reads the standard error until it ends, or the task is dropped.
    pub(super) fn read_errors(
        self: &Arc<Self>,
        mut stderr: impl AsyncRead + Send + Unpin + 'static,
    ) -> JoinHandle<()> {
        let output = Arc::clone(self);
        tokio::spawn(async move {
            let mut buffer = vec![0; READ_BYTES];
            while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
                output.errors.lock().unwrap_or_else(PoisonError::into_inner).add(&buffer[..read]);
                tokio::time::sleep(READ_PAUSE).await;
            }
        })
    }

    /// Keeps the beginning of the standard output of a process that ended before all of it was read:
    /// a server that does not read its input may end before the first message is sent to it.
    pub(super) fn read_rest(&self, stdout: OwnedFd) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = vec![0; MAX_FIRST_BYTES.saturating_sub(first.len())];
        // The descriptor does not block.
        let read = File::from(stdout).read(&mut rest).unwrap_or(0);
        first.extend_from_slice(&rest[..read]);
    }

    /// Wraps the standard output, keeping its beginning.
    pub(super) fn first_of<R>(self: &Arc<Self>, stdout: R) -> CapturedOutput<R> {
        CapturedOutput { inner: stdout, output: Arc::clone(self), left: MAX_FIRST_BYTES }
    }

    /// Returns clauses that describe the output. Empty if it explains nothing.
    pub(super) fn shown(&self) -> String {
        let mut shown = String::new();
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        // A message is a JSON object.
        if first.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| *byte != b'{') {
            let first = one_line(&String::from_utf8_lossy(&first), MAX_FIRST_BYTES);
            shown.push_str(&format!("; its output begins with \"{first}\", which is not an MCP message"));
        }
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let last: Vec<u8> = errors.last.iter().copied().collect();
        let last = one_line(String::from_utf8_lossy(&last).trim(), 2 * MAX_ERROR_BYTES);
        if !last.is_empty() {
            let cut = if errors.is_cut { "… " } else { "" };
            shown.push_str(&format!("; its standard error ends with \"{cut}{last}\""));
        }
        shown
    }
}

impl Errors {
    fn add(&mut self, piece: &[u8]) {
        let kept = &piece[piece.len().saturating_sub(MAX_ERROR_BYTES)..];
        let surplus = (self.last.len() + kept.len()).saturating_sub(MAX_ERROR_BYTES);
        self.is_cut |= surplus > 0 || kept.len() < piece.len();
        self.last.drain(..surplus);
        self.last.extend(kept);
    }
}

/// The output of a server's most recently started process.
#[derive(Debug, Default)]
pub(super) struct LatestOutput(Mutex<Option<Arc<ProcessOutput>>>);

impl LatestOutput {
    pub(super) fn set(&self, output: &Arc<ProcessOutput>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(output));
    }

    /// Like [`ProcessOutput::shown`]; empty if no process was started.
    pub(super) fn shown(&self) -> String {
        let output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        output.as_ref().map(|output| output.shown()).unwrap_or_default()
    }
}

/// A standard output whose beginning is kept.
pub(super) struct CapturedOutput<R> {
    inner: R,
    output: Arc<ProcessOutput>,
    left: usize,
}

impl<R: AsyncRead + Unpin> AsyncRead for CapturedOutput<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(cx, into);
        let piece = &into.filled()[before..];
        let kept = &piece[..piece.len().min(this.left)];
        if !kept.is_empty() {
            this.left -= kept.len();
            this.output.first.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(kept);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn l5_the_end_of_an_output_without_end_is_kept() {
        let output = Arc::<ProcessOutput>::default();
        let text = format!("{}\u{1b}[2Jlast\nwords\n", "x".repeat(100_000));
        output.read_errors(io::Cursor::new(text)).await.unwrap();
        let shown = output.shown();
        assert!(shown.ends_with("[2Jlast words\"") && !shown.contains('\u{1b}'), "{shown}");
        assert!(shown.contains("with \"… xxx") && shown.len() < MAX_ERROR_BYTES + 100, "{shown}");
    }

    #[tokio::test]
    async fn l5_only_what_is_no_message_is_shown_of_the_output() {
        for (text, is_shown) in
            [("SSH-2.0-OpenSSH\r\n", true), (" {\"jsonrpc\":\"2.0\"}\n", false), ("", false)]
        {
            let output = Arc::<ProcessOutput>::default();
            let mut read = String::new();
            output.first_of(text.as_bytes()).read_to_string(&mut read).await.unwrap();
            assert_eq!(read, text);
            assert_eq!(output.shown().contains("its output begins with \"SSH-2.0-OpenSSH\""), is_shown);
            assert_eq!(output.shown().is_empty(), !is_shown);
        }
    }
}
