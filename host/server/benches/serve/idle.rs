//! Event streams of a run that is at work but has no events: their memory, their signs of life, and
//! what remains of them. The clients are a process of their own, so that all figures are the
//! server's.

use crate::client::{Connection, request, runtime};
use crate::server::{descriptors, processor_seconds, resident, serve};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tollgate::{Agent, FnTool, Host, RunLimits, ScriptedModel, ScriptedTurn};

/// The word that makes this program a process of clients.
pub(crate) const CLIENTS: &str = "clients-of-idle-streams";
/// The number of streams, if the process may open enough descriptors: a server serves a quarter as
/// many connections, and one principal gets half of them.
const STREAMS: usize = 10_000;
/// How long the streams are watched. Each sends one sign of life in this time.
const WATCHED: Duration = Duration::from_secs(50);

pub(crate) fn table() {
    let sleeps = FnTool::new("sleep", "sleep", "Sleeps.", |_: Value, _| async {
        tokio::time::sleep(Duration::from_secs(900)).await;
        "slept"
    });
    let mut agent =
        Agent::new("sleeper", ScriptedModel::new(vec![ScriptedTurn::calls([("sleep", json!({}))])]));
    // A call that times out ends the run, and with it the streams.
    let long_ms = 900_000;
    agent.limits = RunLimits { timeout_ms: long_ms, timeout_ceiling_ms: long_ms, ..RunLimits::default() };
    let served =
        serve(async { Host::builder().tool(sleeps).agent(agent.with_tools(["*"])).build().unwrap() });
    let allowed = usize::try_from(descriptor_limit()).unwrap_or(usize::MAX);
    let streams = STREAMS.min((allowed / 8).saturating_sub(200));
    let path = runtime().block_on(async {
        let body = json!({"agent": "sleeper", "input": "Sleep.", "detached": true}).to_string();
        let accept = "application/json\r\nPrefer: respond-async";
        let start = request("POST", "/api/v1/runs", &served.key, accept, Some(&body));
        let (_, answer) = Connection::open(served.address).await.send(&start).await;
        let run: Value = serde_json::from_slice(&answer).unwrap();
        format!("/api/v1/runs/{}/events", run["run_id"].as_str().unwrap())
    });
    // The first streams pay for what is allocated once.
    let (first, _) = open(served.address, &served.key, &path, 100);
    let (before, opened) = (resident(), descriptors());
    let (clients, count) = open(served.address, &served.key, &path, streams);
    let each = (resident() - before) / count as f64 / 1024.0;
    let used = processor_seconds();
    std::thread::sleep(WATCHED);
    let share = (processor_seconds() - used) / WATCHED.as_secs_f64() * 100.0;
    println!("## Idle streams\n\n| figure | value | goal |\n|---|---:|---:|");
    println!("| streams | {count} | {STREAMS} |");
    println!("| resident memory of each | {each:.1} KiB | 24 KiB |");
    println!("| processor, of one core | {share:.1} % | 1 % |");
    close(clients);
    for _ in 0..600 {
        if descriptors() <= opened {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("| descriptors before, after | {opened}, {} | the same |\n", descriptors());
    close(first);
}

/// Starts a process of clients, waits until each has its first events, and returns their number.
fn open(address: SocketAddr, key: &str, path: &str, streams: usize) -> (Child, usize) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(CLIENTS).args([&address.to_string(), key, path, &streams.to_string()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let count = line.trim().parse().expect("the clients did not get their streams");
    (child, count)
}

/// Ends a process of clients; the system closes their connections.
fn close(mut clients: Child) {
    clients.kill().unwrap();
    clients.wait().unwrap();
}

/// Opens streams, prints their number, and reads them until the standard input ends.
pub(crate) fn clients(arguments: &[String]) {
    let four: &[String; 4] = arguments.try_into().expect("usage: ADDRESS KEY PATH STREAMS");
    let [address, key, path, streams] = four;
    let (address, streams): (SocketAddr, usize) = (address.parse().unwrap(), streams.parse().unwrap());
    descriptor_limit();
    runtime().block_on(async {
        let follow = request("GET", path, key, "text/event-stream", None);
        for _ in 0..streams {
            let mut connection = Connection::open(address).await;
            connection.write(&follow).await;
            connection.until(b"event: call_started").await;
            tokio::spawn(connection.discard());
        }
        println!("{streams}");
        tokio::task::spawn_blocking(|| std::io::stdin().lines().count()).await.unwrap();
    });
}

/// Raises the limit of open descriptors as far as allowed, and returns it.
fn descriptor_limit() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
