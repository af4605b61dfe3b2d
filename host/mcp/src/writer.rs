//! Messages to a client. They are written directly while the client keeps up, and by a separate
//! task once it does not.

use rmcp::model::ServerJsonRpcMessage;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, Stdout};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The maximum number of unsent bytes for a slow client. Beyond it, nothing more is read from the
/// client.
const MAX_UNSENT_BYTES: usize = 8 * 1024 * 1024;
/// The maximum number of bytes per write.
const WRITTEN_AT_ONCE_BYTES: usize = 64 * 1024;

/// The stream that a client reads.
pub(super) enum Output {
    Pipe(pipe::Sender),
    Socket(UnixStream),
    /// A file, or another stream that needs a thread of its own.
    Other(Mutex<Stdout>),
}

/// Messages in the order in which they were sent.
pub(super) struct MessageWriter {
    output: Arc<Output>,
    queue: Option<mpsc::UnboundedSender<Vec<u8>>>,
    unsent: Arc<UnsentBytes>,
    writing: Option<JoinHandle<()>>,
}

/// The bytes that the client has not taken yet.
#[derive(Default)]
struct UnsentBytes {
    bytes: AtomicUsize,
    sent: Notify,
}

/// The check whether a client reads fast enough for messages that can be dropped.
#[derive(Clone, Default)]
pub(super) struct Backpressure(Option<Arc<UnsentBytes>>);

impl MessageWriter {
    /// Starts the writer; `gone` is cancelled once the client stops reading.
    pub(super) fn start(output: Output, gone: CancellationToken) -> Self {
        let (queue, waiting) = mpsc::unbounded_channel();
        let (output, unsent) = (Arc::new(output), Arc::<UnsentBytes>::default());
        let writing = tokio::spawn(write_out(Arc::clone(&output), waiting, Arc::clone(&unsent), gone));
        Self { output, queue: Some(queue), unsent, writing: Some(writing) }
    }

    /// Sends a message after the earlier ones. A waiting client has it when this returns, without
    /// waking a task or another thread.
    pub(super) fn send(&mut self, message: &ServerJsonRpcMessage) {
        let Some(queue) = &self.queue else { return };
        let Ok(mut line) = serde_json::to_vec(message) else { return };
        line.push(b'\n');
        if self.unsent.bytes() == 0 {
            line.drain(..self.output.write_now(&line));
        }
        if !line.is_empty() {
            self.unsent.bytes.fetch_add(line.len(), Ordering::AcqRel);
            // The writer has ended: the client is gone, and its calls are being ended.
            let _ = queue.send(line);
        }
    }

    /// Returns the handle that reports whether there is room for messages that can be dropped.
    pub(super) fn room(&self) -> Backpressure {
        Backpressure(Some(Arc::clone(&self.unsent)))
    }

    /// Waits until the client has read something.
    pub(super) async fn sent(&self) {
        self.unsent.sent.notified().await;
    }

    /// Writes the remaining messages, for up to `patience`.
    pub(super) async fn close(&mut self, patience: Duration) {
        self.queue = None;
        if let Some(mut writing) = self.writing.take()
            && tokio::time::timeout(patience, &mut writing).await.is_err()
        {
            writing.abort();
        }
    }
}

impl Backpressure {
    pub(super) fn is_there(&self) -> bool {
        self.0.as_ref().is_none_or(|unsent| unsent.bytes() <= MAX_UNSENT_BYTES)
    }
}

impl UnsentBytes {
    /// Returns the number of unsent bytes. Zero also means that nothing is being written.
    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }
}

async fn write_out(
    output: Arc<Output>,
    mut waiting: mpsc::UnboundedReceiver<Vec<u8>>,
    unsent: Arc<UnsentBytes>,
    gone: CancellationToken,
) {
    while let Some(mut lines) = waiting.recv().await {
        while lines.len() < WRITTEN_AT_ONCE_BYTES
            && let Ok(next) = waiting.try_recv()
        {
            lines.extend_from_slice(&next);
        }
        if output.write_all(&lines).await.is_err() {
            gone.cancel();
            return;
        }
        unsent.bytes.fetch_sub(lines.len(), Ordering::AcqRel);
        unsent.sent.notify_waiters();
    }
}

impl Output {
    /// Writes what the stream takes without blocking; returns the number of bytes. An error
    /// occurs again when the rest is written.
    fn write_now(&self, bytes: &[u8]) -> usize {
        self.try_write(bytes).unwrap_or(0)
    }

    async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        if let Self::Other(stdout) = self {
            let mut stdout = stdout.lock().await;
            stdout.write_all(bytes).await?;
            return stdout.flush().await;
        }
        while !bytes.is_empty() {
            self.ready().await?;
            match self.try_write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.try_write(bytes),
            Self::Socket(socket) => socket.try_write(bytes),
            Self::Other(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    async fn ready(&self) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.writable().await,
            Self::Socket(socket) => socket.writable().await,
            Self::Other(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rmcp::model::{ErrorCode, ErrorData, RequestId};
    use std::borrow::Cow;
    use tokio::io::{AsyncBufReadExt, BufReader};

    fn message(id: u32, bytes: usize) -> ServerJsonRpcMessage {
        let words = Cow::Owned("x".repeat(bytes));
        let error = ErrorData { code: ErrorCode(-32000), message: words, data: None };
        ServerJsonRpcMessage::error(error, Some(RequestId::Number(id.into())))
    }

    #[tokio::test]
    async fn messages_stay_in_order_whether_the_client_keeps_up_or_not() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let gone = CancellationToken::new();
        let mut out = MessageWriter::start(Output::Socket(ours), gone.clone());
        let mut lines = BufReader::new(theirs).lines();
        // More than the system buffers for a client that does not read, then small messages.
        for id in 0..100 {
            out.send(&message(id, if id % 10 == 0 { 300_000 } else { 10 }));
        }
        assert!(out.unsent.bytes() > 0 && out.room().is_there());
        for id in 0..100 {
            let line = lines.next_line().await.unwrap().unwrap();
            assert!(
                line.contains(&format!("\"id\":{id},")) || line.contains(&format!("\"id\":{id}}}")),
                "{id}"
            );
        }
        while out.unsent.bytes() > 0 {
            tokio::task::yield_now().await;
        }
        out.send(&message(100, 10));
        assert_eq!(out.unsent.bytes(), 0, "a client that waits is given it at once");
        assert!(lines.next_line().await.unwrap().unwrap().contains("\"id\":100"));
        drop(lines);
        out.send(&message(101, 10));
        gone.cancelled().await;
    }
}
