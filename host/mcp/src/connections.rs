//! HTTP connections of clients. Their number is limited, and an idle client cannot hold one
//! indefinitely. If all places are taken, connections that have shown no credential make room first,
//! then idle ones of a principal that has more than half of the places, then the one that has been
//! idle for longest. A connection whose client does not read its answer closes.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// How long a connection may take until its first request with the token.
const FIRST_REQUEST: Duration = Duration::from_secs(30);
/// The minimum time for which a connection is kept alive for the next request.
const NEXT_REQUEST: Duration = Duration::from_secs(120);
/// How often to check for a connection that can make room. Connections that are about to end
/// leave within this time, so only one that has shown no credential closes sooner.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A connection that was accepted or had a request within this time does not make room, unless a
/// client waits for long.
const RECENT: Duration = Duration::from_secs(1);
/// After this many looks, any idle connection makes room.
const RECENT_LOOKS: u32 = 50;
/// After this many looks, new connections are a flood, and one that has sent no request for as long
/// makes room.
const FLOOD_LOOKS: u32 = 5;
/// How long a connection that must close may take before another one must.
const LEAVES: Duration = Duration::from_secs(1);
/// How often the log names the reason why no connection can be accepted.
const WARN: Duration = Duration::from_secs(60);
/// The maximum length of a request on a connection that has shown no credential, in bytes. A head can be six
/// times as long, and is in memory as a whole.
const MAX_UNKNOWN_BYTES: usize = 64 * 1024;
/// How long the client may take to read before a write continues.
const WRITE_STALL: Duration = Duration::from_secs(30);

/// Returns how many connections the process serves: this many, but at most a quarter of its limit
/// on open files. Calls and the images of components have a quarter each, and the store needs the
/// rest. Logs a warning if there are fewer than asked for.
#[must_use]
pub fn connections_within(asked: usize) -> usize {
    #[cfg(unix)]
    if let Some(files) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        return quarter_of(files, asked);
    }
    asked
}

fn quarter_of(files: u64, asked: usize) -> usize {
    let most = usize::try_from(files / 4).unwrap_or(usize::MAX).max(1);
    if most < asked {
        tracing::warn!(
            "serving at most {most} connections instead of {asked}, because this process may open {files} files; \
             raise that limit with `ulimit -n {}`",
            asked.saturating_mul(4)
        );
    }
    asked.min(most)
}

/// A listener that accepts only as many connections as there are places. If all are taken, it waits
/// for a connection to end or closes one that serves no request.
pub struct LimitedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    /// The number of places.
    all: usize,
    /// From oldest to newest.
    accepted: VecDeque<Weak<Activity>>,
    /// When the log last named the reason why no connection can be accepted.
    warned: Option<Instant>,
}

impl LimitedListener {
    /// Creates a listener with this number of places.
    #[must_use]
    pub fn new(listener: TcpListener, connections: usize) -> Self {
        let all = connections.min(Semaphore::MAX_PERMITS);
        Self { listener, places: Arc::new(Semaphore::new(all)), all, accepted: VecDeque::new(), warned: None }
    }

    /// Accepts the next connection of the system. If the process has no descriptor for it, closes
    /// another one.
    async fn accept_stream(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let why = match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(why) => why,
            };
            let is_of_client = matches!(
                why.kind(),
                io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::ConnectionReset
            );
            if is_of_client {
                continue;
            }
            if self.warned.is_none_or(|at| at.elapsed() >= WARN) {
                self.warned = Some(Instant::now());
                tracing::warn!("no connection can be accepted ({why}); closing idle ones");
            }
            self.closable(RECENT_LOOKS).iter().for_each(|activity| activity.turned_out.cancel());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits for a place. It checks repeatedly which connection can be closed, because one may
    /// become idle.
    async fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        let mut looks = 0;
        loop {
            let close = self.closable(looks);
            close.iter().for_each(|activity| activity.turned_out.cancel());
            let wait = if close.is_empty() { POLL_INTERVAL } else { LEAVES };
            if let Ok(place) = tokio::time::timeout(wait, Arc::clone(&self.places).acquire_owned()).await {
                return place.ok();
            }
            looks += 1;
        }
    }

    /// Returns the connections to close for a client that waits, after this many looks. Looks are
    /// counted instead of time, so that a busy server has seen which connections have ended.
    fn closable(&self, looks: u32) -> Vec<Arc<Activity>> {
        let open = self.accepted.iter().filter_map(Weak::upgrade);
        let open: Vec<_> = open.filter(|activity| !activity.turned_out.is_cancelled()).collect();
        // Several at once, so that each of many waiting clients does not wait for as long.
        let most = if looks == 0 { 1 } else { self.all / 4 + 1 };
        let silent_for = if looks < FLOOD_LOOKS { RECENT } else { POLL_INTERVAL * FLOOD_LOOKS };
        let silent = open.iter().filter(|activity| !activity.is_known() && activity.idle() >= silent_for);
        let silent: Vec<_> = silent.take(most).cloned().collect();
        if !silent.is_empty() || looks == 0 {
            return silent;
        }
        let mut idle: Vec<_> =
            open.iter().filter(|activity| activity.is_known() && !activity.is_serving()).collect();
        // Cached, because connections are used meanwhile.
        idle.sort_by_cached_key(|activity| Reverse(activity.idle()));
        if let Some((principal, excess)) = self.excess(&open) {
            let of_principal =
                idle.iter().filter(|activity| activity.principal().as_ref() == Some(&principal));
            let close: Vec<_> =
                of_principal.take(most.min(excess)).map(|activity| Arc::clone(activity)).collect();
            if !close.is_empty() {
                return close;
            }
        }
        let longest = idle.first().filter(|activity| activity.idle() >= RECENT || looks >= RECENT_LOOKS);
        let close = longest
            .copied()
            .or_else(|| open.iter().find(|activity| !activity.is_known() && looks >= RECENT_LOOKS));
        close.into_iter().cloned().collect()
    }

    /// Returns the principal that has more than half of the places, and how many more.
    fn excess(&self, open: &[Arc<Activity>]) -> Option<(Arc<str>, usize)> {
        let mut of_principals = HashMap::<Arc<str>, usize>::new();
        for principal in open.iter().filter_map(|activity| activity.principal()) {
            *of_principals.entry(principal).or_default() += 1;
        }
        let half = self.all.div_ceil(2);
        let (principal, places) = of_principals.into_iter().find(|(_, places)| *places > half)?;
        Some((principal, places - half))
    }
}

impl Listener for LimitedListener {
    type Io = Connection<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        let (stream, address) = self.accept_stream().await;
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
    /// The number of its requests with a credential.
    requests: AtomicUsize,
    /// The number of those that have arrived and are not answered yet.
    serving: AtomicUsize,
    last: Mutex<LastUse>,
    /// Cancelled when its place is needed.
    turned_out: CancellationToken,
}

/// The last use of a connection.
#[derive(Debug)]
struct LastUse {
    /// When the connection began, or its last request with a credential began or ended.
    at: Instant,
    /// The principal of its last request; `None` if the server has a single credential.
    principal: Option<Arc<str>>,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            requests: AtomicUsize::new(0),
            serving: AtomicUsize::new(0),
            last: Mutex::new(LastUse { at: Instant::now(), principal: None }),
            turned_out: CancellationToken::new(),
        }
    }
}

impl Activity {
    /// Returns whether it has shown a credential.
    fn is_known(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Relaxed) > 0
    }

    fn last(&self) -> MutexGuard<'_, LastUse> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long ago it was used.
    fn idle(&self) -> Duration {
        self.last().at.elapsed()
    }

    fn principal(&self) -> Option<Arc<str>> {
        self.last().principal.clone()
    }

    fn is_used(&self) {
        self.last().at = Instant::now();
    }
}

/// The connection on which a request arrived.
#[derive(Debug, Clone)]
pub struct ClientConnection {
    activity: Arc<Activity>,
    peer: SocketAddr,
}

impl ClientConnection {
    /// Records that a request with a valid credential has begun to arrive. `principal` is the one
    /// that the credential belongs to; `None` if the server has a single credential.
    pub fn authenticated(&self, principal: Option<&str>) {
        self.activity.requests.fetch_add(1, Ordering::Relaxed);
        let mut last = self.activity.last();
        last.at = Instant::now();
        if last.principal.as_deref() != principal {
            last.principal = principal.map(Arc::from);
        }
    }

    /// Keeps the connection from making room for others until the returned guard is dropped. Call
    /// this once the whole request has arrived: a client can delay its own body for as long as it
    /// is allowed to.
    #[must_use]
    pub fn serve(&self) -> RequestInProgress {
        self.activity.serving.fetch_add(1, Ordering::Relaxed);
        self.activity.is_used();
        RequestInProgress(Arc::clone(&self.activity))
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

/// A request on a connection that has arrived and is not answered yet.
#[derive(Debug)]
pub struct RequestInProgress(Arc<Activity>);

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.0.is_used();
        self.0.serving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that closes when its client sends no requests or does not read.
pub struct Connection<S> {
    stream: S,
    activity: Arc<Activity>,
    /// Whether the server has begun to read.
    began: bool,
    /// The number of bytes read since the last answer, as long as no credential was shown.
    unknown_bytes: usize,
    /// When it is checked next, and the number of its requests at the last check.
    look: Pin<Box<Sleep>>,
    requests: usize,
    /// When a write that waits for the client fails; `None` if none waits.
    stalls: Option<Pin<Box<Sleep>>>,
    turned_out: Pin<Box<WaitForCancellationFutureOwned>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<S> Connection<S> {
    fn new(stream: S, place: Option<OwnedSemaphorePermit>) -> Self {
        let activity = Arc::<Activity>::default();
        let turned_out = Box::pin(activity.turned_out.clone().cancelled_owned());
        let look = Box::pin(tokio::time::sleep(FIRST_REQUEST));
        Self {
            stream,
            activity,
            began: false,
            unknown_bytes: 0,
            look,
            requests: 0,
            stalls: None,
            turned_out,
            _place: place,
        }
    }

    /// Checks whether the connection must close.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.look.as_mut().poll(cx).is_ready() {
            let requests = self.activity.requests.load(Ordering::Relaxed);
            if requests == self.requests && !self.activity.is_serving() {
                return Poll::Ready(());
            }
            self.requests = requests;
            self.look.as_mut().reset(Instant::now() + NEXT_REQUEST);
        }
        self.turned_out.as_mut().poll(cx)
    }

    /// Fails a write that has waited for too long for the client to read.
    fn poll_stall<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalls = None;
            return written;
        }
        let stalls = self.stalls.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_STALL)));
        stalls.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.began {
            // A busy server begins some time after it has accepted.
            self.began = true;
            self.activity.is_used();
        }
        if self.poll_over(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = into.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, into));
        if !self.activity.is_known() {
            self.unknown_bytes += into.filled().len() - before;
            if self.unknown_bytes > MAX_UNKNOWN_BYTES {
                // With an error, nothing counts as read.
                into.set_filled(before);
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.unknown_bytes = 0;
        let written = Pin::new(&mut self.stream).poll_write(cx, from);
        self.poll_stall(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.unknown_bytes = 0;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, from);
        self.poll_stall(cx, written)
    }

    /// If this is true, hyper writes bodies from where they are instead of copying them first.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.poll_stall(cx, flushed)
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

    #[tokio::test]
    async fn h5_little_is_read_of_a_connection_that_shows_no_credential() {
        for is_known in [false, true] {
            let (mut sender, server) = tokio::io::duplex(1 << 20);
            let mut connection = Connection::new(server, None);
            if is_known {
                client(&connection).authenticated(None);
            }
            sender.write_all(&vec![b'x'; 2 * MAX_UNKNOWN_BYTES]).await.unwrap();
            drop(sender);
            let mut read = Vec::new();
            let ended = connection.read_to_end(&mut read).await;
            assert_eq!(ended.ok(), is_known.then_some(2 * MAX_UNKNOWN_BYTES));
        }
    }

    /// Pages before signing in have no credential, and a proxy sends those of many people on one connection.
    #[tokio::test]
    async fn many_short_requests_without_a_credential_are_read() {
        let (mut sender, server) = tokio::io::duplex(1 << 20);
        let mut connection = Connection::new(server, None);
        for _ in 0..4 {
            sender.write_all(&vec![b'x'; MAX_UNKNOWN_BYTES]).await.unwrap();
            connection.read_exact(&mut vec![0; MAX_UNKNOWN_BYTES]).await.unwrap();
            connection.write_all(b"answer").await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_request_under_way_is_kept_and_ends_some_time_after_it() {
        let (_client, server) = tokio::io::duplex(64);
        let mut connection = Connection::new(server, None);
        client(&connection).authenticated(None);
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
        let mut bounded = LimitedListener::new(listener, 1);
        let _first = TcpStream::connect(address).await.unwrap();
        let (mut connection, _) = bounded.accept().await;
        client(&connection).authenticated(None);
        let serving = client(&connection).serve();
        let _second = TcpStream::connect(address).await.unwrap();
        let mut accepts = std::pin::pin!(bounded.accept());
        let served = tokio::time::timeout(3 * POLL_INTERVAL, &mut accepts).await;
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

    #[tokio::test(start_paused = true)]
    async fn a_write_that_no_client_reads_fails_and_one_that_is_read_slowly_does_not() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut connection = Connection::new(server, None);
        let began = Instant::now();
        let slow = async {
            for _ in 0..10 {
                tokio::time::sleep(WRITE_STALL - Duration::from_secs(1)).await;
                client.read_exact(&mut [0; 64]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(connection.write_all(&[0; 640]), slow);
        written.unwrap();
        connection.write_all(&[0; 64]).await.unwrap();
        let read = began.elapsed();
        let failed = connection.write_all(&[0; 64]).await.unwrap_err();
        let waited = (began.elapsed() - read).as_secs();
        assert_eq!((failed.kind(), waited), (io::ErrorKind::TimedOut, WRITE_STALL.as_secs()));
    }

    /// Connects and accepts; the client is authenticated unless it has no name.
    async fn accepted(
        listener: &mut LimitedListener,
        principal: Option<&str>,
    ) -> (TcpStream, Connection<TcpStream>) {
        let address = listener.listener.local_addr().unwrap();
        let (ours, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let connection = accepted.0;
        if principal.is_some() {
            client(&connection).authenticated(principal);
        }
        (ours.unwrap(), connection)
    }

    #[test]
    fn l4_connections_are_at_most_a_quarter_of_the_open_files() {
        assert_eq!((quarter_of(20_000, 256), quarter_of(64, 256), quarter_of(2, 256)), (256, 16, 1));
    }

    /// Makes a connection look as if it was used this long ago.
    fn age<S>(connection: &Connection<S>, by: Duration) {
        connection.activity.last().at -= by;
    }

    #[tokio::test(start_paused = true)]
    async fn h5_a_new_connection_is_spared_and_h4_a_principal_with_more_than_half_makes_room_first() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut bounded = LimitedListener::new(listener, 4);
        let (_a, ada) = accepted(&mut bounded, Some("ada")).await;
        let (_n, new) = accepted(&mut bounded, None).await;
        let (_b, bob) = accepted(&mut bounded, Some("bob")).await;
        let (_c, other) = accepted(&mut bounded, Some("bob")).await;
        let closes = |listener: &LimitedListener, looks: u32, connection: &Connection<TcpStream>| {
            let close = listener.closable(looks);
            close.len() == 1 && Arc::ptr_eq(&close[0], &connection.activity)
        };
        assert!(bounded.closable(1).is_empty(), "all of them are recent");
        assert!(closes(&bounded, RECENT_LOOKS, &ada), "a client has waited for long");
        age(&bob, RECENT);
        assert!(bounded.closable(0).is_empty(), "it may be about to end");
        assert!(closes(&bounded, 1, &bob));
        age(&new, RECENT / 2);
        assert!(closes(&bounded, FLOOD_LOOKS, &new), "many new connections wait");
        age(&new, RECENT / 2);
        assert!(closes(&bounded, 0, &new), "it has shown no credential");
        client(&new).authenticated(Some("bob"));
        age(&ada, 3 * RECENT);
        assert!(closes(&bounded, 1, &bob), "bob has three of four places");
        let serving = [&bob, &other, &new].map(|connection| client(connection).serve());
        assert!(closes(&bounded, 1, &ada), "the others are being served");
        drop(serving);
    }
}
