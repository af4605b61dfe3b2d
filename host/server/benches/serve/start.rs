//! The time until `tollgate serve` answers a request, beside the time until `tollgate mcp` does. The
//! program is the one in the target directory that was built with the same profile.

use crate::at;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const ROUNDS: usize = 15;
const TOOLS: [&str; 10] = [
    "approve",
    "counter",
    "csv_stats",
    "echo",
    "fetch",
    "file_edit",
    "find_in_files",
    "json_query",
    "notes",
    "word_count",
];

pub(crate) fn table() {
    let place = tempfile::tempdir().unwrap();
    let tools = place.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    for name in TOOLS {
        std::fs::copy(tollgate_artifacts::rust_guest(name), tools.join(format!("{name}.wasm"))).unwrap();
    }
    std::fs::write(place.path().join("tollgate.toml"), "").unwrap();
    let (mut serve, mut mcp) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let times = [serving(place.path()), speaking(place.path())];
        // The first round compiles the tools.
        if round > 0 {
            serve.push(times[0]);
            mcp.push(times[1]);
        }
    }
    let (serve, mcp) = (at(&mut serve, 50), at(&mut mcp, 50));
    println!("## Start with {} tools from the cache\n", TOOLS.len());
    println!("| `serve` | `mcp` | ratio | goal |\n|---:|---:|---:|---:|");
    println!("| {serve:.0} ms | {mcp:.0} ms | {:.1} | 2 |\n", serve / mcp);
}

fn program() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let program = this.ancestors().map(|dir| dir.join("tollgate")).find(|file| file.is_file());
    program.expect("tollgate is not built with this profile: cargo build --profile PROFILE")
}

fn command(place: &Path) -> Command {
    let mut command = Command::new(program());
    command
        .current_dir(place)
        .env("TOLLGATE_DATA", place.join("data"))
        .env("TOLLGATE_CACHE", place.join("cache"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn serving(place: &Path) -> f64 {
    let began = Instant::now();
    let mut child = command(place).args(["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| Some(line.ok()?.split_once("serving at http://")?.1.to_owned()));
    let mut connection = TcpStream::connect(address.expect("the server did not start")).unwrap();
    connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut status = String::new();
    BufReader::new(connection).read_line(&mut status).unwrap();
    assert!(status.contains(" 200 "), "{status}");
    let took = began.elapsed().as_secs_f64() * 1e3;
    end(child);
    took
}

fn speaking(place: &Path) -> f64 {
    let began = Instant::now();
    let mut child = command(place).arg("mcp").spawn().unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
    let input = child.stdin.as_mut().unwrap();
    writeln!(input, "{hello}").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("serverInfo"), "{line}");
    let took = began.elapsed().as_secs_f64() * 1e3;
    end(child);
    took
}
