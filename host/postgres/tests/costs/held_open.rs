//! The throughput while a transaction elsewhere stays open, which keeps the server from removing old rows.

use crate::cluster::{Database, cluster};
use crate::{options, per_second, quick, row, store_on};
use futures::future::join_all;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tollgate::{Host, RunRequest};

/// How long the transaction is open, and how long each rate is measured.
const OPEN: Duration = Duration::from_secs(60);
const MEASURED: Duration = Duration::from_secs(15);

/// Drives whole runs, 16 at once, for this time, and returns their number per second.
async fn runs(host: &Host, name: &str, time: Duration) -> f64 {
    let began = Instant::now();
    let driving = (0..16).map(|client| async move {
        let mut number = 0;
        while began.elapsed() < time {
            let thread = format!("{name}-{client}-{number}");
            let run = host.submit(RunRequest::new(quick::AGENT, "Go.").on_thread(thread)).await.unwrap();
            let mut events = host.follow(&run, 0).await.unwrap();
            while events.next().await.is_some() {}
            number += 1;
        }
        number
    });
    per_second(join_all(driving).await.into_iter().sum(), began)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures"]
async fn runs_while_a_transaction_stays_open() {
    let database: Database = cluster().database().await;
    let (host, stop) = (quick::host(store_on(&database).await), CancellationToken::new());
    let (works, stopped) = (host.clone(), stop.clone());
    let working = tokio::spawn(async move { works.work(&options(), &stopped).await });
    runs(&host, "warm", Duration::from_secs(3)).await;
    let without = runs(&host, "without", MEASURED).await;
    let open = database.client().await;
    open.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()").await.unwrap();
    runs(&host, "open", OPEN - MEASURED).await;
    let with = runs(&host, "with", MEASURED).await;
    println!("\n| Measure | Value | Floor | Ratio | Goal |\n|---|---|---|---|---|");
    row(
        "whole runs, with a transaction open for 60 s, per second",
        &format!("{with:.0}"),
        &format!("{without:.0}"),
        with / without,
        "≥ 0.8 x",
    );
    stop.cancel();
    working.await.unwrap();
}
