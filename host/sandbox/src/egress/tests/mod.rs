//! Attacks by hostile guests, servers and names, against the tests' own servers and resolver.

#![allow(clippy::unwrap_used, clippy::panic)]

mod lookups;
mod responses;
mod secrets;
mod server;
mod uploads;

use super::*;
use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use server::{Answer, Server};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::io::AsyncWriteExt as _;

/// A response: its status, its head, and the part of its body that arrived.
type Answered = (u16, http::HeaderMap, Result<Vec<u8>, Error>);

/// A request and its result.
struct Received {
    result: Result<Answered, Error>,
    ledger: Arc<Ledger>,
}

impl Received {
    fn error(&self) -> String {
        match &self.result {
            Err(why) | Ok((_, _, Err(why))) => why.to_string(),
            Ok((status, _, Ok(body))) => format!("{status}: {}", String::from_utf8_lossy(body)),
        }
    }

    fn text(self) -> String {
        let (_, _, body) = self.result.unwrap();
        String::from_utf8(body.unwrap()).unwrap()
    }
}

/// Everything needed to send a request.
struct Net {
    outbound: CallEgress,
    options: Option<RequestOptions>,
}

impl Net {
    fn new(grant: HttpGrant) -> Self {
        let limits = Limits { http_body_bytes: 10_000, http_requests: 3, ..Limits::default() };
        let deadline = Deadline::after(Duration::from_secs(60));
        let boundary = Boundary::new(&limits, Arc::default());
        let outbound = CallEgress::new(Arc::new(grant), &limits, boundary, deadline, Arc::default());
        Self { outbound, options: None }
    }

    fn granting(patterns: &[&str], ranges: &[&str]) -> Self {
        Self::new(HttpGrant::new(egress(patterns, ranges)))
    }

    fn impatient(mut self) -> Self {
        let moment = Some(Duration::from_millis(150));
        self.options = Some(RequestOptions {
            connect_timeout: moment,
            first_byte_timeout: moment,
            between_bytes_timeout: moment,
        });
        self
    }

    async fn get(&self, url: &str) -> Received {
        self.send(http::Request::get(url), "").await
    }

    async fn send(&self, request: http::request::Builder, body: &str) -> Received {
        let body = Full::new(Bytes::from(body.to_owned())).map_err(Error::from).boxed_unsync();
        self.send_body(request, body).await
    }

    async fn send_body(&self, request: http::request::Builder, body: WasiBody) -> Received {
        let result = match self.outbound.admit(request.body(body).unwrap(), self.options) {
            Err(why) => Err(why),
            Ok(exchange) => match exchange.run().await {
                Err(why) => Err(why),
                Ok((response, connection)) => {
                    let (head, body) = response.into_parts();
                    let body = body.collect().await.map(|body| body.to_bytes().to_vec());
                    drop(connection);
                    Ok((head.status.as_u16(), head.headers, body))
                }
            },
        };
        Received { result, ledger: Arc::clone(&self.outbound.ledger) }
    }
}

fn egress(patterns: &[&str], ranges: &[&str]) -> Egress {
    let patterns = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
    Egress::new(patterns, ranges.iter().map(|range| range.parse().unwrap()).collect())
}

/// Names and their addresses; each lookup advances to the next answer.
#[derive(Default)]
struct Names {
    answers: BTreeMap<&'static str, Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Names {
    fn of(name: &'static str, answers: &[&[&str]]) -> Arc<Self> {
        let parse = |addresses: &&[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
        let answers = BTreeMap::from([(name, answers.iter().map(parse).collect())]);
        Arc::new(Self { answers, asked: AtomicUsize::new(0) })
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let asked = self.asked.fetch_add(1, Relaxed);
        let answers = self.answers.get(name).filter(|answers| !answers.is_empty());
        let answer = answers.map(|answers| answers[asked.min(answers.len() - 1)].clone());
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

fn named(names: &Arc<Names>, patterns: &[&str], ranges: &[&str]) -> Net {
    let resolver: Arc<dyn Resolve> = Arc::clone(names) as _;
    Net::new(HttpGrant::new(egress(patterns, ranges)).with_resolver(resolver))
}

#[test]
fn no_step_may_take_longer_than_its_call() {
    let options = RequestOptions { connect_timeout: Some(Duration::from_secs(600)), ..Default::default() };
    let timeouts = StepTimeouts::of(Some(options), Duration::from_secs(2));
    assert_eq!(timeouts.connect, Duration::from_secs(2));
    assert_eq!(timeouts.between_bytes, Duration::from_secs(2));
    let short = RequestOptions { first_byte_timeout: Some(Duration::from_millis(5)), ..Default::default() };
    assert_eq!(StepTimeouts::of(Some(short), Duration::from_secs(2)).first_byte, Duration::from_millis(5));
}

#[tokio::test]
async fn a_granted_request_is_answered_and_another_is_denied() {
    let server = Server::start(Answer::text("hello")).await;
    let net = Net::granting(&[&server.url("/open/")], &[]);
    assert_eq!(net.get(&server.url("/open/x?y=1")).await.text(), "hello");
    let denied = net.get(&server.url("/closed")).await;
    assert_eq!(denied.error(), Error::HttpRequestDenied.to_string());
    assert_eq!(denied.ledger.denied(), [format!("http GET {}", server.url("/closed"))]);
    assert_eq!(denied.ledger.sent(), 1);
    assert_eq!(server.heads().len(), 1);
    assert!(server.heads()[0].starts_with("GET /open/x?y=1 HTTP/1.1\r\n"));
}

#[tokio::test]
async fn more_requests_than_the_limit_are_refused() {
    let server = Server::start(Answer::text("x")).await;
    let net = Net::granting(&[&server.url("/")], &[]);
    for _ in 0..3 {
        assert!(net.get(&server.url("/")).await.result.is_ok());
    }
    let over = net.get(&server.url("/")).await;
    assert_eq!(over.error(), Error::ConnectionLimitReached.to_string());
    assert!(over.ledger.denied()[0].contains("http_requests = 3"));
    assert_eq!(server.heads().len(), 3);
}

#[tokio::test]
async fn addresses_that_are_not_global_are_not_reached_by_a_name() {
    for address in [
        "127.0.0.1",
        "10.0.0.1",
        "192.168.0.1",
        "172.16.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "::1",
        "::",
        "fe80::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::127.0.0.1",
    ] {
        let names = Names::of("rebound.test", &[&[address]]);
        let net = named(&names, &["http://*"], &[]);
        let came = net.get("http://rebound.test/").await;
        assert_eq!(came.error(), Error::DestinationIpProhibited.to_string(), "{address}");
        assert!(came.ledger.denied()[0].contains("would grant it"), "{:?}", came.ledger.denied());
    }
}

#[tokio::test]
async fn other_ways_to_write_an_address_are_refused() {
    let net = Net::granting(&["http://*", "* http://127.0.0.1"], &[]);
    for host in ["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "a@127.0.0.1", "127.0.0.1:0"] {
        let came = net.get(&format!("http://{host}/")).await;
        assert_eq!(came.error(), Error::HttpRequestUriInvalid.to_string(), "{host}");
    }
    for address in ["169.254.169.254", "[::ffff:127.0.0.1]", "[::1]", "10.0.0.1"] {
        let net = Net::granting(&["http://*"], &[]);
        let came = net.get(&format!("http://{address}/")).await;
        assert_eq!(came.error(), Error::DestinationIpProhibited.to_string(), "{address}");
    }
}

#[tokio::test]
async fn a_name_is_resolved_once_and_what_was_looked_at_is_connected_to() {
    let server = Server::start(Answer::text("local")).await;
    let url = format!("http://moving.test:{}/", server.port());
    // The first address is allowed, the second is not.
    let names = Names::of("moving.test", &[&["127.0.0.1"], &["169.254.169.254"]]);
    let net = named(&names, &[&url], &["127.0.0.0/8"]);
    assert_eq!(net.get(&url).await.text(), "local");
    assert_eq!(names.asked.load(Relaxed), 1);
    assert_eq!(net.get(&url).await.error(), Error::DestinationIpProhibited.to_string());
    // Disallowed addresses among several are skipped.
    let names = Names::of("mixed.test", &[&["10.255.255.1", "::1", "127.0.0.1"]]);
    let url = format!("http://mixed.test:{}/", server.port());
    let net = named(&names, &[&url], &["127.0.0.0/8"]);
    assert_eq!(net.get(&url).await.text(), "local");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let inner = Server::start(Answer::text("secret")).await;
    let head = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", inner.url("/"));
    let server = Server::start(Answer::Bytes(head.into_bytes())).await;
    let came = Net::granting(&[&server.url("/")], &[]).get(&server.url("/")).await;
    let (status, headers, _) = came.result.unwrap();
    assert_eq!((status, headers["location"].to_str().unwrap()), (302, inner.url("/").as_str()));
    assert!(inner.heads().is_empty());
}

#[tokio::test]
async fn what_a_guest_writes_about_the_connection_is_not_sent() {
    let server = Server::start(Answer::text("x")).await;
    let net = Net::granting(&[&format!("POST {}", server.url("/"))], &[]);
    let request = http::Request::post(server.url("/"))
        .header("host", "169.254.169.254")
        .header("authorization", "Bearer of-another")
        .header("cookie", "session=1")
        .header("proxy-authorization", "Basic x")
        .header("transfer-encoding", "chunked")
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("x-mine", "kept");
    let body = "helGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    assert_eq!(net.send(request, body).await.text(), "x");
    let heads = server.all_heads().await;
    assert_eq!(heads.len(), 1, "one request was sent as one: {heads:?}");
    let head = heads[0].to_ascii_lowercase();
    for absent in ["authorization", "cookie", "transfer-encoding", "upgrade", "169.254"] {
        assert!(!head.contains(absent), "{absent} in {head}");
    }
    assert!(head.contains(&format!("host: 127.0.0.1:{}", server.port())) && head.contains("x-mine: kept"));
    assert!(head.contains(&format!("content-length: {}\r", body.len())), "{head}");
}

/// Shows that the preceding test could fail.
#[tokio::test]
async fn the_server_of_these_tests_sees_a_request_behind_another() {
    let server = Server::start(Answer::text("x")).await;
    let smuggled = b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nhelGET /smuggled HTTP/1.1\r\n\r\n";
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    stream.write_all(smuggled).await.unwrap();
    drop(stream);
    assert_eq!(server.all_heads().await.len(), 2);
}

#[tokio::test]
async fn bodies_are_bounded_both_ways() {
    let announced = b"HTTP/1.1 200 OK\r\ncontent-length: 10001\r\n\r\n".to_vec();
    for answer in [
        Answer::Bytes(announced),
        Answer::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; 4_000]),
        Answer::Endless(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
            server::chunk(&[b'x'; 999]),
        ),
    ] {
        let server = Server::start(answer).await;
        let came = Net::granting(&[&server.url("/")], &[]).get(&server.url("/")).await;
        assert_eq!(came.error(), Error::HttpResponseBodySize(Some(10_000)).to_string());
    }
    let server = Server::start(Answer::text("x")).await;
    let net = Net::granting(&[&format!("POST {}", server.url("/"))], &[]);
    let came = net.send(http::Request::post(server.url("/")), &"x".repeat(10_001)).await;
    assert_eq!(came.error(), Error::HttpRequestBodySize(Some(10_000)).to_string());
    assert!(server.heads().is_empty());
}

#[tokio::test]
async fn a_call_reads_no_more_than_it_may_in_all() {
    let server = Server::start(Answer::text(&"x".repeat(900))).await;
    let mut net = Net::granting(&[&server.url("/")], &[]);
    net.outbound.boundary =
        Boundary::new(&Limits { boundary_bytes: 1_500, ..Limits::default() }, Arc::default());
    assert!(net.get(&server.url("/")).await.result.unwrap().2.is_ok());
    assert!(net.get(&server.url("/")).await.error().contains("response body size"));
}

#[tokio::test]
async fn a_server_that_dawdles_is_left() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec();
    for (answer, error) in [
        (Answer::Silence, Error::ConnectionReadTimeout),
        (Answer::Stalls(half), Error::ConnectionReadTimeout),
        (Answer::Stalls(b"HTTP/1.1 200 OK\r\nx-never-ended: ".to_vec()), Error::ConnectionReadTimeout),
    ] {
        let server = Server::start(answer).await;
        let came = Net::granting(&[&server.url("/")], &[]).impatient().get(&server.url("/")).await;
        assert_eq!(came.error(), error.to_string());
    }
}

#[tokio::test]
async fn a_head_that_floods_or_contradicts_itself_is_refused() {
    let many: String = (0..1_000).map(|number| format!("x-{number}: y\r\n")).collect();
    let large = format!("x: {}\r\n", "y".repeat(100_000));
    for (head, body) in [
        (many.as_str(), ""),
        (large.as_str(), ""),
        ("content-length: 3\r\ncontent-length: 5\r\n", "hello"),
        ("content-length: 3, 5\r\n", "hello"),
        ("content-length: -1\r\n", "hello"),
        ("content-length: +5\r\n", "hello"),
        ("bad header\r\n", ""),
        ("transfer-encoding: chunked\r\n", "ffffffffffffffffff\r\nx"),
        ("content-length: 500\r\n", "cut off"),
    ] {
        let bytes = format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}").into_bytes();
        let server = Server::start(Answer::Bytes(bytes)).await;
        let came = Net::granting(&[&server.url("/")], &[]).impatient().get(&server.url("/")).await;
        assert!(matches!(came.result, Err(_) | Ok((_, _, Err(_)))), "{head:.60}: {}", came.error());
    }
    for bytes in [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ] {
        let server = Server::start(Answer::Bytes(bytes.as_bytes().to_vec())).await;
        let came = Net::granting(&[&server.url("/")], &[]).impatient().get(&server.url("/")).await;
        assert!(came.result.is_err(), "{bytes}: {}", came.error());
    }
}

#[tokio::test]
async fn nothing_is_decompressed() {
    let bomb = b"\x1f\x8b\x08\x00bomb";
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", bomb.len());
    let server = Server::start(Answer::Bytes([head.as_bytes(), bomb].concat())).await;
    let (_, headers, body) =
        Net::granting(&[&server.url("/")], &[]).get(&server.url("/")).await.result.unwrap();
    assert_eq!((headers["content-encoding"].as_bytes(), body.unwrap().as_slice()), (&b"gzip"[..], &bomb[..]));
}

#[tokio::test]
async fn what_does_not_speak_tls_gets_no_request() {
    let server = Server::start(Answer::Greets(b"220 in the open\r\n".to_vec())).await;
    let url = server.url("/").replace("http://", "https://");
    let came = Net::granting(&[&url], &[]).get(&url).await;
    assert_eq!(came.error(), Error::TlsProtocolError.to_string());
}

#[tokio::test]
async fn what_is_coded_on_the_way_is_refused() {
    for coding in ["gzip, chunked", "chunked\r\ntransfer-encoding: gzip, chunked", "gzip", "identity"] {
        let head = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: {coding}\r\n\r\n1\r\nx\r\n0\r\n\r\n");
        let server = Server::start(Answer::Bytes(head.into_bytes())).await;
        let came = Net::granting(&[&server.url("/")], &[]).get(&server.url("/")).await;
        assert!(came.result.is_err(), "{coding}: {}", came.error());
    }
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n".to_vec();
    let server = Server::start(Answer::Bytes(chunked)).await;
    assert_eq!(Net::granting(&[&server.url("/")], &[]).get(&server.url("/")).await.text(), "x");
}
