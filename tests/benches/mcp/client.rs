//! A client that writes its lines by hand, so that both servers face the same one.

use crate::measure;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// The argument that makes this program the native server.
pub(crate) const NATIVE: &str = "native-server";

pub(crate) fn native() -> Client {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(NATIVE);
    Client::start(command)
}

pub(crate) fn tollgate(place: &Path) -> Client {
    let mut command = Command::new(measure::program("dist"));
    command.args(["mcp", "--config"]).arg(place.join("tollgate.toml"));
    command.env("TOLLGATE_DATA", place.join("data"));
    Client::start(command)
}

pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    /// Answers that arrived before they were awaited.
    early: BTreeMap<u64, String>,
}

impl Client {
    fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self { child, stdin, stdout, next: 0, early: BTreeMap::new() };
        let who = json!({"name": "bench", "version": "1"});
        client.ask(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who}),
        );
        client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    pub(crate) fn echo(&mut self, text: &str) -> f64 {
        self.call("echo", &json!({"text": text}))
    }

    /// Calls a tool and returns the duration in microseconds.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> f64 {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Sends a request, waits for the answer and returns the duration in microseconds.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> f64 {
        self.next += 1;
        let began = Instant::now();
        self.send(self.next, method, params);
        let line = self.answer(self.next);
        assert!(line.contains("\"result\""), "{line}");
        began.elapsed().as_secs_f64() * 1e6
    }

    /// Calls a tool without waiting for the answer.
    pub(crate) fn begin(&mut self, id: u64, tool: &str) {
        self.send(id, "tools/call", &json!({"name": tool, "arguments": {}}));
    }

    /// Returns the line that answers this request; answers that arrive earlier are kept.
    pub(crate) fn answer(&mut self, id: u64) -> String {
        if let Some(line) = self.early.remove(&id) {
            return line;
        }
        let wanted = [format!("\"id\":{id},"), format!("\"id\":{id}}}")];
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the server is gone");
            if wanted.iter().any(|id| line.contains(id)) {
                return line;
            }
            let message: Value = serde_json::from_str(&line).unwrap();
            if let Some(other) = message["id"].as_u64() {
                self.early.insert(other, line);
            }
        }
    }

    /// Cancels a request.
    pub(crate) fn cancel(&mut self, id: u64) {
        let method = "notifications/cancelled";
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": {"requestId": id}}));
    }

    /// Closes the input and returns how many milliseconds the process takes to end.
    pub(crate) fn leave(mut self) -> f64 {
        let began = Instant::now();
        self.stdin = None;
        self.child.wait().unwrap();
        began.elapsed().as_secs_f64() * 1e3
    }

    fn send(&mut self, id: u64, method: &str, params: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    fn write(&mut self, message: &Value) {
        self.stdin.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    pub(crate) fn resident_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
