//! The server over HTTP: many clients at one address. Each shows the token that the
//! operator gave out; pages of a browser are refused unless their origin is allowed,
//! and so is every name for this machine that is not its own.

use super::lines::MAX_MESSAGE_BYTES;
use super::offer::Offer;
use super::pending::PendingCalls;
use super::server::Server;
use super::wire::{Room, raw_arguments};
use crate::Host;
use crate::metrics::{CONTENT_TYPE, Metrics};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest, Sha256};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The path at which the protocol is spoken.
pub const HTTP_PATH: &str = "/mcp";
/// The path at which there are metrics, for whoever shows the token.
pub const METRICS_PATH: &str = "/metrics";
/// The most connections at once; those beyond wait to be accepted.
const MAX_CONNECTIONS: usize = 256;
/// The most sessions at once; one that nothing is heard of ends after five minutes.
const MAX_SESSIONS: usize = 256;
/// How long a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);

/// Where and to whom the server speaks.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The address to listen at; port 0 takes a free one.
    pub address: SocketAddr,
    /// What every request shows as `Authorization: Bearer TOKEN`.
    pub token: String,
    /// Origins whose pages may speak to the server, such as `https://example.com`.
    pub origins: Vec<String>,
    /// Names by which clients reach this machine, beside those of the loopback.
    pub hosts: Vec<String>,
}

/// A token that nobody can guess.
#[must_use]
pub fn new_token() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// A server that has its address and does not serve yet.
pub struct HttpServer {
    listener: TcpListener,
    options: HttpOptions,
    metrics: Option<Metrics>,
}

impl HttpServer {
    /// Takes the address.
    ///
    /// # Errors
    /// The address cannot be had.
    pub async fn bind(options: HttpOptions) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(options.address).await?, options, metrics: None })
    }

    /// Shows these at [`METRICS_PATH`].
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// The address at which it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is told to stop; calls under way are then cancelled.
    ///
    /// # Errors
    /// The listener broke.
    pub async fn serve(self, host: Host, offer: Offer, stop: CancellationToken) -> io::Result<()> {
        let Self { listener, options, metrics } = self;
        let shown = metrics.map(|metrics| shown_metrics(metrics, host.clone(), &options));
        let mut config = StreamableHttpServerConfig::default()
            .with_cancellation_token(stop.child_token())
            .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
            .with_allowed_origins(options.origins)
            .enforce_origin_validation();
        config.allowed_hosts.extend(options.hosts);
        let sessions = Arc::<LocalSessionManager>::default();
        let (offer, pending) = (Arc::new(offer), Arc::<PendingCalls>::default());
        // Newer clients have no sessions; they share one conversation.
        let shared = offer.thread_id.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
        let new_session = move || {
            let (offer, pending) = (Arc::clone(&offer), Arc::clone(&pending));
            Ok(Server::sharing(host.clone(), offer, pending, Room::default()).without_sessions_on(&shared))
        };
        let service = StreamableHttpService::new(new_session, Arc::clone(&sessions), config);
        let door = Arc::new(Door { token: digest(&options.token), sessions });
        let app = Router::new().nest_service(HTTP_PATH, service).merge(shown.unwrap_or_default());
        let app = app.layer(from_fn_with_state(door, admit));
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let stopped = stop.clone().cancelled_owned();
        tokio::select! {
            served = axum::serve(Bounded { listener, places }, app) => served,
            () = stopped => Ok(()),
        }
    }
}

/// The metrics, for programs; and for pages of the origins that may speak to the server.
fn shown_metrics(metrics: Metrics, host: Host, options: &HttpOptions) -> Router {
    let origins = options.origins.clone();
    let show = async move |request: Request| {
        let mut shown = request.headers().get_all(header::ORIGIN).iter();
        let may = |origin: &HeaderValue| origins.iter().any(|known| known.as_bytes() == origin.as_bytes());
        if !shown.all(may) {
            return (StatusCode::FORBIDDEN, "pages of this origin may not read this").into_response();
        }
        ([(header::CONTENT_TYPE, CONTENT_TYPE)], metrics.text(&host)).into_response()
    };
    Router::new().route(METRICS_PATH, get(show))
}

/// What every request passes before anything else looks at it.
struct Door {
    token: [u8; 32],
    sessions: Arc<LocalSessionManager>,
}

async fn admit(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    if !door.knows(&request) {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"tollgate\"")];
        let words = "the request shows no token, or another; send Authorization: Bearer TOKEN";
        return (StatusCode::UNAUTHORIZED, challenge, words).into_response();
    }
    let begins = request.method() == Method::POST && !request.headers().contains_key("mcp-session-id");
    if begins && door.sessions.sessions.read().await.len() >= MAX_SESSIONS {
        let words = "there are as many sessions as there may be; end one, or try again in some minutes";
        return (StatusCode::SERVICE_UNAVAILABLE, words).into_response();
    }
    let (mut parts, body) = request.into_parts();
    let body = match tokio::time::timeout(ARRIVAL, to_bytes(body, MAX_MESSAGE_BYTES)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let words = format!("the request is longer than {MAX_MESSAGE_BYTES} bytes, or broke off");
            return (StatusCode::PAYLOAD_TOO_LARGE, words).into_response();
        }
        Err(_) => {
            return (StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive").into_response();
        }
    };
    if let Some(arguments) = raw_arguments(&body) {
        parts.extensions.insert(arguments);
    }
    next.run(Request::from_parts(parts, Body::from(body))).await
}

impl Door {
    /// Compares digests, which says nothing about how much of the token is right.
    fn knows(&self, request: &Request) -> bool {
        let mut shown = request.headers().get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (shown.next(), shown.next()) else { return false };
        let token = value.to_str().ok().and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        token.is_some_and(|token| digest(token) == self.token)
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Accepts no more connections than there are places.
struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // Answers are small and awaited.
        let _ = stream.set_nodelay(true);
        (Connection { stream, _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

struct Connection {
    stream: TcpStream,
    _place: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
