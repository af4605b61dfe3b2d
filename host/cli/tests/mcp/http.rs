//! Tests of the server over HTTP, with hand-written requests.

use crate::place::Place;
use crate::raw::{assert_no_panic, kept};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;
use tollgate_artifacts::{good, rust_guest_bytes};

pub(crate) const TOKEN: &str = "a token beyond guessing";

pub(crate) struct Server {
    child: Child,
    stderr: Option<JoinHandle<String>>,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(place: &Place, more: &[&str]) -> Self {
        Self::start_at(place, "127.0.0.1:0", more)
    }

    pub(crate) fn start_at(place: &Place, address: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(["mcp", "--http", address, "--token-env", "T"]).args(more);
        command.current_dir(place.path()).env("TOLLGATE_DATA", place.path().join("data")).env("T", TOKEN);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let line = stderr.by_ref().lines().find(|line| line.as_ref().unwrap().contains("http://"));
        let line = line.unwrap().unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        Self { child, stderr: Some(kept(stderr)), address }
    }

    /// Sends a signal and returns the exit code.
    pub(crate) fn signalled(&mut self, signal: &str) -> i32 {
        crate::shutdown::signalled(&mut self.child, signal)
    }

    pub(crate) fn post(&self, headers: &[(&str, &str)], body: &str) -> Answer {
        self.send(&self.request(headers, body))
    }

    /// Returns a POST request with the necessary headers, unless `headers` contains them.
    pub(crate) fn request(&self, headers: &[(&str, &str)], body: &str) -> String {
        let mut all = vec![
            ("Host", self.address.as_str()),
            ("Authorization", "Bearer a token beyond guessing"),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        all.retain(|(name, _)| !headers.iter().any(|(other, _)| other == name));
        all.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
        let mut request = "POST /mcp HTTP/1.1\r\nConnection: close\r\n".to_owned();
        for (name, value) in all {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        request
    }

    /// Sends a request without waiting for an answer.
    pub(crate) fn open(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // A server that refuses a request need not read all of it.
        let _ = stream.write_all(request.as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        Answer { status, text }
    }

    pub(crate) fn begin(&self) -> String {
        self.begin_as(json!({}))
    }

    /// Starts a session as a client with these capabilities.
    pub(crate) fn begin_as(&self, capabilities: Value) -> String {
        let answer = self.post(&[], &initialize_as(capabilities));
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.header("mcp-session-id").unwrap()
    }

    pub(crate) fn call(&self, session: &str, id: i64, name: &str, arguments: Value) -> Answer {
        let params = json!({"name": name, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.post(&headers_of(session), &body.to_string())
    }
}

/// Returns the headers of every request of a session.
pub(crate) fn headers_of(session: &str) -> [(&str, &str); 2] {
    [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")]
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        assert_no_panic(self.stderr.take());
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<String> {
        let mut lines = self.text.lines();
        lines.find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }

    /// Returns the message of this answer, which may be JSON or an event.
    pub(crate) fn message(&self) -> Value {
        let lines = self.text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        messages.find(|value| value.is_object()).unwrap_or_else(|| panic!("{}", self.text))
    }
}

fn initialize() -> String {
    initialize_as(json!({}))
}

fn initialize_as(capabilities: Value) -> String {
    let client = json!({"name": "raw", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
}

#[test]
fn a_session_calls_tools_and_keeps_its_state() {
    let place = Place::new().with_tools(&[good::ECHO]);
    place.write("tools/counter.wasm", rust_guest_bytes("counter"));
    let server = Server::start(&place, &[]);
    let (first, second) = (server.begin(), server.begin());
    assert_ne!(first, second);
    let echoed = server.call(&first, 2, "echo", json!({"text": "hello"})).message();
    assert_eq!(echoed["result"]["structuredContent"]["text"], "hello", "{echoed}");
    let total = |session: &str| {
        server.call(session, 3, "counter", json!({})).message()["result"]["structuredContent"]["total"]
            .clone()
    };
    assert_eq!((total(&first), total(&first), total(&second)), (json!(1), json!(2), json!(1)));
}

#[test]
fn a_client_without_sessions_is_served() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let server = Server::start(&place, &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "echo", "arguments": {"text": "hello"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let headers =
        [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")];
    let answer = server.post(&headers, &body);
    assert_eq!(answer.message()["result"]["structuredContent"]["text"], "hello", "{}", answer.text);
}

#[test]
fn nobody_is_served_without_the_token() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let server = Server::start(&place, &[]);
    let long = format!("Bearer {}", "x".repeat(8_000));
    for shown in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer a token",
        "Basic a token beyond guessing",
        "a token beyond guessing",
        &long,
    ] {
        let answer = server.post(&[("Authorization", shown)], &initialize());
        assert_eq!(answer.status, 401, "{shown:.80}: {:.300}", answer.text);
        assert!(answer.header("www-authenticate").is_some());
        assert!(!answer.text.contains(TOKEN));
    }
    let twice = [("Authorization", "Bearer x"), ("authorization", "Bearer a token beyond guessing")];
    assert_eq!(server.post(&twice, &initialize()).status, 401);
    for path in ["/", "/mcp", "/mcp/x", "/../mcp", "//mcp"] {
        let answer = server
            .send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address));
        assert_eq!(answer.status, 401, "{path}");
    }
}

#[test]
fn pages_and_other_names_for_this_machine_are_refused() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let server = Server::start(&place, &["--allow-origin", "https://good.example"]);
    for origin in [
        "https://evil.example",
        "null",
        "http://good.example",
        "https://good.example.evil.example",
        "https://good.example:8443",
        "file://",
    ] {
        let answer = server.post(&[("Origin", origin)], &initialize());
        assert_eq!(answer.status, 403, "{origin}: {}", answer.text);
    }
    for origin in ["https://good.example", "https://good.example:443"] {
        assert_eq!(server.post(&[("Origin", origin)], &initialize()).status, 200, "{origin}");
    }
    let twice = [("Origin", "https://good.example"), ("Origin", "https://evil.example")];
    assert_eq!(server.post(&twice, &initialize()).status, 400);
    let twice = [("Host", server.address.as_str()), ("Host", "evil.example")];
    assert_eq!(server.post(&twice, &initialize()).status, 400);
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example"] {
        let answer = server.post(&[("Host", host)], &initialize());
        assert_eq!(answer.status, 403, "{host}: {}", answer.text);
    }
}

#[test]
fn sessions_cannot_be_guessed() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let server = Server::start(&place, &[]);
    let session = server.begin();
    let mut near = session.clone();
    near.replace_range(..1, if session.starts_with('0') { "1" } else { "0" });
    for guess in ["1", "../1", &near, "00000000-0000-0000-0000-000000000000", &"f".repeat(5_000)] {
        let answer = server.call(guess, 2, "echo", json!({}));
        assert!([400, 404].contains(&answer.status), "{guess:.80}: {}", answer.text);
    }
    assert_eq!(server.call(&session, 2, "echo", json!({})).status, 200);
}

#[test]
fn what_is_no_request_is_refused_and_the_server_stays() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let server = Server::start(&place, &[]);
    for (headers, body) in [
        (vec![], "{".to_owned()),
        (vec![], "[]".to_owned()),
        (vec![], "x".repeat(100)),
        (vec![("Content-Type", "text/plain")], initialize()),
        (vec![("Accept", "text/plain")], initialize()),
        (vec![("MCP-Protocol-Version", "1999-01-01"), ("Mcp-Session-Id", "x")], initialize()),
        (vec![], "x".repeat(5 * 1024 * 1024)),
    ] {
        let answer = server.post(&headers, &body);
        assert!((400..500).contains(&answer.status), "{headers:?}: {:.300}", answer.text);
    }
    let session = server.begin();
    assert_eq!(server.call(&session, 2, "echo", json!({})).status, 200);
}

#[test]
fn l9_arguments_are_judged_as_they_were_written() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let server = Server::start(&place, &[]);
    let session = server.begin();
    let body = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"a":2}}}"#;
    let result = server.post(&headers_of(&session), body).message()["result"].clone();
    assert_eq!(result["structuredContent"]["error"]["code"], "invalid_arguments", "{result}");
}

fn scrape(server: &Server, headers: &str) -> Answer {
    let host = &server.address;
    server.send(&format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n"))
}

#[test]
fn metrics_count_calls_by_tool_and_code_and_need_the_token() {
    let place = Place::new().with_tools(&[good::ECHO, good::FAILS, tollgate_artifacts::hostile::NO_WASM]);
    let server = Server::start(&place, &["--allow-origin", "https://ours.test"]);
    let session = server.begin();
    for name in ["echo", "echo", "fails", "absent"] {
        server.call(&session, 2, name, json!({}));
    }
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let answer = scrape(&server, &token);
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    for line in [
        "tollgate_calls_total{tool=\"echo\",code=\"success\"} 2",
        "tollgate_calls_total{tool=\"fails\",code=\"tool_failed\"} 1",
        "tollgate_call_duration_seconds_count{tool=\"echo\"} 2",
        "tollgate_call_memory_bytes_count 3",
        "tollgate_loads_total{outcome=\"served\"} 2",
        "tollgate_loads_total{outcome=\"refused\"} 1",
        "tollgate_running_calls 0",
        "tollgate_reserved_memory_bytes 0",
        "tollgate_refused_files 1",
        "# EOF",
    ] {
        assert!(answer.text.contains(line), "{line} is not in {}", answer.text);
    }
    assert!(!answer.text.contains("absent"), "what a model calls a tool is no series");
    assert!(answer.text.contains("tollgate_fuel_total{tool=\"echo\"} "));
    for (headers, status) in [
        (String::new(), 401),
        ("Authorization: Bearer another one\r\n".to_owned(), 401),
        (format!("{token}Origin: https://theirs.test\r\n"), 403),
        (format!("{token}Origin: https://ours.test\r\n"), 200),
    ] {
        assert_eq!(scrape(&server, &headers).status, status, "{headers}");
    }
}

#[test]
fn idle_sessions_make_room_for_another() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let server = Server::start(&place, &[]);
    let used = server.begin();
    let idle: Vec<String> = (1..256).map(|_| server.begin()).collect();
    // A session in use is never ended, however long another client tries.
    let began = std::time::Instant::now();
    loop {
        // Beginning the others may have taken so long that this one is the idlest of all.
        assert_eq!(server.call(&used, 1, "echo", json!({})).status, 200);
        if server.post(&[], &initialize_as(json!({}))).status == 200 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "idle sessions keep another out");
    }
    assert_eq!(server.call(&used, 2, "echo", json!({})).status, 200);
    let ended = idle.iter().filter(|session| server.call(session, 1, "echo", json!({})).status == 404);
    assert!(ended.count() >= 1, "an idle one has ended");
}

#[test]
fn what_is_no_message_is_answered_as_the_protocol_says() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let server = Server::start(&place, &[]);
    let session = server.begin();
    for (body, code) in [
        ("{\"jsonrpc\":", -32_700),
        ("not JSON", -32_700),
        ("[]", -32_600),
        ("7", -32_600),
        ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", -32_600),
    ] {
        for headers in [&headers_of(&session)[..], &[]] {
            let answer = server.post(headers, body);
            assert_eq!(answer.status, 400, "{body}: {}", answer.text);
            assert!(answer.text.contains(&format!("\"code\":{code}")), "{body}: {}", answer.text);
        }
    }
    let answer = server.post(&[("Content-Type", "text/plain")], "not JSON");
    assert_eq!(answer.status, 415, "{}", answer.text);
}
