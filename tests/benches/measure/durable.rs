//! Measures calls kept by a store on disk, compared with the floor: the same events in the same
//! number of transactions, written directly with SQLite, one after another. The floor omits the
//! conversation and the audit, which the store writes as well.

use super::governed;
use super::guests::{Echo, arguments};
use super::rounds::median;
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tollgate::store::SqliteStore;
use tollgate::tools::Toolbox;
use tollgate::{CallRequest, Host, RunRequest};
use tollgate_agent::run::{Run, Thread};
use tollgate_artifacts::rust_guest_bytes;
use tollgate_sandbox::Sandbox;

/// The number of calls of each run.
const TURNS: usize = 100;
const ROUNDS: usize = 5;
/// The number of events in the store while commits are timed.
const SIZES: [i64; 3] = [10, 10_000, 1_000_000];

/// Prints the cost of a durable call and how it grows with the store.
pub(crate) async fn durable(sandbox: Sandbox, echo: Echo) {
    let toolbox = governed::toolbox(&sandbox, &[("echo", &echo.bytes)], 1).await;
    println!("| durable calls | floor, calls a second | governed, calls a second | of the floor |");
    println!("|---|---:|---:|---:|");
    for runs in [1, 8] {
        let (mut floors, mut ours, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let folder = folder();
            let governed = calls_per_second(folder.path(), &toolbox, echo.tool, runs).await;
            let floor = floor_per_second(folder.path(), runs);
            floors.push(floor);
            ours.push(governed);
            shares.push(governed / floor);
        }
        println!(
            "| {runs} at once | {:.0} | {:.0} | **{:.2}** |",
            median(&floors),
            median(&ours),
            median(&shares)
        );
    }
    println!("\n| events in the store | one commit |\n|---:|---:|");
    let counter = rust_guest_bytes("counter");
    let changing = governed::toolbox(&sandbox, &[("counter", &counter)], 1).await;
    for events in SIZES {
        println!("| {events} | {:.2} ms |", commit_in_store_of(&changing, events).await);
    }
    println!();
    long_record(&toolbox, echo.tool).await;
}

/// Returns a folder on the disk of the build, because the system's temporary folder may be in
/// memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

async fn calls_per_second(folder: &Path, toolbox: &Toolbox, tool: &str, runs: usize) -> f64 {
    let store = Arc::new(SqliteStore::open(folder).unwrap());
    let hosts: Vec<Host> = (0..runs)
        .map(|_| governed::durable_host(toolbox, tool, &arguments(100), TURNS, store.clone()))
        .collect();
    let began = Instant::now();
    let running: Vec<_> =
        hosts.into_iter().map(|host| tokio::spawn(async move { governed::run(&host).await })).collect();
    let mut calls = 0;
    for run in running {
        calls += run.await.unwrap();
    }
    f64::from(calls) / began.elapsed().as_secs_f64()
}

/// Returns the events of each commit, divided like the driver divides a record.
fn commits(store: &Connection) -> Vec<Vec<(i64, i64, String)>> {
    let mut rows = store.prepare("SELECT run, number, body FROM events ORDER BY id").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let ends = ["\"type\":\"call_proposed\"", "\"type\":\"call_started\"", "\"type\":\"step_started\""];
    let mut commits = vec![Vec::new()];
    for row in rows {
        let row: (i64, i64, String) = row.unwrap();
        let end = ends.iter().any(|end| row.2.contains(end)) || row.2.contains("\"type\":\"run_finished\"");
        commits.last_mut().unwrap().push(row);
        if end {
            commits.push(Vec::new());
        }
    }
    commits.pop();
    commits
}

fn floor_per_second(recorded: &Path, runs: usize) -> f64 {
    let commits = commits(&Connection::open(recorded.join("tollgate.db")).unwrap());
    let folder = folder();
    drop(SqliteStore::open(folder.path()).unwrap());
    let store = Connection::open(folder.path().join("tollgate.db")).unwrap();
    store.pragma_update(None, "synchronous", "FULL").unwrap();
    store.execute("INSERT INTO threads (thread_id) VALUES ('t')", []).unwrap();
    for run in 1..=i64::try_from(runs).unwrap() {
        store
            .execute(
                "INSERT INTO runs (id, run_id, thread, agent_id, kind, title, status, owner, events,
                     started_at_ms, updated_at_ms, epoch)
                 VALUES (?1, ?2, 1, 'a', 'prompt', 't', 'running', 'p', 0, 0, 0, 1)",
                params![run, run.to_string()],
            )
            .unwrap();
    }
    let began = Instant::now();
    for commit in &commits {
        store.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut insert = store
            .prepare_cached("INSERT INTO events (id, at_ms, body) VALUES ((?1 << 32) | ?2, 7, ?3)")
            .unwrap();
        for (run, number, body) in commit {
            insert.execute(params![run, number, body]).unwrap();
        }
        let (run, number, _) = commit.last().unwrap();
        let update = "UPDATE runs SET events = ?2, updated_at_ms = 7 WHERE id = ?1";
        store.prepare_cached(update).unwrap().execute(params![run, number]).unwrap();
        store.execute_batch("COMMIT").unwrap();
    }
    (runs * TURNS) as f64 / began.elapsed().as_secs_f64()
}

/// Returns the milliseconds of a direct call that changes state, in a store with `events` events
/// of another run. It commits once before it is answered.
async fn commit_in_store_of(toolbox: &Toolbox, events: i64) -> f64 {
    let folder = folder();
    let store = Arc::new(SqliteStore::open(folder.path()).unwrap());
    let host = Host::builder().toolbox(toolbox.clone()).store(store).build().unwrap();
    host.call(CallRequest::from_json("counter", "{}")).await.unwrap();
    let filler = "INSERT INTO events (id, at_ms, body)
        WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 999 + ?1)
        SELECT ((SELECT max(id) FROM runs) << 32) | i, 7, printf('{\"type\":\"step_finished\",\"step\":%d}', i) FROM n";
    let other = Connection::open(folder.path().join("tollgate.db")).unwrap();
    other.execute(filler, [events]).unwrap();
    let mut times = Vec::new();
    for _ in 0..200 {
        let began = Instant::now();
        host.call(CallRequest::from_json("counter", "{}")).await.unwrap();
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    median(&times)
}

/// Times reading and folding a run of about 10,000 events.
async fn long_record(toolbox: &Toolbox, tool: &str) {
    let folder = folder();
    let store = Arc::new(SqliteStore::open(folder.path()).unwrap());
    let host = governed::durable_host(toolbox, tool, &arguments(100), 1_430, store);
    let end = host.run(RunRequest::new("default", "Go on.")).await.unwrap().wait().await.unwrap();
    let began = Instant::now();
    let record = host.store().events(&end.run_id, 0).await.unwrap();
    let mut run = Run::new(Thread::default());
    for event in &record {
        run.apply(&event.event).unwrap();
    }
    println!(
        "A run of {} events is read and folded in {:.0} ms.\n",
        record.len(),
        began.elapsed().as_secs_f64() * 1e3
    );
}
