//! A registry that answers whatever a test wants, byte by byte.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A request that the registry saw.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The query, which follows the `?`; empty if there is none.
    pub(crate) query: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: String,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Body,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    Bytes(Vec<u8>),
    /// Fewer bytes than the header declares; then the connection is closed.
    Declared(Vec<u8>, u64),
    /// Without a length, and without an end.
    Endless,
    /// A byte from time to time, without an end.
    Drip,
}

impl Answer {
    pub(crate) fn ok(media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::status(200).with("content-type", media_type).body(Body::Bytes(body.into()))
    }

    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Body::Bytes(Vec::new()) }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self::status(307).with("location", to)
    }
}

type Respond = dyn Fn(&Seen) -> Answer + Send + Sync;

/// A server on this machine.
pub(crate) struct Server {
    pub(crate) host: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub(crate) async fn start(respond: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, respond)
    }

    pub(crate) fn on(
        listener: TcpListener,
        respond: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let host = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, respond): (_, Arc<Respond>) = (Arc::clone(&seen), Arc::new(respond));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&log), Arc::clone(&respond)));
            }
        });
        Self { host, seen }
    }

    /// Serves by TLS, with this certificate and key.
    pub(crate) async fn secure(
        tls: tokio_rustls::TlsAcceptor,
        respond: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, respond): (_, Arc<Respond>) = (Arc::clone(&seen), Arc::new(respond));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, log, respond) = (tls.clone(), Arc::clone(&log), Arc::clone(&respond));
                tokio::spawn(async move {
                    // A client that does not trust the certificate ends the connection here.
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, log, respond).await;
                    }
                });
            }
        });
        Self { host, seen }
    }

    /// Serves these answers by path, and 404 for everything else.
    pub(crate) async fn with(answers: BTreeMap<String, Answer>) -> Self {
        Self::start(move |seen| answers.get(&seen.path).cloned().unwrap_or_else(|| Answer::status(404))).await
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    log: Arc<Mutex<Vec<Seen>>>,
    respond: Arc<Respond>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |wanted: &str| {
        let named = head.lines().filter_map(|line| line.split_once(": "));
        let mut named = named.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        named.next().map(|(_, value)| value.to_owned())
    };
    let length = header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    if stream.read_exact(&mut body).await.is_err() {
        return;
    }
    let seen = Seen {
        method: head.split(' ').next().unwrap().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        authorization: header("authorization"),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    log.lock().unwrap().push(seen.clone());
    let answer = respond(&seen);
    // The client may have had enough at any time.
    let _ = write(&mut stream, answer).await;
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), answer: Answer) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match &answer.body {
        Body::Bytes(body) => head.push_str(&format!("content-length: {}\r\n", body.len())),
        Body::Declared(_, declared) => head.push_str(&format!("content-length: {declared}\r\n")),
        Body::Endless | Body::Drip => {}
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    match answer.body {
        Body::Bytes(body) | Body::Declared(body, _) => stream.write_all(&body).await?,
        Body::Endless => loop {
            stream.write_all(&[b' '; 64 << 10]).await?;
        },
        Body::Drip => loop {
            stream.write_all(b" ").await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        },
    }
    stream.shutdown().await
}
