//! A server over HTTP that answers as a test wants, and tests of those that repeat tokens, fail, or
//! have their streams opened again and again.

use crate::http::TOKEN;
use crate::place::{Place, Said};
use crate::raw::Raw;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server with one tool, `t`.
pub(crate) struct HttpServer {
    address: String,
}

/// A request, as far as an answer depends on it.
pub(crate) struct SentRequest {
    /// The method of its message; `answer` for an answer, and the method of HTTP without a message.
    pub(crate) method: String,
    id: Value,
    token: String,
}

/// The reply to a request.
pub(crate) enum Reply {
    /// That of a good server.
    Usual,
    /// A whole response.
    Answer(String),
    /// A stream of events with this text, this many times.
    Stream(String, usize),
    /// None, as long as the test lasts.
    Silence,
}

impl Reply {
    /// Returns a response with this status and JSON.
    pub(crate) fn answer(status: &str, body: &str) -> Self {
        Self::with_headers(status, "", body)
    }

    fn with_headers(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!("content-type: application/json\r\ncontent-length: {length}\r\n{headers}");
        Self::Answer(format!("HTTP/1.1 {status}\r\n{head}\r\n{body}"))
    }

    fn result(asked: &SentRequest, result: &Value) -> Self {
        let answer = json!({"jsonrpc": "2.0", "id": asked.id, "result": result});
        Self::with_headers("200 OK", "mcp-session-id: one\r\n", &answer.to_string())
    }

    fn usual(asked: &SentRequest) -> Self {
        match asked.method.as_str() {
            "initialize" => Self::result(
                asked,
                &json!({
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "s", "version": "1"},
                }),
            ),
            "tools/list" => {
                Self::result(asked, &json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}))
            }
            "tools/call" => Self::result(asked, &json!({"content": []})),
            "server/discover" | "GET" | "DELETE" => Self::answer("405 Not Allowed", ""),
            _ => Self::answer("202 Accepted", ""),
        }
    }
}

impl HttpServer {
    pub(crate) fn start(reply: impl Fn(&SentRequest) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let reply = Arc::new(reply);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let reply = Arc::clone(&reply);
                std::thread::spawn(move || while serve(&stream, &*reply).is_some() {});
            }
        });
        Self { address }
    }
}

/// Returns a place with this server, `other`.
pub(crate) fn place_of(server: HttpServer) -> Place {
    Place::new().with_config(&format!(
        "[mcp.other]\nurl = \"http://{}/mcp\"\ntoken_env = \"T\"\nstart_timeout_ms = 20_000\ntimeout_ms = 60_000\n",
        server.address
    ))
}

/// Answers one request; `None` if the connection is over.
fn serve(mut stream: &TcpStream, reply: &impl Fn(&SentRequest) -> Reply) -> Option<()> {
    let asked = read(stream)?;
    let reply = match reply(&asked) {
        Reply::Usual => Reply::usual(&asked),
        reply => reply,
    };
    match reply {
        Reply::Usual => None,
        Reply::Answer(answer) => stream.write_all(answer.as_bytes()).ok(),
        Reply::Stream(events, times) => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            stream.write_all(head).ok()?;
            (0..times).try_for_each(|_| stream.write_all(events.as_bytes()).ok())?;
            let _ = stream.shutdown(std::net::Shutdown::Both);
            None
        }
        Reply::Silence => loop {
            std::thread::park();
        },
    }
}

fn read(stream: &TcpStream) -> Option<SentRequest> {
    let mut read = BufReader::new(stream);
    let (mut first, mut token, mut length) = (String::new(), String::new(), 0);
    read.read_line(&mut first).ok().filter(|bytes| *bytes > 0)?;
    loop {
        let mut line = String::new();
        read.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        let Some((name, value)) = line.split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => token = value.trim().trim_start_matches("Bearer ").to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    read.read_exact(&mut body).ok()?;
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = match message["method"].as_str() {
        Some(method) => method,
        None if message.is_object() => "answer",
        None => first.split(' ').next()?,
    };
    Some(SentRequest { method: method.to_owned(), id: message["id"].clone(), token })
}

fn said(place: &Place, arguments: &[&str]) -> Said {
    Said::of(&place.tollgate(arguments).env("T", TOKEN).assert())
}

#[test]
fn a_token_that_a_server_repeats_is_not_shown() {
    let refuses = HttpServer::start(|asked| {
        Reply::answer("401 Unauthorized", &format!("the token {} is wrong", asked.token))
    });
    let refused = said(&place_of(refuses), &["tools"]).says("HTTP 401").says("the token ***");
    assert!(!refused.stderr.contains(TOKEN), "{}", refused.stderr);
    let repeats = HttpServer::start(|asked| match asked.method.as_str() {
        "tools/call" => {
            let text = format!("Your token is {}.", asked.token);
            Reply::result(asked, &json!({"content": [{"type": "text", "text": text}]}))
        }
        _ => Reply::Usual,
    });
    let shown = said(&place_of(repeats), &["call", "other__t", "--json"]).ends_with(0);
    let stars = "*".repeat(TOKEN.len());
    assert_eq!(shown.json()["data"], format!("Your token is {stars}."));
}

#[test]
fn a_call_that_a_server_fails_ends_with_its_words() {
    let fails = HttpServer::start(|asked| match asked.method.as_str() {
        "tools/call" => Reply::answer("500 Oops", "the disk\u{1b}[2J\nis full"),
        _ => Reply::Usual,
    });
    let shown = said(&place_of(fails), &["call", "other__t", "--json"]).ends_with(1).json();
    let words = "The server 'other' failed the call: HTTP 500 Internal Server Error: the disk[2J is full";
    assert_eq!(shown["error"], json!({"code": "tool_failed", "message": words}));
}

/// Streams that break, or are to be opened again at once.
#[test]
fn z15_a_stream_is_opened_again_after_growing_pauses() {
    for events in ["id: 1\ndata:\n\nno colon\n\n", "retry: 0\nid: 1\ndata:\n\n"] {
        let (opened, when) = channel();
        let opened = Mutex::new(opened);
        let place = place_of(HttpServer::start(move |asked| match asked.method.as_str() {
            "GET" => {
                let _ = opened.lock().unwrap().send(Instant::now());
                Reply::Stream(events.to_owned(), 1)
            }
            _ => Reply::Usual,
        }));
        let _raw = Raw::begin(&place, "2025-11-25", json!({}));
        let times: Vec<Instant> =
            (0..4).map(|_| when.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
        // Half a second, one, and two.
        assert!(times[3] - times[0] >= Duration::from_millis(3_400), "{:?}", times[3] - times[0]);
    }
}
