//! Tests of clients over HTTP that send nothing, disconnect during their requests, or exceed the
//! limits.

use crate::http::{Server, TOKEN, headers_of};
use crate::place::Place;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tollgate_artifacts::{good, hostile};

/// Far longer than anything here takes, and shorter than the limit of an endless call.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Creates a place with a tool that never ends by itself, and one that does.
pub(crate) fn endless() -> Place {
    Place::new()
        .with_tools(&[good::ECHO, hostile::SPIN_FOR_EVER])
        .with_config("[limits]\ntimeout_ms = 120_000\nfuel = 900_000_000_000\n")
}

/// Returns a call that never ends by itself, padded with this many bytes.
pub(crate) fn spins(id: usize, bytes: usize) -> String {
    let params = json!({"name": "spin-for-ever", "arguments": {}, "_meta": {"pad": "x".repeat(bytes)}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

fn begins_to_spin(server: &Server, session: &str, id: usize, bytes: usize) -> TcpStream {
    server.open(&server.request(&headers_of(session), &spins(id, bytes)))
}

/// Waits until this many calls were cancelled.
#[track_caller]
pub(crate) fn until_cancelled(place: &Place, wanted: usize) {
    let began = Instant::now();
    loop {
        let runs = place.type_in(&["runs", "--json"]).json();
        let cancelled = runs.as_array().unwrap().iter().filter(|run| run["status"] == "cancelled").count();
        if cancelled == wanted {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{runs}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Requests the metrics on a connection that is kept open. Returns whether it succeeded.
fn scrapes(stream: &mut TcpStream, host: &str) -> bool {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let (mut read, mut bytes) = (String::new(), [0; 64 * 1024]);
    while !read.contains("# EOF") {
        match stream.read(&mut bytes) {
            Ok(more) if more > 0 => read.push_str(&String::from_utf8_lossy(&bytes[..more])),
            _ => return false,
        }
    }
    true
}

#[test]
fn who_connects_and_says_nothing_keeps_nobody_out() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let server = Server::start(&place, &[]);
    let mut known = TcpStream::connect(&server.address).unwrap();
    assert!(scrapes(&mut known, &server.address));
    // More connections than places; some of them send part of a request.
    let silent: Vec<TcpStream> = (0..300)
        .map(|number| match number % 2 {
            0 => TcpStream::connect(&server.address).unwrap(),
            _ => server.open("POST /mcp HTTP/1.1\r\nHost: "),
        })
        .collect();
    let session = server.begin();
    assert_eq!(server.call(&session, 2, "echo", json!({})).status, 200);
    assert!(scrapes(&mut known, &server.address), "who showed the token stays");
    drop(silent);
}

#[test]
fn who_keeps_all_connections_for_later_keeps_nobody_out() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let server = Server::start(&place, &[]);
    let session = server.begin();
    let mut kept: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            assert!(scrapes(&mut stream, &server.address));
            stream
        })
        .collect();
    assert_eq!(server.call(&session, 2, "echo", json!({})).status, 200);
    assert!(scrapes(kept.last_mut().unwrap(), &server.address), "the latest is kept");
}

#[test]
fn who_shows_no_token_is_not_kept() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let mut stream = server.open("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 401"), "{said}");
}

#[test]
fn x1_a_call_of_a_client_without_a_session_ends_with_its_connection() {
    let place = endless();
    let server = Server::start(&place, &["--thread", "t"]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "spin-for-ever", "arguments": {}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let headers =
        [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "spin-for-ever")];
    let stream = server.open(&server.request(&headers, &body));
    std::thread::sleep(Duration::from_secs(1));
    drop(stream);
    until_cancelled(&place, 1);
}

#[test]
fn x1_a_call_of_a_session_ends_when_its_client_does_not_come_back() {
    let place = endless();
    let server = Server::start(&place, &["--thread", "t"]);
    let session = server.begin();
    let stream = begins_to_spin(&server, &session, 2, 0);
    std::thread::sleep(Duration::from_secs(1));
    drop(stream);
    until_cancelled(&place, 1);
    assert_eq!(server.call(&session, 3, "echo", json!({})).status, 200, "the session goes on");
}

#[test]
fn x1_the_calls_of_a_session_end_with_it() {
    let place = endless();
    let server = Server::start(&place, &["--thread", "t"]);
    let session = server.begin();
    let stream = begins_to_spin(&server, &session, 2, 0);
    std::thread::sleep(Duration::from_secs(1));
    let (host, head) = (&server.address, "DELETE /mcp HTTP/1.1\r\nConnection: close\r\n");
    let ended = server.send(&format!(
        "{head}Host: {host}\r\nAuthorization: Bearer {TOKEN}\r\nMcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n\r\n"
    ));
    assert!((200..300).contains(&ended.status), "{}", ended.text);
    until_cancelled(&place, 1);
    assert_eq!(server.call(&session, 3, "echo", json!({})).status, 404);
    drop(stream);
}

#[test]
fn more_than_is_carried_at_once_is_refused_until_calls_have_ended() {
    const LARGE: usize = 4_000_000;
    let place = endless();
    let server = Server::start(&place, &[]);
    let session = server.begin();
    // Each request is sent and its connection dropped; the calls continue. Together they use half
    // of the total limit, which is the limit of one session.
    for id in 0..4 {
        let mut stream = begins_to_spin(&server, &session, 10 + id, LARGE);
        let mut one = [0];
        stream.read_exact(&mut one).unwrap();
    }
    let large = server.request(&headers_of(&session), &spins(99, LARGE));
    let (head, _) = large.split_once("\r\n\r\n").unwrap();
    assert_eq!(server.send(&format!("{head}\r\n\r\n")).status, 503, "there is no room, whoever left");
    assert_eq!(server.call(&session, 3, "echo", json!({})).status, 200, "what is small is served");
    let other = server.begin();
    let pad = json!({"pad": "x".repeat(LARGE)});
    assert_eq!(server.call(&other, 3, "echo", pad).status, 200, "another session has room");
    // They end when their clients do not reconnect, and there is room again.
    let ping =
        json!({"jsonrpc": "2.0", "id": 4, "method": "ping", "params": {"_meta": {"pad": "x".repeat(LARGE)}}});
    let began = Instant::now();
    loop {
        let status = server.post(&headers_of(&session), &ping.to_string()).status;
        if status == 200 {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{status}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Returns a request whose head does not declare the length of its body.
fn in_chunks(request: &str) -> String {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let (head, _) = head.split_once("Content-Length").unwrap();
    let (first, rest) = body.split_at(body.len() / 2);
    let chunks = format!("{:x}\r\n{first}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n", first.len(), rest.len());
    format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}")
}

#[test]
fn requests_that_do_not_say_how_long_they_are_take_the_room_that_they_need() {
    let place = endless();
    let server = Server::start(&place, &["--thread", "t"]);
    let session = server.begin();
    let written = |body: &str| in_chunks(&server.request(&headers_of(&session), body));
    let kept: Vec<TcpStream> = (0..5)
        .map(|id| {
            // Some are small, and some need room before they are read.
            let mut stream = server.open(&written(&spins(10 + id, [100_000, 0][id / 4])));
            let mut begins = [0; 12];
            stream.read_exact(&mut begins).unwrap();
            assert_eq!(&begins, b"HTTP/1.1 200", "call {id}");
            stream
        })
        .collect();
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 12}});
    assert_eq!(server.send(&written(&cancel.to_string())).status, 202);
    until_cancelled(&place, 1);
    drop(kept);
}
