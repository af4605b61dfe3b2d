//! Hostile responses: heads without end, and trailers.

use super::server::{Answer, Server, chunk};
use super::*;

const SECRET: &str = "correct horse battery";

fn with_secret(server: &Server) -> Net {
    let secret = Secret::new(server.url("").parse().unwrap(), "authorization", "Bearer ", SECRET).unwrap();
    Net::new(HttpGrant::new(egress(&[&server.url("/")], &[])).with_secrets(vec![secret]))
}

/// Answers in chunks and then with this trailer.
async fn trailing(trailer: &str) -> Server {
    let end = format!("0\r\n{trailer}\r\n\r\n").into_bytes();
    Server::start(Answer::Chunks(vec![chunk(b"ok"), end])).await
}

/// A trailer arrives after the redaction of the head, so a guest never sees one.
#[tokio::test]
async fn z13_no_trailer_reaches_a_guest() {
    let server = trailing(&format!("x-echo: {SECRET}")).await;
    let net = with_secret(&server);
    let request =
        http::Request::get(server.url("/")).body(Full::default().map_err(Error::from).boxed_unsync());
    let exchange = net.outbound.admit(request.unwrap(), None).unwrap();
    let (response, connection) = exchange.run().await.unwrap();
    let body = response.into_body().collect().await.unwrap();
    assert!(body.trailers().is_none(), "{:?}", body.trailers());
    assert_eq!(body.to_bytes(), "ok");
    drop(connection);
}

#[tokio::test]
async fn z6_trailers_are_bounded() {
    for trailer in ["x: y\r\n".repeat(1_000), format!("x: {}", "y".repeat(1 << 20))] {
        let server = trailing(trailer.trim_end()).await;
        let came = with_secret(&server).get(&server.url("/")).await;
        assert!(matches!(came.result, Ok((_, _, Err(_)))), "{}", came.error());
    }
}

/// Interim responses do not count as an answer.
#[tokio::test]
async fn z6_hints_without_end_are_no_answer() {
    let hint = b"HTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n";
    let server = Server::start(Answer::Endless(hint.to_vec(), hint.to_vec())).await;
    let came = Net::granting(&[&server.url("/")], &[]).impatient().get(&server.url("/")).await;
    assert_eq!(came.error(), Error::ConnectionReadTimeout.to_string());
}

/// A head of many small fields takes more memory than its bytes.
#[tokio::test]
async fn z6_a_head_of_too_many_fields_is_refused() {
    for fields in ["a:b\r\n".repeat(129), format!("a: {}\r\n", "b".repeat(65 * 1024))] {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 2\r\n\r\nok");
        let server = Server::start(Answer::Bytes(head.into_bytes())).await;
        let came = Net::granting(&[&server.url("/")], &[]).get(&server.url("/")).await;
        assert_eq!(came.error(), Error::HttpResponseHeaderSectionSize(None).to_string());
    }
}
