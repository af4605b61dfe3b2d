//! Three host processes that are killed, stopped and cut off while they drive runs. Whatever
//! happens, nothing that was reported is lost, and no call runs twice that may not.
//!
//! The test starts itself as the host process (`process.rs`). `scripts/chaos` runs many seeds; a
//! few are run here.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "../cluster/mod.rs"]
mod cluster;
mod faults;
mod process;
#[path = "../proxy/mod.rs"]
mod proxy;
mod reaching;
#[path = "../story/mod.rs"]
mod story;
mod verdict;

use cluster::{Database, cluster};
use faults::{Fault, Random};
use process::HostProcess;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tollgate::store::{RunCommand, RunFilter, RunSummary, Store};
use tollgate::{Host, RunRequest};
use tollgate_agent::run::{Decision, DecisionAnswer, Event};
use tollgate_postgres::PostgresStore;

/// The lease of the hosts. Short, so that many takeovers happen.
const LEASE: Duration = Duration::from_millis(1_000);
const HOSTS: usize = 3;
const FAULTS: usize = 8;
/// The runs that are submitted before each fault; the first ones are on threads of their own.
const RUNS_PER_FAULT: usize = 3;
const THREADS: u64 = 12;
/// How long a story may take after its last fault.
const PATIENCE: Duration = Duration::from_secs(180);

/// A number from the environment, such as `scripts/chaos` sets it.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_may_be_killed_stopped_and_cut_off_at_any_moment() {
    let first = number("TOLLGATE_CHAOS_SEED", u64::from(std::process::id()));
    let seeds = number("TOLLGATE_CHAOS_SEEDS", 2);
    let mut sum = verdict::Verdict::default();
    for seed in first..first + seeds {
        println!("TOLLGATE_CHAOS_SEED={seed}");
        let told = Story::new(seed).await.tell().await;
        println!("  {told:?}");
        sum.add(&told);
    }
    println!("{seeds} seeds: {sum:?}");
    assert!(sum.faults > 0 && sum.takeovers > 0, "nothing happened: {sum:?}");
}

/// One story: a database, three hosts, and a client that submits runs and answers questions.
struct Story {
    seed: u64,
    random: Random,
    database: Database,
    directory: tempfile::TempDir,
    hosts: Vec<HostProcess>,
    /// Two clients, so that a question is sometimes answered twice.
    clients: [Host; 2],
    runs: Vec<Arc<str>>,
    faults: u64,
}

impl Story {
    async fn new(seed: u64) -> Self {
        let (database, directory) = (cluster().database().await, tempfile::tempdir().unwrap());
        let mut hosts = Vec::new();
        for _ in 0..HOSTS {
            hosts.push(HostProcess::start(&database.name, directory.path()).await);
        }
        let clients = [client(&database).await, client(&database).await];
        let random = Random::new(seed);
        Self { seed, random, database, directory, hosts, clients, runs: Vec::new(), faults: 0 }
    }

    async fn tell(mut self) -> verdict::Verdict {
        for number in 0..FAULTS {
            for _ in 0..RUNS_PER_FAULT {
                self.submit(self.runs.len()).await;
            }
            let fault = Fault::draw(&mut self.random, HOSTS, LEASE, number == 0);
            if number == 0 {
                self.until_at_work().await;
            }
            self.suffer(fault).await;
            self.answer().await;
        }
        self.heal().await;
        let until = Instant::now() + PATIENCE;
        loop {
            self.answer().await;
            let open = self.open().await;
            if open.is_empty() {
                break;
            }
            assert!(Instant::now() < until, "seed {}: the story does not end: {open:?}", self.seed);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        drop(std::mem::take(&mut self.hosts));
        let when = format!("seed {}", self.seed);
        let behind = self.database.client().await;
        let mut told =
            verdict::of(self.clients[0].store(), &behind, self.directory.path(), &self.runs, &when).await;
        told.faults = self.faults;
        told
    }

    async fn submit(&mut self, number: usize) {
        let prompt = if self.random.below(3) == 0 { "Please ask." } else { "Go." };
        let first = (number < RUNS_PER_FAULT).then_some(number as u64);
        let thread = format!("t{}", first.unwrap_or_else(|| self.random.below(THREADS)));
        let request = RunRequest::new(story::AGENT, format!("{number}: {prompt}")).on_thread(thread);
        let client = &self.clients[number % 2];
        self.runs.push(client.submit(request).await.unwrap());
    }

    async fn suffer(&mut self, fault: Fault) {
        self.faults += 1;
        let host = &mut self.hosts[fault.host];
        println!("  {fault:?}");
        host.suffer(&fault, &self.database).await;
        tokio::time::sleep(fault.pause).await;
    }

    /// Waits until the hosts have begun.
    async fn until_at_work(&self) {
        let until = Instant::now() + PATIENCE;
        while self.open().await.iter().filter(|run| run.at_work).count() < RUNS_PER_FAULT {
            assert!(Instant::now() < until, "seed {}: no host begins", self.seed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn heal(&mut self) {
        for host in &mut self.hosts {
            host.heal().await;
        }
    }

    /// Answers every question that waits; some of them on two hosts.
    async fn answer(&mut self) {
        let filter = RunFilter { status: Some("waiting".to_owned()), limit: 1_000, ..RunFilter::default() };
        for run in self.clients[0].store().runs(filter).await.unwrap() {
            let record = self.clients[0].store().events(&run.run_id, 0).await.unwrap();
            let asked = record.iter().rev().find_map(|event| match &event.event {
                Event::CallSuspended(asked) => Some(asked.suspension_id.clone()),
                _ => None,
            });
            let Some(target) = asked else { continue };
            let both = self.random.below(2) == 0;
            for (number, client) in self.clients.iter().enumerate().take(if both { 2 } else { 1 }) {
                let decision = Decision {
                    id: format!("{number} for {target}"),
                    target: target.clone(),
                    answer: DecisionAnswer::Resume(serde_json::json!(true)),
                    reason: None,
                    at_ms: 1,
                    by: None,
                };
                // The other client may have been faster.
                let _ = client.send(&run.run_id, RunCommand::Decide(decision)).await;
            }
        }
    }

    /// Returns the runs that have not ended.
    async fn open(&self) -> Vec<RunSummary> {
        let mut open = Vec::new();
        for status in ["running", "waiting"] {
            let filter = RunFilter { status: Some(status.to_owned()), limit: 1_000, ..RunFilter::default() };
            open.extend(self.clients[0].store().runs(filter).await.unwrap());
        }
        open
    }
}

/// A client that reaches the database whatever happens to the hosts. It drives nothing.
async fn client(database: &Database) -> Host {
    let config = database.config().with_connections(4).unwrap();
    let store = PostgresStore::connect(config).await.unwrap();
    let nowhere = std::env::temp_dir();
    story::host(Arc::new(store) as Arc<dyn Store>, &nowhere)
}
