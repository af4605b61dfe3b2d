//! Measures calls that wait for a person: they cost rows of the store, and no memory.

use crate::measure::governed;
use crate::measure::rounds::median;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tollgate::store::{RunFilter, SqliteStore, Store};
use tollgate::tools::Toolbox;
use tollgate::{CallRequest, Host};
use tollgate_agent::run::{Decision, DecisionAnswer};
use tollgate_artifacts::good;
use tollgate_sandbox::Sandbox;

/// The number of parallel calls while the store is filled.
const AT_ONCE: usize = 64;
/// The number of times that each query is repeated.
const TIMES: usize = 50;

/// Prints, for each number of waiting calls, their cost and how fast they are listed, found and
/// decided.
pub(crate) async fn table(sandbox: &Sandbox, counts: &[usize]) {
    let component = good::SUSPENDS.bytes();
    let toolbox = governed::toolbox(sandbox, &[("suspends", &component)], 1).await;
    println!("| waiting calls | on disk | memory of the process | list 20 | find one | decide one |");
    println!("|---:|---:|---:|---:|---:|---:|");
    for count in counts {
        let data = tempfile::tempdir().unwrap();
        fill(&toolbox, data.path(), *count).await;
        // No process holds waiting calls: another one finds them.
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(data.path()).unwrap());
        let host = Host::builder().toolbox(toolbox.clone()).store(Arc::clone(&store)).build().unwrap();
        let waiting = RunFilter { status: Some("waiting".to_owned()), limit: 20, ..RunFilter::default() };
        let listed = store.runs(waiting.clone()).await.unwrap();
        assert_eq!(listed.len(), 20);
        let list = timed(async |_| drop(store.runs(waiting.clone()).await.unwrap())).await;
        let oldest = oldest(&store, *count).await;
        let find = timed(async |n| {
            let prefix = oldest[n][..30].to_owned();
            let filter = RunFilter { run_id_prefix: Some(prefix), limit: 4, ..RunFilter::default() };
            assert_eq!(store.runs(filter).await.unwrap().len(), 1);
        })
        .await;
        let decide = timed(async |n| decide(&host, &oldest[n]).await).await;
        println!(
            "| {count} | {:.1} MiB | {:.0} MiB | {list:.2} ms | {find:.2} ms | {decide:.2} ms |",
            size_mib(data.path()),
            resident_mib(),
        );
    }
    println!();
}

async fn fill(toolbox: &Toolbox, data: &Path, count: usize) {
    let store = Arc::new(SqliteStore::open(data).unwrap());
    let host = Host::builder().toolbox(toolbox.clone()).store(store).build().unwrap();
    let callers = (0..AT_ONCE).map(|caller| {
        let host = host.clone();
        tokio::spawn(async move {
            for _ in (caller..count).step_by(AT_ONCE) {
                let end = host.call(CallRequest::from_json(good::SUSPENDS.name, "{}")).await.unwrap();
                assert_eq!(end.waiting.len(), 1);
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
}

/// Returns the ids of some of the runs that have waited longest.
async fn oldest(store: &Arc<dyn Store>, count: usize) -> Vec<String> {
    let all = store.runs(RunFilter { limit: count, ..RunFilter::default() }).await.unwrap();
    assert_eq!(all.len(), count);
    all.into_iter().rev().take(TIMES).map(|run| run.run_id).collect()
}

async fn decide(host: &Host, run_id: &str) {
    let decision = Decision {
        id: "d".to_owned(),
        target: "call-1".to_owned(),
        answer: DecisionAnswer::Resume(json!({"approved": true})),
        reason: None,
        by: None,
        by_key: false,
        at_ms: 1,
    };
    let end = host.decide(run_id, decision).await.unwrap().wait().await.unwrap();
    assert!(end.waiting.is_empty());
}

/// Returns the median time of one repetition, in milliseconds.
async fn timed(mut one: impl AsyncFnMut(usize)) -> f64 {
    let mut times = Vec::new();
    for n in 0..TIMES {
        let began = Instant::now();
        one(n).await;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    median(&times)
}

fn size_mib(data: &Path) -> f64 {
    let file = std::fs::metadata(data.join("tollgate.db")).unwrap();
    file.len() as f64 / f64::from(1 << 20)
}

/// Returns the resident memory of this process, as Linux counts it.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}
