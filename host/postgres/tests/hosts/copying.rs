//! From a data directory to a database.

use crate::cluster::cluster;
use crate::{commit, prompt, started, step};
use serde_json::json;
use std::sync::Arc;
use tollgate::store::{
    AuditFilter, AuditKind, AuditRecord, AuditStore, CoordinationStore, RunFilter, RunStore, SqliteStore,
    StateStore, Store, restore_state,
};
use tollgate_agent::message::Message;
use tollgate_agent::run::Event;
use tollgate_agent::state::State;
use tollgate_postgres::PostgresStore;

async fn filled(directory: &std::path::Path) -> SqliteStore {
    let store = SqliteStore::open(directory).unwrap();
    for number in 0..5 {
        let run = format!("r{number}");
        let audit = vec![AuditRecord::at(number, AuditKind::Grant, "person", "granted")];
        let messages = vec![Message::User(format!("message {number} \u{0} \u{1F600}"))];
        let mut first = commit(&run, 1, 0, vec![started(&run, prompt()), step(1), Event::RunWaiting]);
        (first.audit, first.messages) = (audit, messages);
        store.commit(first).await.unwrap();
    }
    let state = State::restored(0, [("k.n".to_owned(), json!({"a": [1, 2.5, null]}))]);
    restore_state(&store, "t", &state).await.unwrap();
    restore_state(&store, "alone", &state).await.unwrap();
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_all_that_the_directory_has_and_goes_on_after_an_interruption() {
    let data = tempfile::tempdir().unwrap();
    let from = filled(data.path()).await;
    let database = cluster().database().await;
    let to = PostgresStore::connect(database.config()).await.unwrap();
    let copied = to.copy_from(&from).await.unwrap();
    assert_eq!((copied.runs, copied.events, copied.threads, copied.audit, copied.known), (5, 15, 2, 5, 0));
    for run in from.runs(RunFilter::default()).await.unwrap() {
        let copy = serde_json::to_string(&to.events(&run.run_id, 0).await.unwrap()).unwrap();
        assert_eq!(copy, serde_json::to_string(&from.events(&run.run_id, 0).await.unwrap()).unwrap());
    }
    for thread in ["t", "alone"] {
        let (copy, original) = (to.thread(thread).await.unwrap(), from.thread(thread).await.unwrap());
        assert_eq!((copy.state, copy.messages), (original.state, original.messages));
        assert_eq!(to.changes(thread, 0, 9).await.unwrap(), from.changes(thread, 0, 9).await.unwrap());
    }
    let all = AuditFilter::default;
    assert_eq!(to.audit(all()).await.unwrap(), from.audit(all()).await.unwrap());
    // As an interruption leaves it: the last runs and records are missing.
    let behind = database.client().await;
    behind
        .batch_execute(
            "DELETE FROM runs WHERE id >= 'r3'; DELETE FROM events WHERE run >= 'r3'; DELETE FROM audit WHERE id > 2",
        )
        .await
        .unwrap();
    let copied = to.copy_from(&from).await.unwrap();
    assert_eq!((copied.runs, copied.known, copied.audit), (5, 3, 5));
    // The copied runs go on.
    let epoch = to.acquire("r4", 3).await.unwrap();
    to.commit(commit("r4", epoch, 3, vec![step(2)])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_differs_or_mixes_two_stores_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let from = filled(data.path()).await;
    let database = cluster().database().await;
    let to = PostgresStore::connect(database.config()).await.unwrap();
    to.copy_from(&from).await.unwrap();
    let behind = database.client().await;
    behind
        .batch_execute("UPDATE messages SET body = '{\"user\":\"forged\"}' WHERE position = 0")
        .await
        .unwrap();
    assert!(to.copy_from(&from).await.is_err());
    to.commit(commit("foreign", 1, 0, vec![started("foreign", prompt())])).await.unwrap();
    let refused = to.copy_from(&from).await.unwrap_err().to_string();
    assert!(refused.contains("the database contains the run foreign"), "{refused}");
    // A run that a process drives would go on after the copy.
    let busy = tempfile::tempdir().unwrap();
    let from = SqliteStore::open(busy.path()).unwrap();
    from.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    let empty = PostgresStore::connect(cluster().database().await.config()).await.unwrap();
    let refused = empty.copy_from(&from).await.unwrap_err().to_string();
    assert!(refused.contains("drives the run r"), "{refused}");
    let _: Arc<dyn Store> = Arc::new(empty);
}
