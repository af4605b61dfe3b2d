//! Secrets on their way out, and what comes back.

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
