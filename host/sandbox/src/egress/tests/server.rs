//! A server of a test's own: it takes one request a connection and answers as it is
//! told, well or not.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What the server does with a request.
#[derive(Clone)]
pub(super) enum Answer {
    /// Sends these bytes and closes.
    Bytes(Vec<u8>),
    /// Sends these chunks, each by itself.
    Chunks(Vec<Vec<u8>>),
    /// Sends the first, and the second for ever.
    Endless(Vec<u8>, Vec<u8>),
    /// Sends these bytes and holds the connection open.
    Stalls(Vec<u8>),
    /// Sends the request's head back, as a header too.
    Echo,
    /// Sends these bytes before it is asked.
    Greets(Vec<u8>),
    /// Says nothing.
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
}

impl Server {
    pub(super) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answer.clone(), Arc::clone(&kept)));
            }
        });
        Self { address, heads }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The heads of the requests so far, with what followed in the same piece.
    pub(super) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// One piece of a chunked body.
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
    let mut request = Vec::new();
    let mut buffer = [0; 4_096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(read) => request.extend_from_slice(&buffer[..read]),
        }
    }
    let head = String::from_utf8_lossy(&request).into_owned();
    if head.contains(" HTTP/1.1\r\n") {
        heads.lock().unwrap().push(head.clone());
    }
    // A client that has read enough closes, and that is no failure here.
    let _ = answer_with(&mut stream, answer, &head).await;
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
