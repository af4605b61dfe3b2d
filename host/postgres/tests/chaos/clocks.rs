//! A host process whose clock steps by hours.

use crate::process::{HostProcess, without_clock};
use crate::reaching::{question, yes};
use crate::{PATIENCE, client, cluster, story};
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Client;
use tollgate::{RunRequest, RunStatus};
use tollgate_agent::run::Event;

const HOUR: i64 = 3_600;

/// Returns the driver of a run with its epoch, and how often that driver has renewed its lease.
async fn driver(behind: &Client, run_id: &str) -> ((Option<String>, i64), i64) {
    let sql = "SELECT r.owner, r.epoch, coalesce(h.renewals, 0) FROM runs r
        LEFT JOIN hosts h ON h.id = r.owner AND h.state = 'up' WHERE r.id = $1";
    let row = behind.query_one(sql, &[&run_id]).await.unwrap();
    ((row.get(0), row.get(1)), row.get(2))
}

/// Waits until the driver has renewed its lease for longer than a lease.
async fn outlast_the_lease(behind: &Client, run_id: &str) {
    let (until, before) = (Instant::now() + PATIENCE, driver(behind, run_id).await.1);
    while driver(behind, run_id).await.1 < before + 5 {
        assert!(Instant::now() < until, "the host does not renew its lease");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_whose_clock_steps_by_hours_keeps_its_lease_and_its_run() {
    let (database, directory) = (cluster().database().await, tempfile::tempdir().unwrap());
    // One of them drives the run, and the other one would take it over.
    let hosts = [
        HostProcess::start(&database.name, directory.path(), None).await,
        HostProcess::start(&database.name, directory.path(), None).await,
    ];
    let step = |seconds| hosts.iter().all(|host| host.set_clock(seconds));
    if !step(0) {
        return without_clock();
    }
    let (client, behind) = (client(&database).await, database.client().await);
    let request = RunRequest::new(story::AGENT, "Please linger.").on_thread("t");
    let run_id = client.submit(request).await.unwrap();
    let target = question(&client, &run_id).await;
    let (first, _) = driver(&behind, &run_id).await;
    step(2 * HOUR);
    outlast_the_lease(&behind, &run_id).await;
    let handle = client.decide(&run_id, yes(target)).await.unwrap();
    step(-3 * HOUR);
    outlast_the_lease(&behind, &run_id).await;
    assert_eq!(driver(&behind, &run_id).await.0, first, "it was taken over");
    client.cancel(&run_id, Some("enough".to_owned())).await.unwrap();
    let end = tokio::time::timeout(PATIENCE, handle.wait()).await.expect("the run ends").unwrap();
    assert_eq!(end.status, Some(RunStatus::Cancelled { reason: "enough".to_owned() }));
    let record = client.store().events(&run_id, 0).await.unwrap();
    let decided = |event: &Event| matches!(event, Event::CallDecided { .. });
    let decided_at = record.iter().find(|stored| decided(&stored.event)).unwrap().at_ms;
    let now_ms = u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    assert!(decided_at > now_ms + 3_600_000, "its clock did not step");
    assert!(record.is_sorted_by_key(|stored| stored.at_ms), "a time goes back");
}
