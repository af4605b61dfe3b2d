//! A direct call of an echo component with 100 bytes, on one connection and on many. Calls are
//! recorded in a store on disk, as `tollgate serve` does.

use crate::at;
use crate::client::{Connection, request, runtime};
use crate::server::{COMPUTES_US, context_switches, floor, processor_seconds, serve, toolbox};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tollgate::{CallRequest, Host, SqliteStore};

const ROUNDS: usize = 10;
const CALLS: usize = 300;
/// The calls of a connection before those that are measured.
const WARM_UP: usize = 20;
const CONNECTIONS: usize = 64;
const FOR: Duration = Duration::from_secs(2);

pub(crate) fn table() {
    let data = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(data.path()).unwrap());
    let served =
        serve(async { Host::builder().store(store).toolbox(toolbox(&["echo"]).await).build().unwrap() });
    let body = format!("{{\"arguments\": {{\"text\": \"{}\"}}}}", "x".repeat(100));
    let sent = request("POST", "/api/v1/tools/echo/calls", &served.key, "application/json", Some(&body));
    let clients = runtime();
    let (status, answer) =
        clients.block_on(async { Connection::open(served.address).await.send(&sent).await });
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    let (floor, _runtime) = floor(&served.key, answer);
    let one = |address| clients.block_on(one_connection(address, &sent));
    let me = request("GET", "/api/v1/me", &served.key, "application/json", None);
    let in_memory =
        served.runtime.block_on(async { Host::builder().toolbox(toolbox(&["echo"]).await).build().unwrap() });
    let within = |host: &Host| {
        let calls = served.runtime.spawn(within_the_process(host.clone()));
        served.runtime.block_on(calls).unwrap()
    };
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    let (mut asked, mut unstored, mut stored) = (Vec::new(), Vec::new(), Vec::new());
    let (mut used, mut switches) = ([0.0, 0.0], [0.0, 0.0]);
    for _ in 0..ROUNDS {
        for (times, address, which) in [(&mut bare, floor, 0), (&mut ours, served.address, 1)] {
            let before = (processor_seconds(), context_switches());
            times.extend(one(address));
            used[which] += processor_seconds() - before.0;
            switches[which] += context_switches() - before.1;
        }
        asked.extend(clients.block_on(one_connection(served.address, &me)));
        unstored.extend(within(&in_memory));
        stored.extend(within(&served.state.host));
    }
    println!(
        "## A direct call of 100 bytes\n\n| connections | figure | floor | serve | difference | goal |\n|---:|---|---:|---:|---:|---:|"
    );
    let (low, high) = (at(&mut bare, 50), at(&mut ours, 50));
    println!("| 1 | p50 | {low:.0} us | {high:.0} us | {:.0} us more | 60 us |", high - low);
    let (low, high) = (at(&mut bare, 99), at(&mut ours, 99));
    println!("| 1 | p99 | {low:.0} us | {high:.0} us | {:.1} times | |", high / low);
    // Calls that only warm up are counted, too.
    let calls = (ROUNDS * (CALLS + WARM_UP)) as f64;
    let (low, high) = (used[0] / calls * 1e6, used[1] / calls * 1e6);
    println!(
        "| 1 | processor time of a call and its client | {low:.0} us | {high:.0} us | {:.0} us more | |",
        high - low
    );
    let (low, high) = (switches[0] / calls, switches[1] / calls);
    println!(
        "| 1 | context switches of a call and its client | {low:.2} | {high:.2} | {:.1} times | |",
        high / low
    );
    let again = || (0..ROUNDS).flat_map(|_| one(floor)).collect();
    let mut computing = while_computing(at(&mut stored, 50), again);
    println!("\n## The parts of a call on one connection\n\n| part | p50 |\n|---|---:|");
    for (part, times) in [
        ("the bare handler", &mut bare),
        ("the bare handler, if it computes for as long as that call on disk", &mut computing),
        ("`GET /api/v1/me`, with the key, its scopes and limits", &mut asked),
        ("the call within the process, recorded in memory", &mut unstored),
        ("the call within the process, recorded on disk", &mut stored),
        ("the whole request", &mut ours),
    ] {
        println!("| {part} | {:.0} us |", at(times, 50));
    }
    many(&clients, &sent, floor, served.address);
    println!();
}

/// Returns the times of the bare handler if it computes for this long before it answers, in microseconds.
/// On an idle machine, a thread is woken later the longer its processor was idle, so such a handler takes
/// more than the sum of both.
fn while_computing(computes_us: f64, times: impl FnOnce() -> Vec<f64>) -> Vec<f64> {
    COMPUTES_US.store(computes_us.round() as u64, Ordering::Relaxed);
    let times = times();
    COMPUTES_US.store(0, Ordering::Relaxed);
    times
}

/// Prints the figures of many connections.
fn many(clients: &tokio::runtime::Runtime, sent: &[u8], floor: SocketAddr, served: SocketAddr) {
    println!(
        "\n## Many connections\n\n| connections | figure | floor | serve | difference | goal |\n|---:|---|---:|---:|---:|---:|"
    );
    let (mut bare, mut ours, mut rates) = (Vec::new(), Vec::new(), [0.0, 0.0]);
    let (mut used, mut switches) = ([0.0, 0.0], [0.0, 0.0]);
    for _ in 0..3 {
        for (times, address, which) in [(&mut bare, floor, 0), (&mut ours, served, 1)] {
            let before = (processor_seconds(), context_switches());
            let found = clients.block_on(many_connections(address, sent));
            used[which] += processor_seconds() - before.0;
            switches[which] += context_switches() - before.1;
            rates[which] += found.len() as f64 / FOR.as_secs_f64() / 3.0;
            times.extend(found);
        }
    }
    let calls = [bare.len() as f64, ours.len() as f64];
    println!(
        "| {CONNECTIONS} | calls/s | {:.0} | {:.0} | {:.2} times | 0.35 |",
        rates[0],
        rates[1],
        rates[1] / rates[0]
    );
    let of_each = |sums: [f64; 2]| (sums[0] / calls[0], sums[1] / calls[1]);
    let (low, high) = of_each(used.map(|seconds| seconds * 1e6));
    println!(
        "| {CONNECTIONS} | processor time of a call and its client | {low:.0} us | {high:.0} us | {:.1} times | |",
        high / low
    );
    let (low, high) = of_each(switches);
    println!(
        "| {CONNECTIONS} | context switches of a call and its client | {low:.2} | {high:.2} | {:.1} times | |",
        high / low
    );
    for (percent, goal) in [(50, ""), (99, "4")] {
        let (low, high) = (at(&mut bare, percent), at(&mut ours, percent));
        println!(
            "| {CONNECTIONS} | p{percent} | {low:.0} us | {high:.0} us | {:.1} times | {goal} |",
            high / low
        );
    }
}

async fn one_connection(address: SocketAddr, sent: &[u8]) -> Vec<f64> {
    let mut connection = Connection::open(address).await;
    for _ in 0..WARM_UP {
        connection.send(sent).await;
    }
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let began = Instant::now();
        assert_eq!(connection.send(sent).await.0, 200);
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    times
}

/// Returns the times of the same calls without HTTP.
async fn within_the_process(host: Host) -> Vec<f64> {
    let arguments = format!("{{\"text\": \"{}\"}}", "x".repeat(100));
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let thread_id = uuid::Uuid::now_v7().to_string();
        let request = CallRequest::from_json("echo", arguments.as_str()).on_new_thread(thread_id);
        let began = Instant::now();
        assert!(host.call(request).await.unwrap().result().is_some());
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    times
}

async fn many_connections(address: SocketAddr, sent: &[u8]) -> Vec<f64> {
    let until = Instant::now() + FOR;
    let one = async || {
        let (mut connection, mut times) = (Connection::open(address).await, Vec::new());
        while Instant::now() < until {
            let began = Instant::now();
            assert_eq!(connection.send(sent).await.0, 200);
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
        times
    };
    futures::future::join_all((0..CONNECTIONS).map(|_| one())).await.concat()
}
