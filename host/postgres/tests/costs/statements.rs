//! The number of statements, as the server counts them.

use crate::cluster::{Database, cluster};
use crate::{call, commit, options, quick, started, step, store_on};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate::RunRequest;
use tollgate::store::{CoordinationStore, RunStore};

/// How long an idle host is watched.
const WATCHED: Duration = Duration::from_secs(20);

/// Returns the number of statements on a database so far, without those of hosts about themselves.
async fn sent(database: &Database, other_than_leases: bool) -> f64 {
    let wanted = if other_than_leases {
        "AND query !~ 'pg_notify|LISTEN|hosts|^SELECT \\$1$|pg_stat'"
    } else {
        "AND query !~ 'pg_stat'"
    };
    let sql = format!(
        "SELECT coalesce(sum(calls), 0)::float8 FROM pg_stat_statements
            WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND toplevel {wanted}"
    );
    database.client().await.query_one(&sql, &[]).await.unwrap().get(0)
}

/// Prints the statements of a commit, of a claim, of a whole run, and of an idle host.
pub(crate) async fn table() {
    let database = cluster().database().await;
    database.client().await.batch_execute("CREATE EXTENSION pg_stat_statements").await.unwrap();
    let store = store_on(&database).await;
    store.commit(commit("r", 0, started("r", call()))).await.unwrap();
    let before = sent(&database, true).await;
    for number in 1..=100 {
        store.commit(commit("r", number, step(number))).await.unwrap();
    }
    let of_commit = (sent(&database, true).await - before) / 100.0;
    println!("\n| Statements | Number | Goal |\n|---|---|---|");
    println!("| of a commit | {of_commit:.2} | 1 |");
    let host = quick::host(store_on(&database).await);
    for number in 0..8 {
        let request = RunRequest::new(quick::AGENT, "Go.").on_thread(format!("t{number}"));
        host.submit(request).await.unwrap();
    }
    let before = sent(&database, true).await;
    let claimed = store.claim(&[quick::AGENT.to_owned()], 8).await.unwrap();
    let of_claim = sent(&database, true).await - before;
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
    let before = sent(&database, true).await;
    for number in 0..20 {
        go(format!("w{number}")).await;
    }
    println!("| of a whole run with 3 calls | {:.1} | |", (sent(&database, true).await - before) / 20.0);
    let before = sent(&database, false).await;
    tokio::time::sleep(WATCHED).await;
    let of_idle = (sent(&database, false).await - before) / WATCHED.as_secs_f64();
    println!("| of an idle host, per second | {of_idle:.2} | ≤ 2 |");
    stop.cancel();
    working.await.unwrap();
}
