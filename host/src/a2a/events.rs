//! A bounded reader of server-sent events.

use super::error::RemoteError;
use super::memory::ArrivalMemory;
use reqwest::Response;

/// The most bytes of one event.
pub(super) const MAX_EVENT_BYTES: usize = 1024 * 1024;
/// The most bytes of one stream.
const MAX_STREAM_BYTES: usize = 64 * 1024 * 1024;

/// After this many events other tasks get their turn. One chunk can hold tens of thousands of them.
const EVENTS_AT_ONCE: usize = 64;

/// The events of a response, one at a time.
pub(super) struct Events {
    response: Response,
    lines: Lines,
    memory: ArrivalMemory,
    read: usize,
    count: usize,
}

impl Events {
    /// Reads the events of a response, which take this memory while they arrive.
    pub(super) fn new(response: Response, memory: ArrivalMemory) -> Self {
        Self { response, lines: Lines::default(), memory, read: 0, count: 0 }
    }

    /// Returns the data of the next event; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, RemoteError> {
        loop {
            if let Some(data) = self.lines.event()? {
                self.count += 1;
                if self.count.is_multiple_of(EVENTS_AT_ONCE) {
                    tokio::task::yield_now().await;
                }
                return Ok(Some(data));
            }
            let Some(chunk) = self.response.chunk().await.map_err(RemoteError::broken)? else {
                return Ok(None);
            };
            self.read = self.read.saturating_add(chunk.len());
            if self.read > MAX_STREAM_BYTES {
                let why = format!("its stream is larger than {MAX_STREAM_BYTES} bytes");
                return Err(RemoteError::malformed(why));
            }
            self.memory.hold(self.lines.held_bytes() + chunk.len())?;
            self.lines.push(&chunk);
        }
    }
}

/// The lines of a stream, as far as they have arrived.
#[derive(Default)]
struct Lines {
    arrived: Vec<u8>,
    /// The bytes of `arrived` that were read as lines.
    taken: usize,
    /// The bytes of `arrived` in which no end of a line was found.
    searched: usize,
    /// The data of the event that is being read.
    data: Vec<u8>,
    has_data: bool,
}

impl Lines {
    /// Returns the bytes of what has arrived and is not returned yet.
    fn held_bytes(&self) -> usize {
        self.arrived.len() - self.taken + self.data.len()
    }

    fn push(&mut self, chunk: &[u8]) {
        // Not after each event: moving the rest takes time, and a chunk may be full of events.
        let taken = std::mem::take(&mut self.taken);
        self.arrived.drain(..taken);
        self.searched = self.searched.saturating_sub(taken);
        self.arrived.extend_from_slice(chunk);
    }

    /// Returns the data of the next whole event; `None` if more bytes are needed.
    fn event(&mut self) -> Result<Option<Vec<u8>>, RemoteError> {
        let mut begin = self.taken;
        let mut whole = None;
        while whole.is_none() {
            let from = begin.max(self.searched);
            let Some(end) = memchr::memchr(b'\n', &self.arrived[from..]).map(|at| from + at) else { break };
            let mut line = &self.arrived[begin..end];
            if let [rest @ .., b'\r'] = line {
                line = rest;
            }
            if line.is_empty() {
                if std::mem::take(&mut self.has_data) {
                    whole = Some(std::mem::take(&mut self.data));
                }
            } else if let Some(data) = line.strip_prefix(b"data:") {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            }
            begin = end + 1;
            self.searched = begin;
        }
        self.taken = begin;
        self.searched = if whole.is_some() { begin } else { self.arrived.len() };
        let line_bytes = if whole.is_some() { 0 } else { self.arrived.len() - begin };
        if self.data.len().max(line_bytes) > MAX_EVENT_BYTES
            || whole.as_ref().is_some_and(|whole| whole.len() > MAX_EVENT_BYTES)
        {
            return Err(RemoteError::malformed(format!("an event is larger than {MAX_EVENT_BYTES} bytes")));
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut events = Vec::new();
        for chunk in chunks {
            lines.push(chunk);
            while let Some(event) = lines.event().unwrap() {
                events.push(String::from_utf8(event).unwrap());
            }
        }
        events
    }

    #[test]
    fn events_are_read_wherever_the_stream_is_cut() {
        let stream =
            b": hi\r\n\r\ndata: one\r\n\r\nid: 1\ndata:two\ndata: three\n\n\n\ndata: four\n\ndata: rest";
        for cut in 0..stream.len() {
            let (one, other) = stream.split_at(cut);
            assert_eq!(read(&[one, other]), ["one", "two\nthree", "four"], "{cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes), ["one", "two\nthree", "four"]);
    }

    /// One chunk with as many events as fit must not be moved for each of them.
    #[test]
    fn a_chunk_that_is_full_of_events_is_read_once() {
        let mut lines = Lines::default();
        let chunk = b"data:{}\n\n".repeat(1_000_000);
        lines.push(&chunk);
        let count = (0..).take_while(|_| lines.event().unwrap().is_some()).count();
        assert_eq!((count, lines.taken), (1_000_000, chunk.len()));
        lines.push(b"data:1\n\n");
        assert_eq!(lines.arrived.len(), 8);
        assert_eq!(lines.event().unwrap().as_deref(), Some(&b"1"[..]));
    }

    #[test]
    fn lines_and_events_without_an_end_are_refused() {
        let mut lines = Lines::default();
        lines.push(&vec![b'a'; MAX_EVENT_BYTES + 1]);
        assert!(lines.event().is_err());
        let mut lines = Lines::default();
        let refused = (0..=MAX_EVENT_BYTES / 512).any(|_| {
            lines.push(format!("data: {}\n", "x".repeat(1024)).as_bytes());
            lines.event().is_err()
        });
        assert!(refused);
    }
}
