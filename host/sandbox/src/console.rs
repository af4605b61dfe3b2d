//! Standard output and standard error of a guest: kept up to a limit, counted beyond it, and
//! never connected to the host's own streams.

use crate::attempt::Console;
use crate::meter::Boundary;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// The maximum size of one write; the guest writes the rest in further calls.
const CHUNK_BYTES: usize = 64 * 1024;

/// The guest's end of the stream. Clones append to the same text.
#[derive(Clone)]
pub(crate) struct Capture {
    kept: Arc<Mutex<CapturedText>>,
    boundary: Boundary,
}

struct CapturedText {
    bytes: Vec<u8>,
    dropped_bytes: u64,
    limit: u64,
}

impl Capture {
    pub(crate) fn new(limit: u64, boundary: Boundary) -> Self {
        let kept = CapturedText { bytes: Vec::new(), dropped_bytes: 0, limit };
        Self { kept: Arc::new(Mutex::new(kept)), boundary }
    }

    /// Returns the written text, made safe to print.
    pub(crate) fn finish(&self) -> Console {
        let kept = self.lock();
        Console { text: printable(&String::from_utf8_lossy(&kept.bytes)), dropped_bytes: kept.dropped_bytes }
    }

    fn keep(&self, bytes: &[u8]) -> StreamResult<()> {
        self.boundary.leave(bytes.len() as u64).map_err(|stop| StreamError::Trap(stop.into()))?;
        let mut kept = self.lock();
        let room = kept.limit.saturating_sub(kept.bytes.len() as u64);
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        kept.bytes.extend_from_slice(&bytes[..fits]);
        kept.dropped_bytes += (bytes.len() - fits) as u64;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, CapturedText> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IsTerminal for Capture {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Capture {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Capture {
    async fn ready(&mut self) {}
}

impl OutputStream for Capture {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.keep(&bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK_BYTES)
    }
}

impl AsyncWrite for Capture {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(self.keep(bytes).map(|()| bytes.len()).map_err(std::io::Error::other))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Removes terminal escapes and other non-printing characters.
fn printable(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_until(&mut rest, is_final_byte),
            _ => plain.push(c),
        }
    }
    tollgate_agent::text::clean(&plain, usize::MAX)
}

/// Skips the rest of an escape sequence: a control sequence, a string (a title, a link, a
/// clipboard), or a single character.
fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next() {
        Some('[') => skip_until(rest, is_final_byte),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_until(rest, |c| matches!(c, '\u{7}' | '\u{1b}' | '\u{9c}')),
        Some(c) if (' '..='/').contains(&c) => skip_until(rest, |c| !(' '..='/').contains(&c)),
        _ => {}
    }
}

fn skip_until(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, is_last: impl Fn(char) -> bool) {
    while let Some(c) = rest.next() {
        if c == '\n' {
            // No sequence spans lines, so an unterminated one cannot hide further text.
            return;
        }
        if is_last(c) {
            // A string ends with an escape and a backslash, or with a bell.
            if c == '\u{1b}' {
                rest.next_if_eq(&'\\');
            }
            return;
        }
    }
}

fn is_final_byte(c: char) -> bool {
    ('@'..='~').contains(&c)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::limits::Limits;

    #[test]
    fn what_is_over_the_bound_is_counted() {
        let mut capture = Capture::new(4, Boundary::new(&Limits::default(), Arc::default()));
        capture.clone().write("abc".into()).unwrap();
        capture.write("def".into()).unwrap();
        assert_eq!(capture.finish(), Console { text: "abcd".into(), dropped_bytes: 2 });
    }

    #[test]
    fn a_flood_ends_the_call() {
        let limits = Limits { boundary_bytes: 4, ..Limits::default() };
        let mut capture = Capture::new(100, Boundary::new(&limits, Arc::default()));
        assert!(matches!(capture.write("abcdef".into()), Err(StreamError::Trap(_))));
    }

    #[test]
    fn terminal_escapes_are_removed() {
        for (written, shown) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("\u{1b}(Bplain\u{1b}7", "plain"),
            ("\u{9b}2Jx", "x"),
            ("\u{1b}]52;c;never ended\nnext", "next"),
            ("a\rb\u{8}\u{202e}c\ttab\n", "abc\ttab\n"),
        ] {
            assert_eq!(printable(written), shown, "{written:?}");
        }
    }
}
