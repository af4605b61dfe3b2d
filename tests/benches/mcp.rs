//! A round trip over standard input and output: a sandboxed echo behind
//! `tollgate mcp` beside a native echo behind rmcp's own server, from one client, in
//! one run: `scripts/bench mcp`.
//!
//! Beside that: memory after many calls, the time from start to first answer, and
//! what is left for the echo while eight calls never end.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData};
use rmcp::model::{ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_artifacts::{good, hostile};

const NATIVE: &str = "native-server";
const BLOCKS: usize = 20;
const CALLS_A_BLOCK: usize = 200;
const STARTS: usize = 20;

fn main() {
    if std::env::args().nth(1).is_some_and(|word| word == NATIVE) {
        return serve_natively();
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    std::fs::create_dir(place.join("tools")).unwrap();
    std::fs::write(place.join("tools/echo.wasm"), good::ECHO.bytes()).unwrap();
    std::fs::write(place.join("tollgate.toml"), "").unwrap();
    println!(
        "| round trip | native p50 | native p99 | tollgate p50 | tollgate p99 | ratio p50 | ratio p99 |"
    );
    println!("|---|---|---|---|---|---|---|");
    for bytes in [100, 10 * 1024] {
        round_trips(place, bytes);
    }
    memory(place);
    starts(place);
    endless(place);
}

fn round_trips(place: &Path, bytes: usize) {
    let (mut native, mut ours) = (native(), tollgate(place));
    let text = "x".repeat(bytes);
    for client in [&mut native, &mut ours] {
        (0..CALLS_A_BLOCK).for_each(|_| _ = client.echo(&text));
    }
    let (mut of_native, mut of_ours) = (Vec::new(), Vec::new());
    for _ in 0..BLOCKS {
        of_native.extend((0..CALLS_A_BLOCK).map(|_| native.echo(&text)));
        of_ours.extend((0..CALLS_A_BLOCK).map(|_| ours.echo(&text)));
    }
    let (n50, n99) = (at(&mut of_native, 50), at(&mut of_native, 99));
    let (o50, o99) = (at(&mut of_ours, 50), at(&mut of_ours, 99));
    println!(
        "| {bytes} B | {n50:.0} µs | {n99:.0} µs | {o50:.0} µs | {o99:.0} µs | {:.2} | {:.2} |",
        o50 / n50,
        o99 / n99
    );
}

fn memory(place: &Path) {
    let mut client = tollgate(place);
    (0..100).for_each(|_| _ = client.echo("x"));
    let early = client.resident_mib();
    (100..10_000).for_each(|_| _ = client.echo("x"));
    println!("\nresident: {early:.1} MiB after 100 calls, {:.1} MiB after 10,000", client.resident_mib());
}

fn starts(place: &Path) {
    let mut took: Vec<f64> = (0..STARTS)
        .map(|_| {
            let began = Instant::now();
            let mut client = tollgate(place);
            client.echo("x");
            began.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    println!("start to first answer, one tool, warm cache: {:.1} ms (median)", at(&mut took, 50) / 1e3);
}

fn endless(place: &Path) {
    std::fs::write(place.join("tools/spin.wasm"), hostile::SPIN_FOR_EVER.bytes()).unwrap();
    let limits = "[limits]\ntimeout_ms = 120_000\nfuel = 900_000_000_000\n";
    std::fs::write(place.join("tollgate.toml"), limits).unwrap();
    let mut client = tollgate(place);
    for id in 0..8 {
        client.send(id + 1_000_000, "tools/call", &json!({"name": "spin-for-ever", "arguments": {}}));
    }
    let mut echoes: Vec<f64> = (0..200).map(|_| client.echo("x")).collect();
    let mut lists: Vec<f64> = (0..200).map(|_| client.ask("tools/list", &json!({}))).collect();
    println!(
        "under eight endless calls: echo {:.1} ms, tools/list {:.1} ms (p99)",
        at(&mut echoes, 99) / 1e3,
        at(&mut lists, 99) / 1e3
    );
}

/// The value below which so many per cent lie.
fn at(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * percent / 100]
}

fn native() -> Client {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(NATIVE);
    Client::start(command)
}

fn tollgate(place: &Path) -> Client {
    let mut command = Command::new(program());
    command.args(["mcp", "--config"]).arg(place.join("tollgate.toml"));
    command.env("TOLLGATE_DATA", place.join("data"));
    Client::start(command)
}

/// The release build that lies beside the benches.
fn program() -> PathBuf {
    let bench = std::env::current_exe().unwrap();
    let program = bench.parent().unwrap().parent().unwrap().join("tollgate");
    assert!(program.exists(), "build it first: cargo build --release");
    program
}

struct Client {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self { child, stdin, stdout, next: 0 };
        let who = json!({"name": "bench", "version": "1"});
        client.ask(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who}),
        );
        writeln!(client.stdin, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).unwrap();
        client
    }

    fn echo(&mut self, text: &str) -> f64 {
        self.ask("tools/call", &json!({"name": "echo", "arguments": {"text": text}}))
    }

    /// Asks, and waits for the answer: how many microseconds that took.
    fn ask(&mut self, method: &str, params: &Value) -> f64 {
        self.next += 1;
        let began = Instant::now();
        self.send(self.next, method, params);
        let id = format!("\"id\":{}", self.next);
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the server is gone");
            if line.contains(&id) {
                assert!(line.contains("\"result\""), "{line}");
                return began.elapsed().as_secs_f64() * 1e6;
            }
        }
    }

    fn send(&mut self, id: u64, method: &str, params: &Value) {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn resident_mib(&self) -> f64 {
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

/// What rmcp makes of an echo, without anything of ours.
fn serve_natively() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let streams = (tokio::io::stdin(), tokio::io::stdout());
        Echo.serve(streams).await.unwrap().waiting().await.unwrap();
    });
    runtime.shutdown_timeout(Duration::from_millis(10));
}

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema: Map<String, Value> = json!({"type": "object"}).as_object().unwrap().clone();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo", "Echoes.", Arc::new(schema))]))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // The same two forms of the answer as ours.
        let arguments = Value::Object(params.arguments.unwrap_or_default());
        let mut result = CallToolResult::success(vec![ContentBlock::text(arguments.to_string())]);
        result.structured_content = Some(arguments);
        Ok(result.into())
    }
}
