//! Compares a round trip over standard input and output of a sandboxed echo behind `tollgate mcp`
//! with a native echo behind rmcp's own server, from one client, in one run: `scripts/bench mcp`.
//!
//! It also measures the memory after many calls, the time from start to first answer, parallel
//! calls, and the capacity left for others while eight calls never end.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod alive;
mod client;
#[path = "../measure/mod.rs"]
mod measure;
mod native;

use client::{NATIVE, native, tollgate};
use rusqlite::Connection;
use serde_json::json;
use std::path::Path;
use std::time::Instant;
use tollgate_artifacts::{Guest, good, rust_guest_bytes};

const BLOCKS: usize = 20;
const CALLS_A_BLOCK: usize = 200;
const STARTS: usize = 20;
/// Ten tools, together with the echo and the counter.
const TEN: [Guest; 8] = [
    good::ADDER,
    good::APPENDS,
    good::COMPUTES,
    good::DICE,
    good::FAILS,
    good::REPORTS,
    good::SUSPENDS,
    good::WAITS,
];

fn main() {
    if std::env::args().nth(1).is_some_and(|word| word == NATIVE) {
        return native::serve();
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    std::fs::create_dir(place.join("tools")).unwrap();
    std::fs::write(place.join("tools/echo.wasm"), echo()).unwrap();
    std::fs::write(place.join("tollgate.toml"), "").unwrap();
    println!(
        "| round trip | native p50 | native p99 | tollgate p50 | tollgate p99 | ratio p50 | ratio p99 |"
    );
    println!("|---|---|---|---|---|---|---|");
    for bytes in [100, 10 * 1024] {
        round_trips(place, bytes);
    }
    changing(place);
    memory(place);
    starts(place, 1);
    for guest in TEN {
        put(place, &guest);
    }
    starts(place, 10);
    at_once(place, &good::WAITS);
    at_once(place, &good::COMPUTES);
    alive::table(place);
}

/// Returns the echo as an idempotent tool: the record of such a call is written after the answer.
fn echo() -> Vec<u8> {
    let idempotent = ";; descriptor: {\"tools\": [{\"execution\": {\"idempotent\": true}}]}\n;; expects:";
    let source = good::ECHO.source.replace(";; expects:", idempotent).leak();
    Guest { source, ..good::ECHO }.bytes()
}

fn put(place: &Path, guest: &Guest) {
    std::fs::write(place.join("tools").join(guest.name).with_extension("wasm"), guest.bytes()).unwrap();
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

/// Measures a tool that changes state: it is answered once the change is on the disk, which is
/// one more commit.
fn changing(place: &Path) {
    let bytes = rust_guest_bytes("counter");
    std::fs::write(place.join("tools/counter.wasm"), bytes).unwrap();
    let (mut native, mut ours) = (native(), tollgate(place));
    let (mut of_native, mut of_ours, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    let disk = Connection::open(place.join("floor.db")).unwrap();
    disk.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (x)").unwrap();
    for _ in 0..CALLS_A_BLOCK {
        of_native.push(native.echo("x"));
        of_ours.push(ours.call("counter", &json!({})));
        let began = Instant::now();
        disk.execute("INSERT INTO t VALUES (?1)", ["x".repeat(1_000)]).unwrap();
        commits.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let (native, ours, commit) = (at(&mut of_native, 50), at(&mut of_ours, 50), at(&mut commits, 50));
    println!(
        "\na call that changes state: {ours:.0} µs; the native echo {native:.0} µs, a commit {commit:.0} µs: \
         {:.2} of them together",
        ours / (native * 1.2 + commit)
    );
}

fn memory(place: &Path) {
    let mut client = tollgate(place);
    (0..100).for_each(|_| _ = client.echo("x"));
    let early = client.resident_mib();
    (100..10_000).for_each(|_| _ = client.echo("x"));
    println!("resident: {early:.1} MiB after 100 calls, {:.1} MiB after 10,000", client.resident_mib());
}

fn starts(place: &Path, tools: usize) {
    // Fills the cache.
    tollgate(place).echo("x");
    let mut took: Vec<f64> = (0..STARTS)
        .map(|_| {
            let began = Instant::now();
            let mut client = tollgate(place);
            client.echo("x");
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    println!("start to first answer, {tools} tools, warm cache: {:.1} ms (median)", at(&mut took, 50));
}

/// Measures four parallel calls of this tool, compared with one, and a list meanwhile.
fn at_once(place: &Path, guest: &Guest) {
    let mut client = tollgate(place);
    client.call(guest.name, &json!({}));
    let (mut alone, mut four, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..10 {
        alone.push(client.call(guest.name, &json!({})) / 1e3);
        let ids: Vec<u64> = (0..4).map(|call| 1_000_000 + round * 4 + call).collect();
        let began = Instant::now();
        ids.iter().for_each(|id| client.begin(*id, guest.name));
        lists.push(client.ask("tools/list", &json!({})) / 1e3);
        for id in ids {
            client.answer(id);
        }
        four.push(began.elapsed().as_secs_f64() * 1e3);
    }
    println!(
        "{}: one call {:.0} ms, four at once {:.0} ms, tools/list meanwhile {:.1} ms",
        guest.name,
        at(&mut alone, 50),
        at(&mut four, 50),
        at(&mut lists, 50)
    );
}

/// Returns the value at this percentile.
fn at(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * percent / 100]
}
