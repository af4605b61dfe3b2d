//! Tests of a session's messages over HTTP besides its calls: progress, log lines, cancellation,
//! questions, the end of the session, and its retained state.

use crate::http::{Answer, Server, TOKEN, headers_of};
use crate::http_clients::{PATIENCE, endless, until_cancelled};
use crate::place::Place;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::sync::mpsc::{Receiver, Sender, channel};
use tollgate_artifacts::{good, rust_guest_bytes};

/// A session whose streams are all read as they arrive.
struct Session<'a> {
    server: &'a Server,
    id: String,
    sender: Sender<Value>,
    messages: Receiver<Value>,
    early: VecDeque<Value>,
}

impl<'a> Session<'a> {
    /// Starts a session, and listens for messages that the server sends by itself.
    fn begin(server: &'a Server, capabilities: Value) -> Self {
        let id = server.begin_as(capabilities);
        let (sender, messages) = channel();
        let session = Self { server, id, sender, messages, early: VecDeque::new() };
        let told = session.tells(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(told.status, 202, "{}", told.text);
        session.reads(&session.without_body("GET"));
        session
    }

    fn without_body(&self, method: &str) -> String {
        let (host, id) = (&self.server.address, &self.id);
        format!(
            "{method} /mcp HTTP/1.1\r\nConnection: close\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Accept: text/event-stream\r\nMcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n\r\n"
        )
    }

    /// Sends a message that is answered immediately.
    fn tells(&self, message: &Value) -> Answer {
        self.server.post(&headers_of(&self.id), &message.to_string())
    }

    /// Sends a request, and reads the stream of its answer as it arrives.
    fn asks(&self, id: i64, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.reads(&self.server.request(&headers_of(&self.id), &message.to_string()));
    }

    fn reads(&self, request: &str) {
        let (stream, sender) = (self.server.open(request), self.sender.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { return };
                let event = line.strip_prefix("data:").unwrap_or(&line).trim();
                if let Ok(message @ Value::Object(_)) = serde_json::from_str(event)
                    && sender.send(message).is_err()
                {
                    return;
                }
            }
        });
    }

    /// Returns the next message of this kind, on any stream.
    #[track_caller]
    fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.early.iter().position(&wanted) {
            return self.early.remove(at).unwrap();
        }
        loop {
            let message =
                self.messages.recv_timeout(PATIENCE).unwrap_or_else(|e| panic!("{e}: {:?}", self.early));
            if wanted(&message) {
                return message;
            }
            self.early.push_back(message);
        }
    }

    #[track_caller]
    fn told(&mut self, method: &str) -> Value {
        self.wait_for(|message| message["method"] == method)
    }

    #[track_caller]
    fn answer(&mut self, id: i64) -> Value {
        self.wait_for(|message| message["id"] == id && message.get("method").is_none())
    }

    #[track_caller]
    fn call(&mut self, id: i64, name: &str) -> Value {
        self.asks(id, "tools/call", json!({"name": name, "arguments": {}}));
        self.answer(id)["result"].clone()
    }

    /// Ends the session.
    fn ends(&self) -> u16 {
        self.server.send(&self.without_body("DELETE")).status
    }
}

#[test]
fn e2_progress_and_log_lines_are_told_to_who_asked() {
    let place = Place::new().with_tools(&[good::REPORTS]);
    let server = Server::start(&place, &[]);
    let mut session = Session::begin(&server, json!({}));
    // The client has requested no log lines yet, or none of this level.
    session.call(1, "reports");
    session.asks(2, "logging/setLevel", json!({"level": "emergency"}));
    assert!(session.answer(2).get("result").is_some());
    session.call(3, "reports");
    session.asks(4, "logging/setLevel", json!({"level": "debug"}));
    assert!(session.answer(4).get("result").is_some());
    assert!(session.early.is_empty(), "{:?}", session.early);
    let params = json!({"name": "reports", "arguments": {}, "_meta": {"progressToken": "p"}});
    session.asks(5, "tools/call", params);
    let progress = session.told("notifications/progress")["params"].clone();
    assert_eq!((&progress["progressToken"], &progress["progress"]), (&json!("p"), &json!(0.5)), "{progress}");
    let line = session.told("notifications/message")["params"].clone();
    assert_eq!((&line["data"], &line["logger"]), (&json!("halfway"), &json!("reports")), "{line}");
    assert_eq!(session.answer(5)["result"]["isError"], false);
}

#[test]
fn x1_a_call_that_is_cancelled_by_a_notification_ends_and_no_other() {
    let place = endless();
    let server = Server::start(&place, &["--thread", "t"]);
    let mut session = Session::begin(&server, json!({}));
    for id in [1, 2] {
        session.asks(id, "tools/call", json!({"name": "spin-for-ever", "arguments": {}}));
    }
    session.call(3, "echo");
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(session.tells(&cancelled).status, 202);
    until_cancelled(&place, 1);
    assert_eq!(session.call(4, "echo")["isError"], false);
    assert!(!session.early.iter().any(|message| [1, 2].map(Value::from).contains(&message["id"])));
}

#[test]
fn w1_a_client_that_shows_forms_is_asked_and_the_call_goes_on() {
    let place = Place::new().with_tools(&[good::SUSPENDS]);
    let server = Server::start(&place, &[]);
    let forms = json!({"elicitation": {}});
    let (mut session, mut other) = (Session::begin(&server, forms.clone()), Session::begin(&server, forms));
    session.asks(1, "tools/call", json!({"name": "suspends", "arguments": {}}));
    let asked = session.told("elicitation/create");
    assert!(asked["params"]["message"].as_str().unwrap().contains("Shall I?"), "{asked}");
    let content = json!({"action": "accept", "content": {"approved": true}});
    assert_eq!(session.tells(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": content})).status, 202);
    assert_eq!(session.answer(1)["result"]["structuredContent"], json!({"approved": true}));
    // Its question must not reach another session, which shows forms, too.
    other.asks(1, "ping", json!({}));
    other.answer(1);
    assert!(other.early.is_empty(), "{:?}", other.early);
    let mut formless = Session::begin(&server, json!({}));
    assert_eq!(formless.call(1, "suspends")["structuredContent"]["status"], "approval_required");
}

#[test]
fn x1_a_session_that_ends_takes_its_calls_with_it_and_no_others() {
    let place = endless();
    let server = Server::start(&place, &["--thread", "t"]);
    let (mut ends, mut stays) = (Session::begin(&server, json!({})), Session::begin(&server, json!({})));
    for session in [&mut ends, &mut stays] {
        session.asks(1, "tools/call", json!({"name": "spin-for-ever", "arguments": {}}));
        session.call(2, "echo");
    }
    assert_eq!(ends.ends(), 204);
    until_cancelled(&place, 1);
    assert_eq!(ends.tells(&json!({"jsonrpc": "2.0", "id": 3, "method": "ping"})).status, 404);
    assert_eq!(server.send(&ends.without_body("GET")).status, 404);
    assert_eq!(ends.ends(), 404);
    assert_eq!(stays.call(4, "echo")["isError"], false);
}

#[test]
fn a9_state_is_that_of_the_sessions_thread() {
    let place = Place::new();
    place.write("tools/counter.wasm", rust_guest_bytes("counter"));
    let count = |session: &mut Session| session.call(1, "counter")["structuredContent"]["total"].clone();
    {
        let server = Server::start(&place, &[]);
        let (mut first, mut second) =
            (Session::begin(&server, json!({})), Session::begin(&server, json!({})));
        assert_eq!(
            (count(&mut first), count(&mut first), count(&mut second)),
            (json!(1), json!(2), json!(1))
        );
    }
    for total in [1, 3] {
        let server = Server::start(&place, &["--thread", "work"]);
        let (mut first, mut second) =
            (Session::begin(&server, json!({})), Session::begin(&server, json!({})));
        assert_eq!((count(&mut first), count(&mut second)), (json!(total), json!(total + 1)), "it is kept");
    }
}

#[test]
fn a_tool_that_is_dropped_in_is_told_of() {
    let place = Place::new().with_tools(&[good::ECHO]);
    let server = Server::start(&place, &[]);
    let mut session = Session::begin(&server, json!({}));
    session.call(1, "echo");
    place.write("tools/fails.wasm", good::FAILS.bytes());
    session.told("notifications/tools/list_changed");
    session.asks(2, "tools/list", json!({}));
    assert_eq!(session.answer(2)["result"]["tools"].as_array().unwrap().len(), 2);
}
