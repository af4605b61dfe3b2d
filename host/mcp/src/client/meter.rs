//! Limits on a server's output, on any transport: its rate, and the size of each message. They
//! apply before a message is parsed, because parsing takes many times as much memory.

use super::link::Link;
use super::reserved_keys::ReservedKeys;
use super::weight::{LineWeight, ReplyTooHeavy, VALUE_BYTES};
use crate::reader::MAX_MESSAGE_BYTES;
use bytes::Bytes;
use futures::Stream;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, ReadBuf};
use tollgate_agent::json::MAX_NODES;
use tollgate_sandbox::{MemoryBudget, Reservation};

/// The maximum number of bytes that a server may send per second; more counts as flooding.
pub const MAX_BYTES_PER_SECOND: usize = 64 * 1024 * 1024;

/// The shared meter of all streams of one connection. Clones share the count.
#[derive(Clone)]
pub(super) struct Meter {
    link: Arc<Link>,
    /// The budget from which the memory of messages is reserved.
    budget: MemoryBudget,
    second: Arc<Mutex<(Instant, usize)>>,
}

impl Meter {
    pub(super) fn new(link: Arc<Link>, budget: MemoryBudget) -> Self {
        Self { link, budget, second: Arc::new(Mutex::new((Instant::now(), 0))) }
    }

    /// Counts bytes of a stream; returns whether they are within the rate limit.
    fn is_slow(&self, bytes: usize) -> bool {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        if second.0.elapsed() >= Duration::from_secs(1) {
            *second = (Instant::now(), 0);
        }
        second.1 += bytes;
        second.1 <= MAX_BYTES_PER_SECOND
    }

    /// Meters the output of a server's process, where each line is a message.
    pub(super) fn lines<R>(&self, read: R) -> MeteredStream<R> {
        self.body(read, End::Line)
    }

    /// Meters a body whose messages end in this way.
    pub(super) fn body<S>(&self, stream: S, end: End) -> MeteredStream<S> {
        MeteredStream {
            inner: stream,
            meter: self.clone(),
            message: PartialMessage::new(end),
            line: LineWeight::new(self.budget.clone()),
            memory: None,
        }
    }
}

/// The end of a message in a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At the end of the line.
    Line,
    /// At an empty line, like events.
    EmptyLine,
    /// At the end of the stream.
    Stream,
}

/// The limit that a message exceeds.
#[derive(Debug)]
pub(super) enum Excess {
    Bytes,
    Nodes,
}

/// The part of a message read so far.
pub(super) struct PartialMessage {
    end: End,
    bytes: usize,
    /// The number of its values, counted by the characters that begin the next one.
    pub(super) nodes: usize,
    in_text: bool,
    is_escaped: bool,
    reserved: ReservedKeys,
    line: LineSoFar,
}

impl PartialMessage {
    pub(super) fn new(end: End) -> Self {
        Self {
            end,
            bytes: 0,
            nodes: 1,
            in_text: false,
            is_escaped: false,
            reserved: ReservedKeys::default(),
            line: LineSoFar::Empty,
        }
    }

    /// Reads more of the message, within its limits.
    pub(super) fn read(&mut self, piece: &[u8]) -> Result<(), Excess> {
        let mut rest = piece;
        loop {
            if self.in_text && !self.is_escaped {
                let skipped = memchr::memchr3(b'"', b'\\', b'\n', rest).unwrap_or(rest.len());
                self.bytes += skipped;
                self.nodes += self.reserved.read(&rest[..skipped]);
                rest = &rest[skipped..];
            }
            if self.bytes > MAX_MESSAGE_BYTES {
                return Err(Excess::Bytes);
            }
            if self.nodes > MAX_NODES {
                return Err(Excess::Nodes);
            }
            let Some((byte, after)) = rest.split_first() else { return Ok(()) };
            self.take(*byte);
            rest = after;
        }
    }

    fn take(&mut self, byte: u8) {
        self.bytes += 1;
        match byte {
            b'\n' | b'\r' if self.end != End::Stream => return self.end_line(byte),
            _ if self.is_escaped => {
                self.is_escaped = false;
                self.nodes += self.reserved.read(&[byte]);
            }
            b'\\' if self.in_text => {
                self.is_escaped = true;
                self.nodes += self.reserved.read(&[byte]);
            }
            b'"' => {
                self.in_text = !self.in_text;
                if self.in_text { self.reserved.begin_string() } else { self.reserved.end_string() }
            }
            b',' | b'[' | b'{' if !self.in_text => self.nodes += 1,
            _ => {}
        }
        self.line = LineSoFar::Text;
    }

    /// Ends the current line. A JSON string never continues past it.
    fn end_line(&mut self, byte: u8) {
        // A carriage return and line feed are a single line end.
        if self.line == LineSoFar::AfterReturn && byte == b'\n' {
            self.line = LineSoFar::Empty;
            return;
        }
        (self.in_text, self.is_escaped) = (false, false);
        if self.end == End::Line || self.line != LineSoFar::Text {
            (self.bytes, self.nodes) = (0, 1);
            self.reserved.begin_message();
        }
        self.line = if byte == b'\r' { LineSoFar::AfterReturn } else { LineSoFar::Empty };
    }
}

/// The state of the current line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineSoFar {
    Empty,
    /// Empty, and the last line ended in a carriage return.
    AfterReturn,
    Text,
}

/// A stream that fails when a server exceeds its limits.
pub(super) struct MeteredStream<S> {
    inner: S,
    meter: Meter,
    message: PartialMessage,
    /// The weight of lines, and the memory of any other message.
    line: LineWeight,
    memory: Option<Reservation>,
}

impl<S> MeteredStream<S> {
    /// Counts a piece of the stream.
    ///
    /// # Errors
    /// The server exceeds its limits, and is disconnected.
    fn count(&mut self, piece: &[u8]) -> io::Result<()> {
        if !self.meter.is_slow(piece.len()) {
            return Err(self.floods());
        }
        let weighed = match self.message.read(piece) {
            Err(Excess::Bytes) => return Err(self.floods()),
            Err(Excess::Nodes) => Err(ReplyTooHeavy::Values),
            Ok(()) if self.message.end == End::Line => self.line.add(piece),
            Ok(()) => self.reserve(),
        };
        weighed.map_err(|heavy| {
            self.meter.link.is_too_heavy(heavy);
            io::Error::other("a message of the server is too large")
        })
    }

    fn floods(&self) -> io::Error {
        self.meter.link.record_flooding();
        io::Error::other("the server sends too much")
    }

    fn reserve(&mut self) -> Result<(), ReplyTooHeavy> {
        let needed = 2 * self.message.bytes as u64 + self.message.nodes as u64 * VALUE_BYTES;
        let exhausted = ReplyTooHeavy::Budget(self.meter.budget.limit_places());
        let memory = match &mut self.memory {
            Some(memory) => memory,
            None => self.memory.insert(self.meter.budget.try_reserve(0).ok_or(exhausted)?),
        };
        match needed.checked_sub(memory.bytes()) {
            Some(more) if more > 0 && !memory.try_grow(more) => Err(exhausted),
            Some(_) => Ok(()),
            None => {
                memory.shrink_to(needed);
                Ok(())
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MeteredStream<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(cx, into);
        if let Err(floods) = this.count(&into.filled()[before..]) {
            return Poll::Ready(Err(floods));
        }
        polled
    }
}

impl<S: Stream<Item = reqwest::Result<Bytes>> + Unpin> Stream for MeteredStream<S> {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let next = std::task::ready!(Pin::new(&mut this.inner).poll_next(cx));
        Poll::Ready(next.map(|piece| {
            let piece = piece.map_err(io::Error::other)?;
            this.count(&piece)?;
            Ok(piece)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(end: End, text: &str, times: usize) -> bool {
        let mut message = PartialMessage::new(end);
        (0..times).all(|_| message.read(text.as_bytes()).is_ok())
    }

    #[test]
    fn z15_a_message_is_bounded_in_bytes_and_nodes_and_the_next_begins_anew() {
        assert!(!reads(End::Line, "[0,0,0,0]", 200_000), "nodes");
        assert!(!reads(End::Line, "xxxxxxxxx", 500_000), "bytes");
        assert!(reads(End::Line, "[0,0,0,0]\n", 600_000));
        assert!(reads(End::Stream, "\",\\\",[{\"", 400_000), "within texts");
        assert!(!reads(End::Stream, "[0,\n0]\n\n", 300_000), "a body is one message");
        for end in ["\n\n", "\r\n\r\n", "\r\r"] {
            assert!(reads(End::EmptyLine, &format!("data: [0,0,0,0]{end}"), 300_000), "{end:?}");
        }
        assert!(!reads(End::EmptyLine, "data: [0,0,0]\n", 300_000), "an event ends with an empty line");
    }

    /// The parser reads the string of such a key as JSON, also if lines with other strings are in between.
    #[test]
    fn z3_json_within_the_string_of_a_reserved_key_is_counted() {
        let hidden = "[0,0,0]\\n".repeat(60_000);
        for (key, is_within) in [("text", true), ("$serde_json::private::RawValue", false)] {
            let body = format!("{{\"{key}\":\"{hidden}\"}}");
            assert_eq!(reads(End::Stream, &body, 1), is_within, "{key}");
            let event = format!("data: {{\"{key}\":\nevent: \"x\"\ndata: \"{hidden}\"}}");
            assert_eq!(reads(End::EmptyLine, &event, 1), is_within, "{key}");
        }
    }
}
