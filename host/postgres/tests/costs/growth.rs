//! How the cost grows with the number of runs that are stored.

use crate::cluster::{Database, cluster};
use crate::{commits, host_on, options, quick, store_on};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tollgate::RunRequest;
use tollgate::store::{RunFilter, RunStore};
use tollgate_postgres::PostgresStore;

/// How long a server process may keep its statistics to itself.
pub(crate) const STATISTICS: Duration = Duration::from_secs(12);

/// Stores finished runs of two events each, up to this number.
async fn fill(database: &Database, from: u64, to: u64) {
    let client = database.client().await;
    let (first, body) = (from + 1, r#"{"type":"step_started","step":1}"#);
    for sql in [
        format!("INSERT INTO threads (id) SELECT 'old' || g FROM generate_series({first}, {to}) g"),
        format!(
            "INSERT INTO runs (id, thread, agent, kind, title, status, owner, epoch, events, last_commit,
                last_moved, started_at_ms, updated_at_ms)
             SELECT '0' || lpad(g::text, 11, '0'), 'old' || g, 'quick', 'prompt', 'An old run', 'completed', NULL,
                1, 2, '', 0, g, g FROM generate_series({first}, {to}) g"
        ),
        format!(
            "INSERT INTO events (run, number, at_ms, body)
             SELECT '0' || lpad(g::text, 11, '0'), n, g, '{body}' FROM generate_series({first}, {to}) g,
                generate_series(1, 2) n"
        ),
        "VACUUM ANALYZE".to_owned(),
    ] {
        client.batch_execute(&sql).await.unwrap();
    }
}

async fn milliseconds(repeats: u32, mut work: impl AsyncFnMut(u32)) -> f64 {
    let began = Instant::now();
    for number in 0..repeats {
        work(number).await;
    }
    began.elapsed().as_secs_f64() * 1_000.0 / f64::from(repeats)
}

/// Returns the rows that sequential scans of the large tables have read.
async fn scanned(database: &Database) -> i64 {
    tokio::time::sleep(STATISTICS).await;
    let sql = "SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_user_tables
        WHERE relname IN ('runs', 'events', 'threads', 'messages', 'changes')";
    database.client().await.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn the_cost_does_not_grow_with_the_stored_runs() {
    let sizes: Vec<u64> = match std::env::var("TOLLGATE_BENCH_RUNS") {
        Ok(text) => text.split(',').map(|size| size.trim().parse().unwrap()).collect(),
        Err(_) => vec![0, 10_000, 100_000, 1_000_000],
    };
    println!(
        "| Stored runs | Commits per second | Submit, drive and finish | List of 50 | Events of one run |"
    );
    println!("|---|---|---|---|---|");
    let database = cluster().database().await;
    let store: Arc<PostgresStore> = store_on(&database).await;
    let (host, stop) = (host_on(&store), CancellationToken::new());
    let (works, stopped) = (host.clone(), stop.clone());
    let working = tokio::spawn(async move { works.work(&options(), &stopped).await });
    let mut stored = 0;
    for size in sizes {
        fill(&database, stored, size).await;
        stored = size;
        let scanned_before = scanned(&database).await;
        let rate = commits(&store, &format!("g{size}"), 8, 60, false).await;
        let whole = milliseconds(20, async |number| {
            let request = RunRequest::new(quick::AGENT, "Go.").on_thread(format!("{size}-{number}"));
            let run = host.submit(request).await.unwrap();
            let mut events = host.follow(&run, 0).await.unwrap();
            while events.next().await.is_some() {}
        })
        .await;
        let list = milliseconds(20, async |_| {
            let filter = RunFilter { limit: 50, ..RunFilter::default() };
            assert!(!store.runs(filter).await.unwrap().is_empty());
        })
        .await;
        let read = milliseconds(50, async |number| {
            let run = format!("0{:011}", u64::from(number) * size / 50 + 1);
            assert!(store.events(&run, 0).await.is_ok());
        })
        .await;
        println!("| {size} | {rate:.0} | {whole:.1} ms | {list:.2} ms | {read:.2} ms |");
        if size >= 100_000 {
            let rows = scanned(&database).await - scanned_before;
            assert!(rows < i64::try_from(size).unwrap(), "a statement reads whole tables: {rows} rows");
        }
    }
    stop.cancel();
    working.await.unwrap();
}
