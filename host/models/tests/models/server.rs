//! A server that sends prepared replies, byte by byte.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures::{StreamExt, stream};
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Serves its replies in order, one for each request, until it is dropped.
pub struct Server {
    pub url: String,
    shared: Arc<Shared>,
    _stop: oneshot::Sender<()>,
}

#[derive(Default)]
struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    seen: Mutex<Vec<Seen>>,
}

/// A client's request.
#[derive(Debug, Clone)]
pub struct Seen {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
}

/// The reply to a client.
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    before: Duration,
    pieces: Vec<Piece>,
}

enum Piece {
    Bytes(Bytes),
    Pause(Duration),
    Cut,
    /// Holds the connection until the client disconnects, and then reports it.
    Hang(oneshot::Sender<()>),
}

impl Server {
    pub async fn new(replies: Vec<Reply>) -> Self {
        let shared = Arc::new(Shared { replies: Mutex::new(replies.into()), ..Shared::default() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let app = Router::new().fallback(respond).with_state(Arc::clone(&shared));
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(async move {
            tokio::select! {
                served = axum::serve(listener, app) => served.unwrap(),
                _ = stopped => {}
            }
        });
        Self { url, shared, _stop: stop }
    }

    /// Returns the requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }
}

impl Reply {
    pub fn ok() -> Self {
        Self::status(200)
    }

    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), before: Duration::ZERO, pieces: Vec::new() }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Waits before it sends anything.
    pub fn after(mut self, ms: u64) -> Self {
        self.before = Duration::from_millis(ms);
        self
    }

    pub fn bytes(mut self, bytes: impl Into<Bytes>) -> Self {
        self.pieces.push(Piece::Bytes(bytes.into()));
        self
    }

    /// Adds one event of a stream.
    pub fn event(self, data: impl std::fmt::Display) -> Self {
        self.bytes(format!("data: {data}\n\n"))
    }

    /// Adds one line of a stream.
    pub fn line(self, data: impl std::fmt::Display) -> Self {
        self.bytes(format!("{data}\n"))
    }

    pub fn pause(mut self, ms: u64) -> Self {
        self.pieces.push(Piece::Pause(Duration::from_millis(ms)));
        self
    }

    /// Breaks the connection.
    pub fn cut(mut self) -> Self {
        self.pieces.push(Piece::Pause(Duration::from_millis(20)));
        self.pieces.push(Piece::Cut);
        self
    }

    pub fn hang(mut self) -> (Self, oneshot::Receiver<()>) {
        let (gone, when_gone) = oneshot::channel();
        self.pieces.push(Piece::Hang(gone));
        (self, when_gone)
    }
}

async fn respond(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    shared.seen.lock().unwrap().push(Seen {
        path: parts.uri.to_string(),
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    });
    let next = shared.replies.lock().unwrap().pop_front();
    let reply = next.unwrap_or_else(|| Reply::status(418).bytes("nothing more was planned"));
    tokio::time::sleep(reply.before).await;
    let mut response = Response::builder().status(StatusCode::from_u16(reply.status).unwrap());
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    let pieces = stream::iter(reply.pieces).then(play).filter_map(async |bytes| bytes);
    response.body(Body::from_stream(pieces)).unwrap()
}

async fn play(piece: Piece) -> Option<io::Result<Bytes>> {
    match piece {
        Piece::Bytes(bytes) => Some(Ok(bytes)),
        Piece::Pause(pause) => {
            tokio::time::sleep(pause).await;
            None
        }
        Piece::Cut => Some(Err(io::Error::other("cut"))),
        Piece::Hang(gone) => {
            // Dropped with the body when the client disconnects.
            let _held = gone;
            std::future::pending().await
        }
    }
}
