//! The cost of many hosts on one PostgreSQL, beside the raw floor in the same run: an INSERT of the
//! same row, and a bare notification.
//!
//! `scripts/bench postgresql` prints the tables of docs/postgresql.md. One is measured on a server that keeps what
//! it has confirmed, as operators run it. The other one is measured without syncs to the disk, which leaves
//! the cost of the protocol and of the processors.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "../cluster/mod.rs"]
mod cluster;
mod floor;
mod growth;
mod held_open;
mod quick;
mod statements;

use cluster::{Database, cluster};
use futures::future::join_all;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tollgate::store::{Commit, CoordinationStore, RunStore};
use tollgate::{Host, RunRequest, RunUpdate, WorkOptions};
use tollgate_agent::context::RunIdentity;
use tollgate_agent::run::{AgentSpec, Event, RunLimits, RunSpec, Task};
use tollgate_postgres::PostgresStore;

/// The number of runs at once, and of commits of each.
const RUNS: u64 = 64;
const EACH: u64 = 30;
/// How long nothing happens before a run whose first reply is timed.
const IDLE: Duration = Duration::from_millis(20);
/// How long a step may take before something is wrong.
const PATIENCE: Duration = Duration::from_secs(300);

fn started(run: &str, task: Task) -> Event {
    let identity = RunIdentity {
        run_id: run.into(),
        thread_id: run.into(),
        agent_id: quick::AGENT.into(),
        ..RunIdentity::default()
    };
    let spec = RunSpec {
        identity,
        agent: AgentSpec::default().into(),
        limits: RunLimits::default(),
        task,
        detached: true,
    };
    Event::RunStarted { spec: Arc::new(spec) }
}

fn call() -> Task {
    Task::Call { tool_name: "echo".into(), arguments: "{}".into() }
}

/// A commit of the first driver of a run on its own thread.
fn commit(run: &str, after: u64, event: Event) -> Commit {
    let mut commit = Commit::new(Arc::from(run), Arc::from(run), after, 7, vec![event]);
    commit.epoch = 1;
    commit
}

fn step(number: u64) -> Event {
    Event::StepStarted { step: u32::try_from(number).unwrap() }
}

async fn store_on(database: &Database) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::connect(database.config()).await.unwrap())
}

fn per_second(number: u64, began: Instant) -> f64 {
    number as f64 / began.elapsed().as_secs_f64()
}

/// Returns the value that this share of the values is below.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}

fn row(measure: &str, value: &str, floor: &str, ratio: f64, goal: &str) {
    println!("| {measure} | {value} | {floor} | {ratio:.2} | {goal} |");
}

/// Commits of `runs` at once, on threads of their own or all on one.
async fn commits(store: &Arc<PostgresStore>, name: &str, runs: u64, each: u64, one_thread: bool) -> f64 {
    let begin = (0..runs).map(|number| {
        let (store, run) = (Arc::clone(store), format!("{name}-{number}"));
        let thread: Arc<str> = if one_thread { Arc::from(name) } else { Arc::from(run.as_str()) };
        async move {
            let mut first = commit(&run, 0, started(&run, call()));
            first.thread_id = Arc::clone(&thread);
            store.commit(first).await.unwrap();
            (store, run, thread)
        }
    });
    let begun = join_all(begin).await;
    let began = Instant::now();
    let runs = begun.into_iter().map(|(store, run, thread)| {
        tokio::spawn(async move {
            for number in 1..=each {
                let mut commit = commit(&run, number, step(number));
                commit.thread_id = Arc::clone(&thread);
                store.commit(commit).await.unwrap();
            }
        })
    });
    let count = join_all(runs).await.into_iter().map(Result::unwrap).count() as u64;
    per_second(count * each, began)
}

/// Whether the server syncs what it has confirmed to the disk.
async fn set_durable(is_durable: bool) {
    let client = cluster().client("postgres").await.unwrap();
    for setting in ["fsync", "full_page_writes"] {
        let change = match is_durable {
            true => format!("ALTER SYSTEM SET {setting} = on"),
            false => format!("ALTER SYSTEM RESET {setting}"),
        };
        client.batch_execute(&change).await.unwrap();
    }
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        let now: String =
            cluster().client("postgres").await.unwrap().query_one("SHOW fsync", &[]).await.unwrap().get(0);
        if (now == "on") == is_durable {
            return;
        }
        assert!(Instant::now() < until, "the settings do not change");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn the_table_of_a_durable_server() {
    set_durable(true).await;
    println!("\nA durable server:\n");
    table().await;
    for runs in [1, 500] {
        takeover(runs).await;
    }
    set_durable(false).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn the_table_without_syncs() {
    set_durable(false).await;
    println!("\nWithout syncs:\n");
    table().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn the_number_of_statements() {
    statements::table().await;
}

async fn table() {
    println!("| Measure | Value | Floor | Ratio | Goal |\n|---|---|---|---|---|");
    let database = cluster().database().await;
    let store = store_on(&database).await;
    let body = serde_json::to_string(&step(1)).unwrap();
    let one = floor::inserts(&database, 1, 1_000, &body).await;
    let eight = floor::inserts(&database, 8, 500, &body).await;
    let of_one = commits(&store, "one", 1, 1_000, false).await;
    row(
        "commits of one run, per second",
        &format!("{of_one:.0}"),
        &format!("{one:.0}"),
        one / of_one,
        "≤ 1.5 x the time",
    );
    let of_many = commits(&store, "many", RUNS, EACH, false).await;
    row(
        "commits of 64 runs on 8 connections, per second",
        &format!("{of_many:.0}"),
        &format!("{eight:.0}"),
        of_many / eight,
        "≥ 0.6 x",
    );
    let of_thread = commits(&store, "thread", 16, EACH, true).await;
    row(
        "commits of 16 runs on one thread, per second",
        &format!("{of_thread:.0}"),
        &format!("{of_one:.0}"),
        of_thread / of_one,
        "≥ 0.5 x",
    );
    for hosts in [1, 2, 4] {
        whole_runs(hosts, eight).await;
    }
    submit_to_first_event().await;
}

/// Whole runs with three calls, submitted at once and driven by hosts that claim them.
async fn whole_runs(hosts: usize, inserts: f64) {
    let database = cluster().database().await;
    let submits = quick::host(store_on(&database).await);
    let stop = CancellationToken::new();
    let mut working = Vec::new();
    for _ in 0..hosts {
        let (host, stop) = (quick::host(store_on(&database).await), stop.clone());
        working.push(tokio::spawn(async move { host.work(&options(), &stop).await }));
    }
    let behind = database.client().await;
    let finished = async |wanted: usize| {
        let until = Instant::now() + PATIENCE;
        let sql = "SELECT count(*) FROM runs WHERE status = 'completed'";
        while behind.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) < i64::try_from(wanted).unwrap() {
            assert!(Instant::now() < until, "the runs do not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let submit = async |number: u64| {
        submits.submit(RunRequest::new(quick::AGENT, "Go.").on_thread(format!("w{number}"))).await.unwrap()
    };
    // The first runs warm the hosts up: each connection plans the statements that it sends for the first time.
    let first = join_all((0..RUNS * 2).map(&submit)).await.len();
    finished(first).await;
    let began = Instant::now();
    let runs = join_all((1_000..1_000 + RUNS * 3).map(&submit)).await;
    finished(first + runs.len()).await;
    let rate = per_second(runs.len() as u64, began);
    stop.cancel();
    join_all(working).await;
    // Each commit and each claim updates the row of its run.
    tokio::time::sleep(growth::STATISTICS).await;
    let sql = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'runs'";
    let updates: i64 = behind.query_one(sql, &[]).await.unwrap().get(0);
    let commits = updates as f64 / (first + runs.len()) as f64;
    let floor = inserts / commits;
    let measure = format!("whole runs with 3 calls, {hosts} hosts, per second");
    row(
        &measure,
        &format!("{rate:.0}"),
        &format!("{floor:.0} ({commits:.1} INSERTs each)"),
        rate / floor,
        "≥ 0.5 x",
    );
}

fn options() -> WorkOptions {
    WorkOptions {
        agents: vec![quick::AGENT.to_owned()],
        concurrency: usize::try_from(RUNS).unwrap(),
        grace: Duration::from_secs(5),
    }
}

/// The time from `submit` on one host to the first event of another one.
async fn submit_to_first_event() {
    let database = cluster().database().await;
    let submits = quick::host(store_on(&database).await);
    let (works, stop) = (quick::host(store_on(&database).await), CancellationToken::new());
    let stopped = stop.clone();
    let working = tokio::spawn(async move { works.work(&options(), &stopped).await });
    let mut times = Vec::new();
    for number in 0..60 {
        // The hosts have nothing else to do.
        tokio::time::sleep(IDLE).await;
        let began = Instant::now();
        let run = submits
            .submit(RunRequest::new(quick::AGENT, "Go.").on_thread(format!("s{number}")))
            .await
            .unwrap();
        let mut events = submits.follow(&run, 0).await.unwrap();
        // The events before it were stored by the host that submitted the run.
        let is_first = |update: &RunUpdate| matches!(update, RunUpdate::Stored(event) if matches!(event.event, Event::ModelReplied { .. }));
        while !is_first(&tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap()) {}
        times.push(began.elapsed().as_secs_f64() * 1_000.0);
        while events.next().await.is_some() {}
    }
    stop.cancel();
    working.await.unwrap();
    let floor = quantile(floor::notifications(&database, 60).await, 0.5);
    let (half, most) = (quantile(times.clone(), 0.5), quantile(times, 0.99));
    let value = format!("{half:.1} ms (p99 {most:.1} ms)");
    row(
        "submit on A to the model's first reply by B",
        &value,
        &format!("{floor:.1} ms"),
        half / floor,
        "p50 ≤ 3 x",
    );
}

/// The time from the death of a host to the claim of its last run by another one.
async fn takeover(runs: usize) {
    const LEASE: Duration = Duration::from_secs(4);
    let mut leases = Vec::new();
    for _ in 0..3 {
        let database = cluster().database().await;
        let config = database.config().with_lease(LEASE).unwrap();
        let gone = PostgresStore::connect(config.clone()).await.unwrap();
        for number in 0..runs {
            let run = format!("r{number:04}");
            gone.commit(commit(&run, 0, started(&run, Task::Prompt("Go.".to_owned())))).await.unwrap();
        }
        let other = PostgresStore::connect(config).await.unwrap();
        other.admit(None, None, None).await.unwrap();
        drop(gone);
        let (began, mut taken) = (Instant::now(), 0);
        while taken < runs {
            taken += other.claim(&[quick::AGENT.to_owned()], runs).await.unwrap().len();
            assert!(began.elapsed() < PATIENCE, "no takeover");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        leases.push(began.elapsed().as_secs_f64() / LEASE.as_secs_f64());
    }
    let most = quantile(leases.clone(), 1.0);
    let value = format!("{:.2} leases (most of 3: {most:.2})", quantile(leases, 0.5));
    row(&format!("takeover of {runs} runs after kill -9"), &value, "1 lease", most, "≤ 1.35");
}

/// Returns the host for the tables of growth.
fn host_on(store: &Arc<PostgresStore>) -> Host {
    quick::host(Arc::clone(store))
}
