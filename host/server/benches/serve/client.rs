//! A client that writes its requests by hand, so that both servers face the same one.

use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection that is kept alive.
pub(crate) struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, read: Vec::new() }
    }

    /// Sends a request and returns the status and the body of its answer.
    pub(crate) async fn send(&mut self, request: &[u8]) -> (u16, Vec<u8>) {
        self.stream.write_all(request).await.unwrap();
        let head = self.until(b"\r\n\r\n").await;
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let status = text[9..12].parse().unwrap();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap().trim().parse().unwrap();
        while self.read.len() < length {
            assert!(self.stream.read_buf(&mut self.read).await.unwrap() > 0, "the server closed: {text}");
        }
        let rest = self.read.split_off(length);
        (status, std::mem::replace(&mut self.read, rest))
    }

    /// Writes a request without reading its answer.
    pub(crate) async fn write(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.unwrap();
    }

    /// Returns everything up to and including a mark.
    pub(crate) async fn until(&mut self, mark: &[u8]) -> Vec<u8> {
        let mut searched = 0;
        loop {
            // Comparing the first byte first is several times as fast, and the clients share the
            // machine with the server.
            let is_mark = |window: &[u8]| window[0] == mark[0] && window == mark;
            if let Some(at) = self.read[searched..].windows(mark.len()).position(is_mark) {
                let rest = self.read.split_off(searched + at + mark.len());
                return std::mem::replace(&mut self.read, rest);
            }
            searched = (self.read.len() + 1).saturating_sub(mark.len());
            assert!(self.stream.read_buf(&mut self.read).await.unwrap() > 0, "the server closed");
        }
    }

    /// Reads and drops everything until the server closes the connection.
    pub(crate) async fn discard(mut self) {
        loop {
            self.read.clear();
            if self.stream.read_buf(&mut self.read).await.is_ok_and(|bytes| bytes > 0) {
                continue;
            }
            return;
        }
    }
}

/// Returns a request with a key and an optional JSON body.
pub(crate) fn request(method: &str, path: &str, key: &str, accept: &str, body: Option<&str>) -> Vec<u8> {
    let mut text = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nAccept: {accept}\r\n"
    );
    if let Some(body) = body {
        text.push_str(&format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
    } else {
        text.push_str("\r\n");
    }
    text.into_bytes()
}

/// Returns a runtime for clients, which is not the server's.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
