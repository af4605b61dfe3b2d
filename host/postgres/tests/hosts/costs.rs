//! The cost of commits, beside the raw floor: an INSERT of the same bytes over the same socket.
//!
//! `cargo test -p tollgate-postgres --test hosts costs -- --ignored --nocapture` prints the table.
//! The test server does not sync to the disk, so the figures are those of the protocol and the
//! processors, and the ratios are upper bounds.

use crate::cluster::cluster;
use crate::{commit, prompt, started, step, until};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate::store::Store;
use tollgate_agent::run::Task;
use tollgate_postgres::PostgresStore;

const COMMITS: u64 = 300;
const RUNS: u64 = 64;
const EACH: u64 = 30;

fn per_second(number: u64, began: Instant) -> f64 {
    number as f64 / began.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn commits_beside_inserts_of_the_same_bytes() {
    let database = cluster().database().await;
    let store = Arc::new(PostgresStore::connect(database.config()).await.unwrap());
    let raw = database.client().await;
    raw.batch_execute("CREATE TABLE floor (id bigserial PRIMARY KEY, body text)").await.unwrap();
    let body = serde_json::to_string(&step(1)).unwrap();
    let began = Instant::now();
    for _ in 0..COMMITS {
        let insert = "INSERT INTO floor (body) VALUES ($1)";
        raw.execute_typed(insert, &[(&body, tokio_postgres::types::Type::TEXT)]).await.unwrap();
    }
    let inserts = per_second(COMMITS, began);
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    let began = Instant::now();
    for number in 0..COMMITS {
        store.commit(commit("r", 1, number + 1, vec![step(1)])).await.unwrap();
    }
    let commits = per_second(COMMITS, began);
    let began = Instant::now();
    let runs = (0..RUNS).map(|run| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let run = format!("run {run}");
            let of_run = |after: u64, events| {
                let mut commit = commit(&run, 1, after, events);
                commit.thread_id = Arc::from(run.as_str());
                commit
            };
            store.commit(of_run(0, vec![started(&run, prompt())])).await.unwrap();
            for number in 1..EACH {
                store.commit(of_run(number, vec![step(1)])).await.unwrap();
            }
        })
    });
    for run in futures::future::join_all(runs).await {
        run.unwrap();
    }
    let together = per_second(RUNS * EACH, began);
    println!("| measure | per second | compared with one INSERT at a time |\n|---|---|---|");
    println!("| INSERT of the same bytes | {inserts:.0} | 1.00 |");
    println!("| commits of one run | {commits:.0} | {:.2} |", commits / inserts);
    println!("| commits of {RUNS} runs on 8 connections | {together:.0} | {:.2} |", together / inserts);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn a_takeover_in_leases() {
    const LEASE: Duration = Duration::from_secs(4);
    let mut leases = Vec::new();
    for _ in 0..3 {
        let database = cluster().database().await;
        let config = database.config().with_lease(LEASE).unwrap();
        let gone = PostgresStore::connect(config.clone()).await.unwrap();
        let task = Task::Prompt("Go.".to_owned());
        gone.commit(commit("r", 1, 0, vec![started("r", task)])).await.unwrap();
        let other = PostgresStore::connect(config).await.unwrap();
        other.admit(None, None).await.unwrap();
        drop(gone);
        let began = Instant::now();
        until("the takeover", async || other.claim(&["a".to_owned()], 1).await.unwrap().pop()).await;
        leases.push(began.elapsed().as_secs_f64() / LEASE.as_secs_f64());
    }
    println!("takeovers after {leases:.2?} leases; the goal is 1.35");
}
