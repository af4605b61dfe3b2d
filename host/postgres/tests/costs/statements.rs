//! The number of statements, as the server counts them.

use crate::cluster::cluster;
use crate::{call, commit, options, quick, started, step, store_on};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate::RunRequest;
use tollgate::store::{CoordinationStore, RunStore};

/// How long an idle host is watched.
const WATCHED: Duration = Duration::from_secs(20);

/// Prints the statements of a commit, of a claim, of a whole run, and of an idle host.
pub(crate) async fn table() {
    let database = cluster().database().await;
    database.count_statements().await;
    let sent = async || database.statements_on_records().await as f64;
    let store = store_on(&database).await;
    store.commit(commit("r", 0, started("r", call()))).await.unwrap();
    let before = sent().await;
    for number in 1..=100 {
        store.commit(commit("r", number, step(number))).await.unwrap();
    }
    let of_commit = (sent().await - before) / 100.0;
    println!("\n| Statements | Number | Goal |\n|---|---|---|");
    println!("| of a commit | {of_commit:.2} | 1 |");
    let host = quick::host(store_on(&database).await);
    for number in 0..8 {
        let request = RunRequest::new(quick::AGENT, "Go.").on_thread(format!("t{number}"));
        host.submit(request).await.unwrap();
    }
    let before = sent().await;
    let claimed = store.claim(&[quick::AGENT.to_owned()], 8).await.unwrap();
    let of_claim = sent().await - before;
    println!("| to claim {} runs | {of_claim:.0} | 1 |", claimed.len());
    store.close().await.unwrap();
    let stop = CancellationToken::new();
    let (works, stopped) = (host.clone(), stop.clone());
    let working = tokio::spawn(async move { works.work(&options(), &stopped).await });
    let go = async |thread: String| {
        let run = host.submit(RunRequest::new(quick::AGENT, "Go.").on_thread(thread)).await.unwrap();
        let mut events = host.follow(&run, 0).await.unwrap();
        while events.next().await.is_some() {}
    };
    go("warm".to_owned()).await;
    let before = sent().await;
    for number in 0..20 {
        go(format!("w{number}")).await;
    }
    println!("| of a whole run with 3 calls | {:.1} | |", (sent().await - before) / 20.0);
    let before = database.statements().await;
    tokio::time::sleep(WATCHED).await;
    let of_idle = (database.statements().await - before) as f64 / WATCHED.as_secs_f64();
    println!("| of an idle host, per second | {of_idle:.2} | ≤ 2 |");
    stop.cancel();
    working.await.unwrap();
}
