//! Request bodies, and exchanges in progress.

use super::*;
use futures::StreamExt as _;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Returns a body that arrives piece by piece, and the sender of the pieces.
fn piecemeal() -> (mpsc::UnboundedSender<&'static str>, WasiBody) {
    let (pieces, receiver) = mpsc::unbounded_channel();
    let frames = futures::stream::unfold(receiver, |mut receiver: mpsc::UnboundedReceiver<&str>| async {
        Some((Ok(Frame::data(Bytes::from(receiver.recv().await?))), receiver))
    });
    (pieces, StreamBody::new(frames.boxed()).boxed_unsync())
}

#[tokio::test]
async fn z6_a_body_of_known_length_is_sent_as_it_is_written() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let net = Net::granting(&[&format!("POST {url}")], &[]);
    let (pieces, body) = piecemeal();
    let request = http::Request::post(&url).header("content-length", "10");
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        pieces.send("first").unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"first") {
            assert!(stream.read_buf(&mut read).await.unwrap() > 0);
        }
        // The rest is written only now: the host did not wait for it.
        pieces.send("other").unwrap();
        while !read.ends_with(b"other") {
            assert!(stream.read_buf(&mut read).await.unwrap() > 0);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        String::from_utf8(read).unwrap()
    };
    let both = async { tokio::join!(net.send_body(request, body), server) };
    let (came, read) = tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    assert_eq!(came.text(), "ok");
    assert!(read.contains("content-length: 10\r\n"), "{read}");
}

#[tokio::test]
async fn z6_a_body_that_is_not_as_long_as_announced_is_one_broken_request() {
    for (length, body) in [("3", "helGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"), ("100", "hel")] {
        let server = Server::start(Answer::text("x")).await;
        let net = Net::granting(&[&format!("POST {}", server.url("/"))], &[]);
        let request = http::Request::post(server.url("/")).header("content-length", length);
        let came = net.send(request, body).await;
        assert!(came.error().contains("request body size"), "{length}: {}", came.error());
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(server.heads().iter().all(|head| !head.contains("smuggled")), "{:?}", server.heads());
    }
}

#[tokio::test]
async fn z6_a_body_that_is_announced_as_too_long_is_not_begun() {
    let server = Server::start(Answer::text("x")).await;
    let net = Net::granting(&[&format!("POST {}", server.url("/"))], &[]);
    for (length, error) in [
        ("10001", Error::HttpRequestBodySize(Some(10_000))),
        ("18446744073709551615", Error::HttpRequestBodySize(Some(10_000))),
        ("+5", Error::HttpRequestLengthRequired),
    ] {
        let (_pieces, body) = piecemeal();
        let request = http::Request::post(server.url("/")).header("content-length", length);
        assert_eq!(net.send_body(request, body).await.error(), error.to_string(), "{length}");
    }
    assert!(server.heads().is_empty());
}

/// The server is not blamed for a slow guest, only for not answering.
#[tokio::test]
async fn z6_only_the_server_is_hurried() {
    let server = Server::start(Answer::text("x")).await;
    let net = Net::granting(&[&format!("POST {}", server.url("/"))], &[]).impatient();
    let (pieces, body) = piecemeal();
    let slowly = async {
        for piece in ["he", "llo"] {
            tokio::time::sleep(Duration::from_millis(400)).await;
            pieces.send(piece).unwrap();
        }
    };
    let request = http::Request::post(server.url("/")).header("content-length", "5");
    let (came, ()) = tokio::join!(net.send_body(request, body), slowly);
    assert_eq!(came.text(), "x");
}

#[tokio::test]
async fn z6_a_call_has_so_many_exchanges_in_progress_and_no_more() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec();
    let server = Server::start(Answer::Stalls(half)).await;
    let mut net = Net::granting(&[&server.url("/")], &[]);
    (net.outbound.requests, net.outbound.body_bytes) = (100, 10_000);
    let begin = || {
        let body = Full::new(Bytes::new()).map_err(Error::from).boxed_unsync();
        let request = http::Request::get(server.url("/")).body(body).unwrap();
        net.outbound.admit(request, None).unwrap().run()
    };
    let mut unread = Vec::new();
    for _ in 0..Limits::default().http_exchanges {
        unread.push(begin().await.unwrap());
    }
    let mut waits = Box::pin(begin());
    // The response arrived, but its body was neither read nor dropped.
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut waits).await.is_err());
    assert_eq!(server.heads().len(), unread.len());
    unread.pop();
    assert!(tokio::time::timeout(Duration::from_secs(30), waits).await.unwrap().is_ok());
}
