//! The server on standard input and output: one client, until its input ends.

use super::server::{Calls, Server};
use super::tool_list::ToolList;
use super::transport::{Input, StdioTransport};
use super::writer::Output;
use futures::FutureExt;
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tollgate::Host;
use tollgate_agent::text::clean;

/// Serves one client over standard input and output until its input ends. Calls in flight are
/// cancelled after a short delay.
///
/// Nothing else may write to standard output meanwhile.
///
/// # Errors
/// The client's first messages did not start a session. A client that never sends a request is
/// not an error.
pub async fn serve_stdio(host: Host, offer: ToolList) -> io::Result<()> {
    serve_stdio_until(host, offer, CancellationToken::new()).await
}

/// Like [`serve_stdio`], until `stop` is cancelled. Then calls in flight are cancelled, and the
/// function returns once their ends are recorded.
///
/// # Errors
/// Same as [`serve_stdio`].
pub async fn serve_stdio_until(host: Host, offer: ToolList, stop: CancellationToken) -> io::Result<()> {
    let gone = stop.child_token();
    let (read, output) = streams();
    let wire = StdioTransport::new(read, output, gone.clone(), host.memory_budget().clone());
    let calls = Calls::until(gone.clone());
    let server = Server::new(host, offer, wire.room(), calls.clone());
    let served = match serve_server_with_ct(server, wire, gone.clone()).await {
        Ok(serving) => {
            let _ = serving.waiting().await;
            Ok(())
        }
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(e) => {
            let why = clean(&e.to_string(), 500);
            let words = format!("no session was started: {why}; a client must send `initialize` first");
            Err(io::Error::new(io::ErrorKind::InvalidData, words))
        }
    };
    gone.cancel();
    calls.ended().await;
    served
}

/// Returns standard input and output, without a thread for each if the system allows it: clients
/// pass pipes or sockets.
fn streams() -> (StandardInput, Output) {
    let read = open_input().unwrap_or_else(|_| StandardInput::Other(tokio::io::stdin()));
    let output = open_output().unwrap_or_else(|_| Output::Other(Mutex::new(tokio::io::stdout())));
    (read, output)
}

fn open_input() -> io::Result<StandardInput> {
    // Reopened, because setting the original to non-blocking would affect all processes that
    // share it.
    if let Ok(pipe) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
        return Ok(StandardInput::Pipe(pipe));
    }
    Ok(StandardInput::Socket(socket(&io::stdin())?))
}

fn open_output() -> io::Result<Output> {
    if let Ok(pipe) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
        return Ok(Output::Pipe(pipe));
    }
    Ok(Output::Socket(socket(&io::stdout())?))
}

fn socket(stream: &impl AsFd) -> io::Result<UnixStream> {
    let file = File::from(stream.as_fd().try_clone_to_owned()?);
    if !file.metadata()?.file_type().is_socket() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let socket = std::os::unix::net::UnixStream::from(OwnedFd::from(file));
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

enum StandardInput {
    Pipe(pipe::Receiver),
    Socket(UnixStream),
    Other(tokio::io::Stdin),
}

impl Input for StandardInput {
    fn is_left(&self) -> bool {
        let readable = Interest::READABLE;
        let ready = match self {
            Self::Pipe(pipe) => pipe.ready(readable).now_or_never(),
            Self::Socket(socket) => socket.ready(readable).now_or_never(),
            Self::Other(_) => None,
        };
        ready.is_some_and(|ready| ready.is_ok_and(|ready| ready.is_read_closed()))
    }
}

impl AsyncRead for StandardInput {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, into),
            Self::Socket(socket) => Pin::new(socket).poll_read(cx, into),
            Self::Other(stdin) => Pin::new(stdin).poll_read(cx, into),
        }
    }
}
