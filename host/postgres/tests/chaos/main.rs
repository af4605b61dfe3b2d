//! Three host processes that are killed, stopped and cut off while they drive runs, and whose clocks
//! step, one of them behind a connection pooler that is killed, too. Whatever happens, nothing that was reported is
//! lost, and no call runs twice that may not.
//!
//! The test starts itself as the host process (`process.rs`). `scripts/chaos` runs many seeds; a
//! few are run here.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod clocks;
#[path = "../cluster/mod.rs"]
mod cluster;
mod faults;
#[path = "../../../tests/invariants/mod.rs"]
mod invariants;
mod process;
#[path = "../proxy/mod.rs"]
mod proxy;
mod reaching;
#[path = "../story/mod.rs"]
mod story;
mod verdict;

use cluster::{Database, Pooler, cluster, without_pooler};
use faults::{Fault, Kind, Random};
use process::{HostProcess, without_clock};
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
    /// The pooler of the first host; `None` if it is not installed.
    pooler: Option<Pooler>,
    /// Two clients, so that a question is sometimes answered twice.
    clients: [Host; 2],
    submitted: verdict::Submitted,
    faults: u64,
}

impl Story {
    async fn new(seed: u64) -> Self {
        let (database, directory) = (cluster().database().await, tempfile::tempdir().unwrap());
        let pooler = Pooler::start(cluster());
        if pooler.is_none() {
            without_pooler();
        }
        let mut hosts = Vec::new();
        for number in 0..HOSTS {
            let pooler = pooler.as_ref().filter(|_| number == 0);
            hosts.push(HostProcess::start(&database.name, directory.path(), pooler).await);
        }
        if !hosts[0].has_clock() {
            without_clock();
        }
        let clients = [client(&database).await, client(&database).await];
        let (random, submitted) = (Random::new(seed), verdict::Submitted::default());
        Self { seed, random, database, directory, hosts, pooler, clients, submitted, faults: 0 }
    }

    async fn tell(mut self) -> verdict::Verdict {
        for number in 0..FAULTS {
            for _ in 0..RUNS_PER_FAULT {
                self.submit(self.submitted.runs.len()).await;
            }
            let fault = Fault::draw(&mut self.random, HOSTS, LEASE, number == 0);
            if number == 0 {
                self.until_at_work().await;
            }
            self.suffer(fault).await;
            self.answer().await;
            self.cancel().await;
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
        let readers: Vec<&dyn Store> = self.clients.iter().map(|client| &**client.store()).collect();
        let mut told = verdict::of(&readers, &behind, self.directory.path(), &self.submitted, &when).await;
        told.faults = self.faults;
        told
    }

    async fn submit(&mut self, number: usize) {
        let prompt = match self.random.below(4) {
            0 => "Please ask.",
            1 => "Please delegate.",
            _ => "Go.",
        };
        let first = (number < RUNS_PER_FAULT).then_some(number as u64);
        let thread = format!("t{}", first.unwrap_or_else(|| self.random.below(THREADS)));
        let request = RunRequest::new(story::AGENT, format!("{number}: {prompt}")).on_thread(thread);
        let client = &self.clients[number % 2];
        self.submitted.runs.push(client.submit(request).await.unwrap());
    }

    async fn suffer(&mut self, fault: Fault) {
        self.faults += 1;
        println!("  {fault:?}");
        self.submitted.clock_stepped |=
            matches!(fault.kind, Kind::Clock(_)) && self.hosts[fault.host].has_clock();
        match (fault.kind, &mut self.pooler) {
            (Kind::KillPooler, Some(pooler)) => pooler.kill_and_restart(cluster()),
            (kind, _) => self.hosts[fault.host].suffer(kind, &self.database).await,
        }
        tokio::time::sleep(fault.pause).await;
    }

    /// Cancels a run after some of the faults, whatever it does at that moment.
    async fn cancel(&mut self) {
        if self.random.below(3) != 0 {
            return;
        }
        let newest = (RUNS_PER_FAULT as u64).min(self.submitted.runs.len() as u64);
        let at = self.submitted.runs.len() - 1 - usize::try_from(self.random.below(newest)).unwrap();
        let run_id = Arc::clone(&self.submitted.runs[at]);
        self.submitted.cancelled.insert(Arc::clone(&run_id));
        // It may have ended by itself.
        let _ = self.clients[0].send(&run_id, RunCommand::Cancel("no longer needed".to_owned())).await;
    }

    /// Waits until the hosts have begun.
    async fn until_at_work(&self) {
        let until = Instant::now() + PATIENCE;
        while self.open().await.iter().filter(|run| run.is_driven).count() < RUNS_PER_FAULT {
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
                    by_key: false,
                };
                // The other client may have been faster.
                let _ = client.send(&run.run_id, RunCommand::Decide(decision)).await;
            }
        }
    }

    /// Returns the runs that have not ended. They are read at once: between two lists, a run could go
    /// from one to the other.
    async fn open(&self) -> Vec<RunSummary> {
        let filter = RunFilter { limit: 1_000, ..RunFilter::default() };
        let mut runs = self.clients[0].store().runs(filter).await.unwrap();
        runs.retain(RunSummary::is_open);
        runs
    }
}

/// A client that reaches the database whatever happens to the hosts. It drives nothing.
async fn client(database: &Database) -> Host {
    let config = database.config().with_connections(4).unwrap();
    let store = PostgresStore::connect(config).await.unwrap();
    let nowhere = std::env::temp_dir();
    story::host(Arc::new(store) as Arc<dyn Store>, &nowhere)
}
