//! HTTP connections of clients. Their number is limited, and an idle client cannot hold one
//! indefinitely. Connections that have shown the token stay before those that have not, and busy
//! ones before those kept alive for later.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The maximum number of connections; further ones wait to be accepted.
pub(super) const MAX_CONNECTIONS: usize = 256;
/// How long a connection may take until its first request with the token.
const FIRST_REQUEST: Duration = Duration::from_secs(30);
/// The minimum time for which a connection is kept alive for the next request.
const NEXT_REQUEST: Duration = Duration::from_secs(120);
/// How often to check for a connection that can make room.
const LOOK: Duration = Duration::from_millis(100);
/// How long a connection that must close may take before another one must.
const LEAVES: Duration = Duration::from_secs(1);

/// A listener that accepts only as many connections as there are places. If all are taken, the
/// oldest connection that has not shown the token is closed. If there is none, the one that has
/// been idle for longest without a request in flight is closed.
pub struct LimitedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    /// From oldest to newest.
    accepted: VecDeque<Weak<Activity>>,
}

impl LimitedListener {
    /// Creates a listener with this number of places.
    #[must_use]
    pub fn new(listener: TcpListener, connections: usize) -> Self {
        let places = Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS)));
        Self { listener, places, accepted: VecDeque::new() }
    }

    /// Waits for a place. It checks repeatedly which connection can be closed, because one may
    /// become idle.
    async fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        loop {
            let wait = match self.spared() {
                Some(one) => {
                    one.turned_out.cancel();
                    LEAVES
                }
                None => LOOK,
            };
            if let Ok(place) = tokio::time::timeout(wait, Arc::clone(&self.places).acquire_owned()).await {
                return place.ok();
            }
        }
    }

    /// Returns the connection to close.
    fn spared(&self) -> Option<Arc<Activity>> {
        let open = self.accepted.iter().filter_map(Weak::upgrade);
        let open = open.filter(|activity| !activity.turned_out.is_cancelled());
        open.clone().find(|activity| !activity.is_known()).or_else(|| {
            let idle = open.filter(|activity| activity.serving.load(Ordering::Relaxed) == 0);
            idle.min_by_key(|activity| activity.last())
        })
    }
}

impl Listener for LimitedListener {
    type Io = Connection<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let place = self.place().await;
        // Answers are small, and clients wait for them.
        let _ = stream.set_nodelay(true);
        let connection = Connection::new(stream, place);
        self.accepted.retain(|activity| activity.strong_count() > 0);
        self.accepted.push_back(Arc::downgrade(&connection.activity));
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The activity of a connection.
#[derive(Debug)]
struct Activity {
    /// The number of its requests with the token.
    requests: AtomicUsize,
    /// The number of those in flight.
    serving: AtomicUsize,
    /// When the last of them began or ended.
    last: Mutex<Instant>,
    /// Cancelled when its place is needed.
    turned_out: CancellationToken,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            requests: AtomicUsize::new(0),
            serving: AtomicUsize::new(0),
            last: Mutex::new(Instant::now()),
            turned_out: CancellationToken::new(),
        }
    }
}

impl Activity {
    /// Returns whether it has shown the token.
    fn is_known(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_asked(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// The connection on which a request arrived.
#[derive(Debug, Clone)]
pub struct ClientConnection {
    activity: Arc<Activity>,
    peer: SocketAddr,
}

impl ClientConnection {
    /// Marks a request with the token as in flight until the returned guard is dropped.
    #[must_use]
    pub fn serve(&self) -> Serving {
        self.activity.requests.fetch_add(1, Ordering::Relaxed);
        self.activity.serving.fetch_add(1, Ordering::Relaxed);
        self.activity.is_asked();
        Serving(Arc::clone(&self.activity))
    }

    /// Returns the address of the other end.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }
}

impl Connected<IncomingStream<'_, LimitedListener>> for ClientConnection {
    fn connect_info(stream: IncomingStream<'_, LimitedListener>) -> Self {
        Self { activity: Arc::clone(&stream.io().activity), peer: *stream.remote_addr() }
    }
}

/// A request in flight on a connection.
#[derive(Debug)]
pub struct Serving(Arc<Activity>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.is_asked();
        self.0.serving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that closes when it sends no requests.
pub struct Connection<S> {
    stream: S,
    activity: Arc<Activity>,
    /// When it is checked next, and the number of its requests at the last check.
    look: Pin<Box<Sleep>>,
    requests: usize,
    turned_out: Pin<Box<WaitForCancellationFutureOwned>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<S> Connection<S> {
    fn new(stream: S, place: Option<OwnedSemaphorePermit>) -> Self {
        let activity = Arc::<Activity>::default();
        let turned_out = Box::pin(activity.turned_out.clone().cancelled_owned());
        let look = Box::pin(tokio::time::sleep(FIRST_REQUEST));
        Self { stream, activity, look, requests: 0, turned_out, _place: place }
    }

    /// Checks whether the connection must close.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.look.as_mut().poll(cx).is_ready() {
            let requests = self.activity.requests.load(Ordering::Relaxed);
            if requests == self.requests && self.activity.serving.load(Ordering::Relaxed) == 0 {
                return Poll::Ready(());
            }
            self.requests = requests;
            self.look.as_mut().reset(Instant::now() + NEXT_REQUEST);
        }
        self.turned_out.as_mut().poll(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.poll_over(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn client<S>(connection: &Connection<S>) -> ClientConnection {
        ClientConnection { activity: Arc::clone(&connection.activity), peer: (Ipv4Addr::LOCALHOST, 1).into() }
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_come_to_a_request_is_not_waited_for() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut connection = Connection::new(server, None);
        let began = Instant::now();
        let trickles = async {
            loop {
                tokio::time::sleep(Duration::from_secs(7)).await;
                let _ = client.write_all(b"x").await;
            }
        };
        let reads = async { while connection.read_u8().await.is_ok() {} };
        tokio::select! { () = trickles => {}, () = reads => {} }
        assert_eq!(began.elapsed().as_secs(), FIRST_REQUEST.as_secs(), "what trickles in does not count");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_request_under_way_is_kept_and_ends_some_time_after_it() {
        let (_client, server) = tokio::io::duplex(64);
        let mut connection = Connection::new(server, None);
        let serving = client(&connection).serve();
        let began = Instant::now();
        let hour = Duration::from_secs(3_600);
        assert!(tokio::time::timeout(hour, connection.read_u8()).await.is_err());
        drop(serving);
        assert!(connection.read_u8().await.is_err());
        let idle = began.elapsed() - hour;
        assert!(idle <= 2 * NEXT_REQUEST, "{idle:?}");
    }

    #[tokio::test]
    async fn a_connection_that_becomes_idle_makes_room_for_who_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let places = Arc::new(Semaphore::new(1));
        let mut bounded = LimitedListener { listener, places, accepted: VecDeque::new() };
        let _first = TcpStream::connect(address).await.unwrap();
        let (mut connection, _) = bounded.accept().await;
        let serving = client(&connection).serve();
        let _second = TcpStream::connect(address).await.unwrap();
        let mut accepts = std::pin::pin!(bounded.accept());
        let served = tokio::time::timeout(3 * LOOK, &mut accepts).await;
        assert!(served.is_err(), "who is served is not turned out");
        drop(serving);
        let patience = Duration::from_secs(60);
        tokio::select! {
            _ = &mut accepts => panic!("there was no place yet"),
            read = tokio::time::timeout(patience, connection.read_u8()) => assert!(read.unwrap().is_err()),
        }
        drop(connection);
        tokio::time::timeout(patience, accepts).await.unwrap();
    }
}
