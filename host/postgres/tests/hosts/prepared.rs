//! Prepared statements: on connections that keep their sessions, and on no others.

use crate::cluster::{Database, Pooler, cluster, without_pooler};
use crate::{commit, prompt, started, step, until};
use std::time::Duration;
use tollgate::store::RunStore;
use tollgate_postgres::{PostgresConfig, PostgresStore};

/// Returns how many commits the server has stored without planning them.
async fn unplanned(database: &Database) -> i64 {
    let sql = "SELECT coalesce(sum(calls - plans), 0)::int8 FROM pg_stat_statements
        WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND query ~ $1";
    database.client().await.query_one(sql, &[&"^SELECT commit_v2"]).await.unwrap().get(0)
}

/// Begins a run, and returns its store.
async fn beginning(config: PostgresConfig) -> PostgresStore {
    let store = PostgresStore::connect(config).await.unwrap();
    store.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    store
}

/// Stores this many events behind others, each with a commit of its own.
async fn store_events(store: &PostgresStore, after: u64, number: u64) {
    for after in after..after + number {
        store.commit(commit("r", 1, after, vec![step(1)])).await.unwrap();
    }
}

/// Stores events until the server has kept the plan of a commit. Returns their number.
async fn until_prepared(store: &PostgresStore, database: &Database) -> u64 {
    let mut last = 1;
    until("a commit without planning", async || {
        store_events(store, last, 1).await;
        last += 1;
        (unplanned(database).await > 0).then_some(last)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_a_direct_connection_are_prepared() {
    let database = cluster().database().await;
    database.count_plans().await;
    let store = beginning(database.config()).await;
    let last = until_prepared(&store, &database).await;
    assert_eq!(store.events("r", 0).await.unwrap().len() as u64, last);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_pooler_without_sessions_no_statement_is_prepared() {
    for has_listen_url in [false, true] {
        let database = cluster().database().await;
        database.count_plans().await;
        let Some(url) = cluster().pooled_url(&database.name) else { return without_pooler() };
        let config = PostgresConfig::new(&url).unwrap();
        let store = beginning(match has_listen_url {
            true => config.with_listen_url(&cluster().url(&database.name)).unwrap(),
            false => config,
        })
        .await;
        // It is known now whether notifications arrive.
        store.warnings().await.unwrap();
        store_events(&store, 1, 20).await;
        assert_eq!(unplanned(&database).await, 0, "{has_listen_url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_no_longer_keeps_sessions_gets_no_more_prepared_statements() {
    let database = cluster().database().await;
    database.count_plans().await;
    let Some(mut pooler) = Pooler::start_with_sessions(cluster()) else { return without_pooler() };
    let store = beginning(PostgresConfig::new(&pooler.url(&database.name)).unwrap()).await;
    let mut last = until_prepared(&store, &database).await;
    pooler.change_to_transactions(cluster());
    // The pooler uses one session for all of these commits.
    store_events(&store, last, 2).await;
    last += 2;
    // Now it uses another one, without the statement.
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid()";
    database.client().await.batch_execute(sql).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    store_events(&store, last, 1).await;
    last += 1;
    let before = unplanned(&database).await;
    store_events(&store, last, 20).await;
    assert_eq!(unplanned(&database).await, before);
    assert_eq!(store.events("r", 0).await.unwrap().len() as u64, last + 20);
}
