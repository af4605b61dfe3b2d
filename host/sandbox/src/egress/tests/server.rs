//! A test server. It gives one configured response per connection, valid or not, and then keeps
//! reading to detect a smuggled second request.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The server's reaction to a request.
#[derive(Clone)]
pub(super) enum Answer {
    /// Sends these bytes and closes.
    Bytes(Vec<u8>),
    /// Sends these chunks, one at a time.
    Chunks(Vec<Vec<u8>>),
    /// Sends the first, then the second repeatedly without end.
    Endless(Vec<u8>, Vec<u8>),
    /// Sends these bytes and holds the connection open.
    Stalls(Vec<u8>),
    /// Echoes the request's head, in a header too.
    Echo,
    /// Sends these bytes before any request.
    Greets(Vec<u8>),
    /// Sends nothing.
    Silence,
}

impl Answer {
    pub(super) fn text(text: &str) -> Self {
        Self::Bytes(response(text))
    }
}

pub(super) struct Server {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    /// Connections that have not been read to the end.
    open: Arc<AtomicUsize>,
}

impl Server {
    pub(super) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let open: Arc<AtomicUsize> = Arc::default();
        let (kept, counted) = (Arc::clone(&heads), Arc::clone(&open));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Relaxed);
                let (answer, kept, counted) = (answer.clone(), Arc::clone(&kept), Arc::clone(&counted));
                tokio::spawn(async move {
                    serve(stream, answer, kept).await;
                    counted.fetch_sub(1, Relaxed);
                });
            }
        });
        Self { address, heads, open }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the request heads so far.
    pub(super) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Returns all request heads once there is at least one and every connection was read to the
    /// end.
    pub(super) async fn all_heads(&self) -> Vec<String> {
        for _ in 0..1_000 {
            if !self.heads().is_empty() && self.open.load(Relaxed) == 0 {
                return self.heads();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("a connection is still open")
    }
}

/// Returns one chunk of a chunked body.
pub(super) fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn response(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()).into_bytes()
}

async fn serve(mut stream: TcpStream, answer: Answer, heads: Arc<Mutex<Vec<String>>>) {
    if let Answer::Greets(bytes) = &answer {
        let _ = stream.write_all(bytes).await;
    }
    let mut read = Vec::new();
    let head = next_head(&mut stream, &mut read).await;
    note(&heads, &head);
    let rest = length_of_body(&head);
    while read.len() < rest && more(&mut stream, &mut read).await {}
    read.drain(..rest.min(read.len()));
    // A client that has read enough closes the connection; that is not a failure here.
    let _ = answer_with(&mut stream, answer, &head).await;
    loop {
        let head = next_head(&mut stream, &mut read).await;
        if head.is_empty() {
            return;
        }
        note(&heads, &head);
    }
}

fn note(heads: &Mutex<Vec<String>>, head: &str) {
    if head.contains(" HTTP/1.1\r\n") {
        heads.lock().unwrap().push(head.to_owned());
    }
}

/// Takes the next head from the received bytes, or the remainder at the end.
async fn next_head(stream: &mut TcpStream, read: &mut Vec<u8>) -> String {
    let end = loop {
        if let Some(at) = read.windows(4).position(|end| end == b"\r\n\r\n") {
            break at + 4;
        }
        if !more(stream, read).await {
            break read.len();
        }
    };
    let head: Vec<u8> = read.drain(..end).collect();
    String::from_utf8_lossy(&head).into_owned()
}

/// Returns the body length as a server would determine it.
fn length_of_body(head: &str) -> usize {
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length.and_then(|length| length.trim().parse().ok()).unwrap_or(0)
}

async fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> bool {
    matches!(stream.read_buf(read).await, Ok(1..))
}

async fn answer_with(stream: &mut TcpStream, answer: Answer, head: &str) -> std::io::Result<()> {
    match answer {
        Answer::Bytes(bytes) => stream.write_all(&bytes).await?,
        Answer::Chunks(chunks) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
            for chunk in chunks.into_iter().chain([b"0\r\n\r\n".to_vec()]) {
                stream.write_all(&chunk).await?;
                stream.flush().await?;
                tokio::task::yield_now().await;
            }
        }
        Answer::Endless(first, again) => {
            stream.write_all(&first).await?;
            loop {
                stream.write_all(&again).await?;
            }
        }
        Answer::Stalls(bytes) => {
            stream.write_all(&bytes).await?;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        Answer::Echo => {
            let line = head.replace("\r\n", " ");
            let head =
                format!("HTTP/1.1 200 OK\r\nx-echo: {line}\r\ncontent-length: {}\r\n\r\n{head}", head.len());
            stream.write_all(head.as_bytes()).await?;
        }
        Answer::Greets(_) => {}
        Answer::Silence => tokio::time::sleep(Duration::from_secs(60)).await,
    }
    stream.shutdown().await
}
