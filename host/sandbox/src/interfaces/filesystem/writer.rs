//! Writing to files. The cost of a write is taken from the quota before anything is written.

use crate::admission::Charge;
use crate::instance::files::background::{Background, BackgroundJob};
use crate::instance::files::quota::{Room, cost};
use bytes::Bytes;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// The maximum that a stream accepts at once. A guest may have as many streams as handles, and
/// their unwritten data is the host's memory.
pub(super) const CHUNK_BYTES: usize = 4 * 1024;

/// The position of a write.
#[derive(Debug, Clone, Copy)]
pub(super) enum WritePosition {
    /// At this byte.
    Byte(u64),
    /// At the end of the file at the time of writing.
    End,
}

/// A file, and the room that writes to it use.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) file: Arc<File>,
    pub(super) room: Option<Room>,
}

impl Target {
    /// Writes all of the bytes. Blocks.
    pub(super) fn write(&self, bytes: &[u8], at: WritePosition) -> io::Result<()> {
        self.take(bytes.len() as u64, at)?;
        let mut left = bytes;
        let mut written = 0;
        while !left.is_empty() {
            let wrote = match at {
                WritePosition::Byte(start) => self.file.write_at(left, start.saturating_add(written)),
                WritePosition::End => append(&self.file, left),
            };
            match wrote {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    left = &left[count..];
                    written += count as u64;
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Sets the file's length. Blocks.
    pub(super) fn set_size(&self, bytes: u64) -> io::Result<()> {
        let found = self.file.metadata()?;
        let price = cost(0, bytes.saturating_sub(found.len()));
        let room = self.room.as_ref().map(|room| room.of_file(&found));
        if room.as_ref().is_some_and(|room| !room.take(price)) {
            return Err(Errno::NOSPC.into());
        }
        let set = self.file.set_len(bytes);
        if let (Some(room), Err(_)) = (room, &set) {
            room.give_back(price);
        }
        set
    }

    /// Takes the room that a write needs.
    fn take(&self, length: u64, at: WritePosition) -> io::Result<()> {
        let Some(room) = &self.room else { return Ok(()) };
        let found = self.file.metadata()?;
        let growth = match at {
            _ if length == 0 => 0,
            WritePosition::End => length,
            WritePosition::Byte(start) => start.saturating_add(length).saturating_sub(found.len()),
        };
        match room.of_file(&found).take(cost(length, growth)) {
            true => Ok(()),
            // As if the disk were full.
            false => Err(Errno::NOSPC.into()),
        }
    }
}

#[cfg(target_os = "linux")]
fn append(file: &File, bytes: &[u8]) -> io::Result<usize> {
    use rustix::io::{ReadWriteFlags, pwritev2};
    let parts = [io::IoSlice::new(bytes)];
    Ok(pwritev2(file, &parts, 0, ReadWriteFlags::APPEND)?)
}

#[cfg(not(target_os = "linux"))]
fn append(file: &File, bytes: &[u8]) -> io::Result<usize> {
    file.write_at(bytes, file.metadata()?.len())
}

/// A stream that writes to a file.
pub(super) struct FileWriter {
    target: Target,
    at: WritePosition,
    state: WriteState,
    background: Background,
    /// The stream's memory.
    _held: Option<Charge>,
}

enum WriteState {
    Idle,
    Writing(BackgroundJob<usize>),
    Failed(io::Error),
    Closed,
}

impl FileWriter {
    pub(super) fn new(
        target: Target,
        at: WritePosition,
        background: Background,
        held: Option<Charge>,
    ) -> Self {
        Self { target, at, state: WriteState::Idle, background, _held: held }
    }

    fn start(&mut self, bytes: Bytes) {
        let (target, at) = (self.target.clone(), self.at);
        self.state = WriteState::Writing(
            self.background.start(move || target.write(&bytes, at).map(|()| bytes.len())),
        );
    }

    /// Waits for the write in progress, if there is one.
    async fn finish(&mut self) {
        if let WriteState::Writing(job) = &mut self.state {
            self.state = match job.await {
                Ok(written) => {
                    if let WritePosition::Byte(at) = &mut self.at {
                        *at += written as u64;
                    }
                    WriteState::Idle
                }
                Err(why) => WriteState::Failed(why),
            };
        }
    }

    /// Returns the result of earlier writes. After a failure the stream is closed.
    fn check(&mut self) -> StreamResult<()> {
        match mem::replace(&mut self.state, WriteState::Closed) {
            WriteState::Failed(why) => Err(StreamError::LastOperationFailed(why.into())),
            WriteState::Closed => Err(StreamError::Closed),
            other => {
                self.state = other;
                Ok(())
            }
        }
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for FileWriter {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        match self.state {
            // Accepting more than the announced size would cost the host memory.
            WriteState::Idle if bytes.len() <= CHUNK_BYTES => {
                self.start(bytes);
                Ok(())
            }
            WriteState::Closed => Err(StreamError::Closed),
            WriteState::Idle | WriteState::Writing(_) | WriteState::Failed(_) => {
                Err(StreamError::trap("the guest wrote more than check-write permitted"))
            }
        }
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.finish().await;
        self.check()?;
        self.start(bytes);
        self.finish().await;
        self.check()
    }

    fn flush(&mut self) -> StreamResult<()> {
        // Nothing is buffered, so only failures remain to be reported.
        self.check()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.check()?;
        Ok(if matches!(self.state, WriteState::Idle) { CHUNK_BYTES } else { 0 })
    }

    async fn cancel(&mut self) {
        self.finish().await;
        self.state = WriteState::Closed;
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for FileWriter {
    async fn ready(&mut self) {
        self.finish().await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn writer() -> (tempfile::NamedTempFile, FileWriter) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let target = Target { file: Arc::new(file.reopen().unwrap()), room: None };
        (file, FileWriter::new(target, WritePosition::Byte(0), Background::new(), None))
    }

    #[tokio::test]
    async fn what_is_written_piece_by_piece_is_all_there() {
        let (file, mut writer) = writer();
        let content: Vec<u8> = (0..5_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut left = Bytes::from(content.clone());
        while !left.is_empty() {
            let may = writer.check_write().unwrap();
            assert!(may <= CHUNK_BYTES);
            if may > 0 {
                writer.write(left.split_to(may.min(left.len()))).unwrap();
            }
            writer.ready().await;
        }
        writer.flush().unwrap();
        assert!(std::fs::read(file.path()).unwrap() == content);
    }

    #[tokio::test]
    async fn z5_a_stream_takes_no_more_than_it_said() {
        let (_file, mut writer) = writer();
        let large = Bytes::from(vec![0; CHUNK_BYTES + 1]);
        assert!(matches!(writer.write(large), Err(StreamError::Trap(_))));
        writer.write(Bytes::from_static(b"one")).unwrap();
        assert!(matches!(writer.write(Bytes::from_static(b"two")), Err(StreamError::Trap(_))));
    }
}
