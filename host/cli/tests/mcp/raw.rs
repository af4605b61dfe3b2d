//! A client that writes its messages by hand.

use crate::http::TOKEN;
use crate::place::Place;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Far longer than anything here takes on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Raw {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    stderr: Option<JoinHandle<String>>,
    /// Messages that were read but not requested yet.
    early: VecDeque<Value>,
    version: &'static str,
    capabilities: Value,
}

impl Raw {
    /// Starts the server without sending anything.
    pub(crate) fn start(place: &Place, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.arg("mcp").args(more).current_dir(place.path());
        command.env("TOLLGATE_DATA", place.path().join("data")).env_remove("TOLLGATE_LOG");
        command.env("T", TOKEN);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = Some(kept(child.stderr.take().unwrap()));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                let message = serde_json::from_str(&line)
                    .or_else(|e| too_deep(&line).ok_or(e))
                    .unwrap_or_else(|e| panic!("{e}: standard output holds {line:?}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let early = VecDeque::new();
        Self { child, stdin, lines, stderr, early, version: "", capabilities: json!({}) }
    }

    /// Starts the server, and starts a session as a client of this version with these capabilities.
    pub(crate) fn begin(place: &Place, version: &'static str, capabilities: Value) -> Self {
        Self::begin_with(place, &[], version, capabilities)
    }

    pub(crate) fn begin_with(
        place: &Place,
        more: &[&str],
        version: &'static str,
        capabilities: Value,
    ) -> Self {
        let mut raw = Self::start(place, more);
        raw.version = version;
        raw.capabilities = capabilities;
        if raw.has_handshake() {
            let client = json!({"name": "raw", "version": "1"});
            let params =
                json!({"protocolVersion": version, "capabilities": raw.capabilities, "clientInfo": client});
            let answer = raw.ask("initialize", params);
            assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
            raw.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        raw
    }

    pub(crate) fn has_handshake(&self) -> bool {
        self.version < "2026-07-28"
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string());
    }

    pub(crate) fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    /// Returns a request in the format of this version.
    pub(crate) fn request(&self, id: impl Into<Value>, method: &str, mut params: Value) -> Value {
        if !self.has_handshake() {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(self.version);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "raw", "version": "1"});
        }
        json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
    }

    /// Sends a request, and returns the answer.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.begin_asking("asked", method, params);
        self.answer("asked")
    }

    pub(crate) fn begin_asking(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let request = self.request(id, method, params);
        self.send(&request);
    }

    /// Starts a call with arguments that are written exactly like this.
    pub(crate) fn send_raw_call(&mut self, id: &str, name: &str, arguments: &str) {
        let request = self.request(id, "tools/call", json!({"name": name, "arguments": "HERE"})).to_string();
        self.send_line(&request.replace("\"HERE\"", arguments));
    }

    /// Calls a tool, and returns its result.
    #[track_caller]
    pub(crate) fn call(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": name, "arguments": arguments}));
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    /// Returns the answer to the request with this id. Earlier messages are kept.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.wait_for(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Returns the next message with this method.
    #[track_caller]
    pub(crate) fn told(&mut self, method: &str) -> Value {
        self.wait_for(|message| message["method"] == method)
    }

    #[track_caller]
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.early.iter().position(&wanted) {
            return self.early.remove(at).unwrap();
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.lines.recv_timeout(left).unwrap_or_else(|e| panic!("{e}: {:?}", self.early));
            if wanted(&message) {
                return message;
            }
            self.early.push_back(message);
        }
    }

    /// Returns whether a message of this kind has arrived, or arrives within this time.
    pub(crate) fn comes(&mut self, wanted: impl Fn(&Value) -> bool, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        while let Ok(message) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.early.push_back(message);
        }
        self.early.iter().any(wanted)
    }

    /// Returns whether the request with this id has been answered. Earlier messages are kept.
    pub(crate) fn has_answered(&mut self, id: &Value) -> bool {
        self.early.extend(self.lines.try_iter());
        let answers = |message: &Value| message["id"] == *id && message.get("method").is_none();
        let at = self.early.iter().position(answers);
        // Notifications of other calls would only accumulate.
        self.early.retain(|message| message.get("method").is_none());
        at.is_some()
    }

    /// Returns the id of the server's process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Sends a signal and returns the exit code.
    pub(crate) fn signalled(&mut self, signal: &str) -> i32 {
        crate::shutdown::signalled(&mut self.child, signal)
    }

    /// Kills the program.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes the input. Returns how long the program takes to end, and its exit code.
    pub(crate) fn leave(&mut self) -> (Duration, i32) {
        self.stdin = None;
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (began.elapsed(), status.code().unwrap());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the server does not end")
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        assert_no_panic(self.stderr.take());
    }
}

/// Returns the id of an answer whose result has more levels than this client can read.
fn too_deep(line: &str) -> Option<Value> {
    #[derive(serde::Deserialize)]
    struct Answer<'a> {
        id: Value,
        #[serde(borrow, rename = "result")]
        _result: &'a serde_json::value::RawValue,
    }
    let answer: Answer<'_> = serde_json::from_str(line).ok()?;
    Some(json!({"id": answer.id, "result": {"too_deep_for_this_client": true}}))
}

/// Reads a server's standard error continuously, so that the server never blocks.
pub(crate) fn kept(stderr: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = BufReader::new(stderr).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Checks that a server that has ended never panicked. A panic of a task is otherwise silent.
pub(crate) fn assert_no_panic(stderr: Option<JoinHandle<String>>) {
    let Some(said) = stderr.map(|stderr| stderr.join().unwrap()) else { return };
    if !std::thread::panicking() {
        assert!(!said.contains("panicked"), "{said}");
    }
}
