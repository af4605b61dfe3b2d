//! Streams that read files. All bytes that they return count as bytes that cross the boundary.

use crate::admission::Charge;
use crate::instance::files::background::{Background, BackgroundJob};
use crate::meter::Boundary;
use bytes::{Bytes, BytesMut};
use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use wasmtime_wasi::p2::{InputStream, Pollable, StreamError, StreamResult};

/// The maximum result of one read.
pub(super) const MAX_READ_BYTES: usize = 64 * 1024;
/// The maximum read ahead. A guest may have as many streams as handles, and their buffers are the
/// host's memory.
pub(super) const AHEAD_BYTES: usize = 4 * 1024;

/// A stream that reads a file from a given position.
pub(super) struct FileReader {
    file: Arc<File>,
    position: u64,
    state: ReadState,
    background: Background,
    boundary: Boundary,
    /// The stream's memory.
    _held: Option<Charge>,
}

enum ReadState {
    Idle,
    Reading(BackgroundJob<Bytes>),
    Read(Bytes),
    Failed(io::Error),
    Closed,
}

impl FileReader {
    pub(super) fn new(
        file: Arc<File>,
        position: u64,
        background: Background,
        boundary: Boundary,
        held: Option<Charge>,
    ) -> Self {
        Self { file, position, state: ReadState::Idle, background, boundary, _held: held }
    }

    fn start(&mut self, bytes: usize) {
        let (file, position) = (Arc::clone(&self.file), self.position);
        self.state = ReadState::Reading(self.background.start(move || read(&file, position, bytes)));
    }

    /// Waits for the read in progress, if there is one.
    async fn finish(&mut self) {
        if let ReadState::Reading(job) = &mut self.state {
            self.state = match job.await {
                Ok(bytes) if bytes.is_empty() => ReadState::Closed,
                Ok(bytes) => ReadState::Read(bytes),
                Err(why) => ReadState::Failed(why),
            };
        }
    }
}

/// Reads up to this many bytes; an empty result means the end of the file.
pub(super) fn read(file: &File, position: u64, bytes: usize) -> io::Result<Bytes> {
    let mut buffer = BytesMut::zeroed(bytes.min(MAX_READ_BYTES));
    loop {
        match file.read_at(&mut buffer, position) {
            Ok(read) => {
                buffer.truncate(read);
                return Ok(buffer.freeze());
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

#[wasmtime_wasi::async_trait]
impl InputStream for FileReader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 && !matches!(self.state, ReadState::Failed(_) | ReadState::Closed) {
            return Ok(Bytes::new());
        }
        match mem::replace(&mut self.state, ReadState::Closed) {
            ReadState::Idle => {
                self.start(size.min(AHEAD_BYTES));
                Ok(Bytes::new())
            }
            ReadState::Read(mut bytes) => {
                let given = bytes.split_to(bytes.len().min(size));
                self.position += given.len() as u64;
                self.state = if bytes.is_empty() { ReadState::Idle } else { ReadState::Read(bytes) };
                self.boundary.enter(given.len() as u64).map_err(|stop| StreamError::Trap(stop.into()))?;
                Ok(given)
            }
            reading @ ReadState::Reading(_) => {
                self.state = reading;
                Ok(Bytes::new())
            }
            ReadState::Failed(why) => Err(StreamError::LastOperationFailed(why.into())),
            ReadState::Closed => Err(StreamError::Closed),
        }
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.finish().await;
        if matches!(self.state, ReadState::Idle) && size > 0 {
            // The guest takes all of it at once, so nothing is buffered.
            self.start(size);
            self.finish().await;
        }
        self.read(size)
    }

    async fn cancel(&mut self) {
        self.finish().await;
        self.state = ReadState::Closed;
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for FileReader {
    async fn ready(&mut self) {
        if matches!(self.state, ReadState::Idle) {
            self.start(AHEAD_BYTES);
        }
        self.finish().await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::limits::Limits;

    fn reader(content: &[u8], boundary_bytes: u64) -> FileReader {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, content).unwrap();
        let limits = Limits { boundary_bytes, ..Limits::default() };
        let boundary = Boundary::new(&limits, Arc::default());
        FileReader::new(Arc::new(File::open(path).unwrap()), 0, Background::new(), boundary, None)
    }

    #[tokio::test]
    async fn z5_a_stream_reads_little_ahead() {
        let content: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut reader = reader(&content, 1 << 20);
        let mut read = Vec::new();
        loop {
            match reader.read(usize::MAX) {
                Ok(bytes) => read.extend_from_slice(&bytes),
                Err(StreamError::Closed) => break,
                Err(why) => panic!("{why}"),
            }
            reader.ready().await;
            if let ReadState::Read(bytes) = &reader.state {
                assert!(bytes.len() <= AHEAD_BYTES, "{} bytes are held", bytes.len());
            }
        }
        assert!(read == content);
    }

    #[tokio::test]
    async fn z5_bytes_count_when_they_are_given_out_however_that_is() {
        for skips in [true, false] {
            let mut reader = reader(&[7; 200_000], 100_000);
            let give = async |reader: &mut FileReader| match skips {
                true => reader.blocking_skip(60_000).await,
                false => reader.blocking_read(60_000).await.map(|bytes| bytes.len()),
            };
            assert_eq!(give(&mut reader).await.unwrap(), 60_000);
            assert!(matches!(give(&mut reader).await, Err(StreamError::Trap(_))));
        }
    }
}
