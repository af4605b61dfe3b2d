//! Secrets in requests, and their redaction in responses.

use super::server::{self, Answer, Server};
use super::*;

const SECRET: &str = "correct horse battery";

fn with_secret(server: &Server, also: &str) -> Net {
    let secret = Secret::new(server.url("").parse().unwrap(), "authorization", "Bearer ", SECRET).unwrap();
    Net::new(HttpGrant::new(egress(&[&server.url("/"), also], &[])).with_secrets(vec![secret]))
}

#[tokio::test]
async fn a_secret_goes_to_its_host_alone_and_does_not_come_back() {
    let elsewhere = Server::start(Answer::Echo).await;
    let server = Server::start(Answer::Echo).await;
    let net = with_secret(&server, &elsewhere.url("/"));
    let (_, headers, body) = net.get(&server.url("/")).await.result.unwrap();
    assert!(server.heads()[0].contains(&format!("authorization: Bearer {SECRET}\r\n")));
    let body = String::from_utf8(body.unwrap()).unwrap();
    let blanked = format!("Bearer {}\r\n", "*".repeat(SECRET.len()));
    assert!(body.contains(&blanked) && !body.contains("horse"), "{body}");
    assert!(!format!("{headers:?}").contains("horse"), "{headers:?}");
    assert!(net.get(&elsewhere.url("/")).await.result.is_ok());
    assert!(!elsewhere.heads()[0].contains("horse"));
}

#[tokio::test]
async fn a_secret_that_comes_in_chunks_is_blanked() {
    let pieces: Vec<Vec<u8>> = format!("x{SECRET}y").bytes().map(|byte| server::chunk(&[byte])).collect();
    let server = Server::start(Answer::Chunks(pieces)).await;
    let text = with_secret(&server, "https://none.test").get(&server.url("/")).await.text();
    assert_eq!(text, format!("x{}y", "*".repeat(SECRET.len())));
}

#[tokio::test]
async fn a_response_that_could_not_be_blanked_is_refused() {
    for coding in [
        "content-encoding: gzip",
        "content-encoding: identity\r\ncontent-encoding: gzip",
        "content-encoding: identity, gzip",
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{coding}\r\ncontent-length: 1\r\n\r\nx");
        let server = Server::start(Answer::Bytes(head.into_bytes())).await;
        let net = with_secret(&server, "https://none.test");
        let came = net.send(http::Request::get(server.url("/")).header("accept-encoding", "gzip"), "").await;
        assert_eq!(came.error(), Error::HttpResponseContentCoding(None).to_string(), "{coding}");
        assert!(server.heads()[0].contains("accept-encoding: identity\r\n"));
    }
}

#[tokio::test]
async fn z13_a_guest_does_not_choose_a_part_of_a_response_with_a_secret() {
    for part in [
        "206 Partial Content\r\ncontent-type: text/plain",
        "200 OK\r\ncontent-range: bytes 7-8/100",
        "200 OK\r\ncontent-type: Multipart/ByteRanges; boundary=x",
    ] {
        let head = format!("HTTP/1.1 {part}\r\ncontent-length: 2\r\n\r\nho");
        let server = Server::start(Answer::Bytes(head.into_bytes())).await;
        let net = with_secret(&server, "https://none.test");
        let request = http::Request::get(server.url("/"))
            .header("range", "bytes=7-8")
            .header("if-range", "\"tag\"")
            .header("Request-Range", "bytes=7-8")
            .header("X_Range", "bytes=7-8")
            .header("x-http-method-override", "TRACE");
        let came = net.send(request, "").await;
        assert_eq!(came.error(), Error::HttpProtocolError.to_string(), "{part}");
        assert!(came.ledger.denied()[0].contains("partial response"), "{:?}", came.ledger.denied());
        let sent = server.heads()[0].to_ascii_lowercase();
        assert!(!sent.contains("range") && !sent.contains("override"), "{sent}");
    }
}

#[tokio::test]
async fn z13_without_a_secret_ranges_go_through_and_overrides_do_not() {
    let head = b"HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 0-1/9\r\ncontent-length: 2\r\n\r\nok";
    let server = Server::start(Answer::Bytes(head.to_vec())).await;
    let request =
        http::Request::get(server.url("/")).header("range", "bytes=0-1").header("X-HTTP-Method", "DELETE");
    assert_eq!(Net::granting(&[&server.url("/")], &[]).send(request, "").await.text(), "ok");
    let sent = server.heads()[0].to_ascii_lowercase();
    assert!(sent.contains("range: bytes=0-1\r\n") && !sent.contains("delete"), "{sent}");
}

#[tokio::test]
async fn z13_a_secret_in_another_encoding_and_in_chunks_is_blanked() {
    let written = r"<CORRECT%20h\u006frse&#x20;%42attery>";
    let pieces: Vec<Vec<u8>> = written.bytes().map(|byte| server::chunk(&[byte])).collect();
    let server = Server::start(Answer::Chunks(pieces)).await;
    let text = with_secret(&server, "https://none.test").get(&server.url("/")).await.text();
    assert_eq!(text, format!("<{}>", "*".repeat(written.len() - 2)));
}
