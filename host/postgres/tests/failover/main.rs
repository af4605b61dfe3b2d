//! Two real servers: one is killed, and its standby takes its place.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "../cluster/mod.rs"]
mod cluster;
mod full_disk;
#[path = "../../../tests/invariants/mod.rs"]
mod invariants;
mod servers;
#[path = "../story/mod.rs"]
mod story;
#[allow(dead_code, reason = "the sum of verdicts is for the chaos test")]
#[path = "../chaos/verdict.rs"]
mod verdict;

use servers::{DATABASE, Server, pair};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate::store::RunFilter;
use tollgate::{Host, RunRequest, RunUpdate, WorkOptions};
use tollgate_agent::run::Event;
use tollgate_postgres::{PostgresConfig, PostgresStore};

const LEASE: Duration = Duration::from_secs(2);
/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the configuration that names both servers.
fn config(servers: [&Server; 2]) -> PostgresConfig {
    let hosts = servers.map(|server| server.socket_dir().to_str().unwrap().replace('/', "%2F"));
    let url = format!("postgres://tollgate@{}/{DATABASE}", hosts.join(","));
    PostgresConfig::new(&url).unwrap().with_lease(LEASE).unwrap().with_connections(4).unwrap()
}

async fn host(config: &PostgresConfig, directory: &Path) -> Host {
    story::host(Arc::new(PostgresStore::connect(config.clone()).await.unwrap()), directory)
}

async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(Instant::now() < end, "{what} does not happen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn open_runs(host: &Host) -> Option<usize> {
    let filter = RunFilter { status: Some("running".to_owned()), limit: 1_000, ..RunFilter::default() };
    // The server may be away.
    Some(host.store().runs(filter).await.ok()?.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn synchronous_replication_loses_nothing_that_was_reported() {
    let (mut primary, mut standby) = pair(true).await;
    let config = config([&primary, &standby]);
    let directory = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let options =
        WorkOptions { agents: vec![story::AGENT.to_owned()], concurrency: 8, grace: Duration::ZERO };
    let mut working = Vec::new();
    for _ in 0..2 {
        let (host, options, stop) = (host(&config, directory.path()).await, options.clone(), stop.clone());
        working.push(tokio::spawn(async move { host.work(&options, &stop).await }));
    }
    let client = host(&config, &std::env::temp_dir()).await;
    let mut runs = Vec::new();
    for number in 0..8 {
        let request = RunRequest::new(story::AGENT, "Go.").on_thread(format!("t{number}"));
        runs.push(client.submit(request).await.unwrap());
    }
    until("work", async || directory.path().join(story::EFFECTS).exists().then_some(())).await;
    primary.kill();
    standby.promote();
    until("the end of all runs", async || (open_runs(&client).await? == 0).then_some(())).await;
    // The old primary comes back as a standby, and the hosts stay with the writable server.
    primary.follow(&standby);
    let request = RunRequest::new(story::AGENT, "Go.").on_thread("after");
    runs.push(client.submit(request).await.unwrap());
    until("the end of the last run", async || (open_runs(&client).await? == 0).then_some(())).await;
    stop.cancel();
    futures::future::join_all(working).await;
    let behind = standby.client().await;
    let submitted = verdict::Submitted { runs, ..verdict::Submitted::default() };
    let readers = [&**client.store()];
    let when = "a synchronous failover";
    let verdict = verdict::of(&readers, &behind, directory.path(), &submitted, when).await;
    assert_eq!(verdict.runs, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn asynchronous_replication_loses_events_and_each_run_that_lost_some_says_so() {
    let (mut primary, mut standby) = pair(false).await;
    let config = config([&primary, &standby]);
    let directory = tempfile::tempdir().unwrap();
    let drives = host(&config, directory.path()).await;
    let request = |thread: &str| RunRequest::new(story::AGENT, "Go.").on_thread(thread).detached();
    let whole = drives.run(request("whole")).await.unwrap();
    let (kept, _) = (Arc::clone(&whole.run_id), whole.wait().await.unwrap());
    standby.has_caught_up_with(&primary).await;
    // From now on, the standby receives nothing.
    standby.cut_off().await;
    let mut lost = drives.run(request("lost")).await.unwrap();
    until("an event", async || match lost.events.next().await {
        Some(RunUpdate::Stored(event)) => matches!(event.event, Event::ModelReplied { .. }).then_some(()),
        _ => None,
    })
    .await;
    primary.kill();
    standby.promote();
    let lost_id = Arc::clone(&lost.run_id);
    let why = tokio::time::timeout(PATIENCE, lost.wait()).await.expect("it ends").unwrap_err().to_string();
    assert!(why.contains("the store has lost events of the run that were reported"), "{why}");
    // The records on the standby are whole, and new runs continue there.
    assert!(drives.store().events(&lost_id, 0).await.unwrap().is_empty());
    let record = drives.store().events(&kept, 0).await.unwrap();
    assert!(matches!(record.last().unwrap().event, Event::RunFinished { .. }));
    let next = drives.run(request("next")).await.unwrap();
    let end = tokio::time::timeout(PATIENCE, next.wait()).await.expect("it ends").unwrap();
    assert_eq!(end.text, story::ANSWER);
}
