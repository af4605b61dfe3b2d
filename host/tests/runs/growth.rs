//! The cost of a commit does not depend on the size of the store.

use crate::place::sqlite;
use crate::world::host_on;
use std::time::{Duration, Instant};
use tollgate::store::RunFilter;
use tollgate::{CallRequest, Host};

/// Returns the median time of many direct calls, each of which is one commit.
async fn time_of_a_commit(host: &Host) -> Duration {
    let mut times = Vec::new();
    for _ in 0..40 {
        let began = Instant::now();
        host.call(CallRequest::from_json("echo", "{}").on_thread("t")).await.unwrap();
        times.push(began.elapsed());
    }
    times.sort_unstable();
    times[20]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_commit_does_not_grow_with_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let host = host_on(sqlite(folder.path()), Vec::new());
    let before = time_of_a_commit(&host).await;
    // Readers wait for records that are not written yet.
    assert_eq!(host.store().runs(RunFilter { limit: 100, ..RunFilter::default() }).await.unwrap().len(), 40);
    let filler = "INSERT INTO events (id, at_ms, body)
        WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 301000)
        SELECT ((SELECT max(id) FROM runs) << 32) | i, 7, printf('{\"type\":\"step_finished\",\"step\":%d}', i) FROM n";
    rusqlite::Connection::open(folder.path().join("tollgate.db")).unwrap().execute(filler, []).unwrap();
    let after = time_of_a_commit(&host).await;
    // Scanning all 300,000 events takes far longer.
    assert!(after < before * 5 + Duration::from_millis(20), "{before:?}, then {after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_changes_state_writes_few_pages() {
    const CALLS: u64 = 40;
    let folder = tempfile::tempdir().unwrap();
    let host = host_on(sqlite(folder.path()), Vec::new());
    let pages = || {
        let log = std::fs::metadata(folder.path().join("tollgate.db-wal")).unwrap().len();
        log / (4096 + 24)
    };
    let set = async || {
        let request = CallRequest::from_json("set_city", r#"{"city": "Bern"}"#).on_thread("t");
        host.call(request).await.unwrap()
    };
    set().await;
    let before = pages();
    for _ in 0..CALLS {
        set().await;
    }
    let each = (pages() - before) as f64 / CALLS as f64;
    // One page for each table and index, and one or sometimes two for the record, which fills half
    // a page.
    assert!(each < 16.0, "{each} pages a call");
}
