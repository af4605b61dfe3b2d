//! The number of statements that a host sends, as the server counts them.

use crate::cluster::{Database, cluster};
use crate::{prompt, started, step};
use tollgate::store::{Commit, CoordinationStore, RunStore};
use tollgate_postgres::PostgresStore;

/// Returns the statements on records so far.
async fn sent(database: &Database) -> i64 {
    let sql = "SELECT coalesce(sum(calls), 0)::int8 FROM pg_stat_statements WHERE toplevel
            AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND query ~ 'commit_v1|BEGIN|COMMIT|threads|runs|events|messages|inbox' AND query !~ 'hosts|pg_stat'";
    database.client().await.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_one_statement_and_so_is_a_claim_of_many_runs() {
    let database = cluster().database().await;
    database.client().await.batch_execute("CREATE EXTENSION pg_stat_statements").await.unwrap();
    let store = PostgresStore::connect(database.config()).await.unwrap();
    let on = |run: &str, after: u64, event| {
        let mut commit = Commit::new(run.into(), run.into(), after, 7, vec![event]);
        commit.epoch = 1;
        commit
    };
    store.commit(on("r", 0, started("r", prompt()))).await.unwrap();
    let before = sent(&database).await;
    for number in 1..=20 {
        store.commit(on("r", number, step(1))).await.unwrap();
    }
    assert_eq!(sent(&database).await - before, 20);
    for number in 0..20 {
        let run = format!("q{number}");
        let mut queued = on(&run, 0, started(&run, prompt()));
        (queued.queued, queued.epoch) = (true, 0);
        store.commit(queued).await.unwrap();
    }
    let before = sent(&database).await;
    assert_eq!(store.claim(&["a".to_owned()], 20).await.unwrap().len(), 20);
    assert_eq!(sent(&database).await - before, 1);
}
