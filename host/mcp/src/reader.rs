//! Lines of an untrusted stream. Each line is read whole, up to a limit; longer lines are skipped
//! without being stored.

use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// The maximum size of a message in bytes. Arguments of that size are far larger than a model
/// writes, and parsing takes a multiple of it in memory.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// A reader of lines. Dropping a read loses nothing: the next one continues from there.
pub(super) struct Lines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// The line was too long, and its end has not been seen yet.
    skipping: bool,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadResult {
    /// A whole line without its end. Blank lines are skipped.
    Line(Vec<u8>),
    /// A line was longer than [`MAX_MESSAGE_BYTES`]; nothing of it is kept.
    TooLong,
    /// The stream ended.
    End,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(read: R) -> Self {
        Self { read: BufReader::with_capacity(64 * 1024, read), line: Vec::new(), skipping: false }
    }

    /// Returns the underlying stream.
    pub(super) fn stream(&self) -> &R {
        self.read.get_ref()
    }

    /// Reads the next line.
    pub(super) async fn next(&mut self) -> io::Result<ReadResult> {
        loop {
            let available = self.read.fill_buf().await?;
            if available.is_empty() {
                return Ok(match std::mem::take(&mut self.line) {
                    // The last line may lack a line end.
                    line if !self.skipping && !is_blank(&line) => ReadResult::Line(line),
                    _ => ReadResult::End,
                });
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(available.len());
            let fits = self.line.len() + taken <= MAX_MESSAGE_BYTES;
            if fits && !self.skipping {
                self.line.extend_from_slice(&available[..taken]);
            }
            self.read.consume(end.map_or(taken, |end| end + 1));
            let was_skipping = self.skipping;
            self.skipping = (was_skipping || !fits) && end.is_none();
            if !fits && !was_skipping {
                self.line = Vec::new();
                return Ok(ReadResult::TooLong);
            }
            if end.is_some() && !was_skipping && !is_blank(&self.line) {
                return Ok(ReadResult::Line(std::mem::take(&mut self.line)));
            }
            if end.is_some() {
                self.line.clear();
            }
        }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    async fn read_all(input: &[u8]) -> Vec<ReadResult> {
        let mut lines = Lines::new(input);
        let mut all = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                ReadResult::End => return all,
                read => all.push(read),
            }
        }
    }

    fn line(text: &str) -> ReadResult {
        ReadResult::Line(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_are_whole_and_blank_ones_are_passed_over() {
        assert_eq!(read_all(b"one\n\r\n  \ntwo\nthree").await, [line("one"), line("two"), line("three")]);
        assert_eq!(read_all(b"").await, []);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_told_once() {
        let mut input = vec![b'x'; MAX_MESSAGE_BYTES + 100_000];
        input.extend_from_slice(b"\nnext\n");
        assert_eq!(read_all(&input).await, [ReadResult::TooLong, line("next")]);
        let mut fits = vec![b'x'; MAX_MESSAGE_BYTES];
        fits.extend_from_slice(b"\nnext");
        let read = read_all(&fits).await;
        assert!(matches!(&read[0], ReadResult::Line(line) if line.len() == MAX_MESSAGE_BYTES));
        assert_eq!(read[1], line("next"));
        let endless = vec![b'x'; MAX_MESSAGE_BYTES * 2];
        assert_eq!(read_all(&endless).await, [ReadResult::TooLong]);
    }
}
