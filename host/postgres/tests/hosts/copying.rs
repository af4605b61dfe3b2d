//! From a data directory to a database.

use crate::cluster::{Database, cluster};
use crate::pages::Pages;
use crate::{commit, prompt, started, step, until_locked};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tollgate::store::{
    AuditFilter, AuditKind, AuditRecord, AuditStore, CoordinationStore, CopySource, PageLimit, Remedy,
    RunCommand, RunFilter, RunStore, SqliteStore, StateStore, StoreError, restore_state,
};
use tollgate_agent::message::Message;
use tollgate_agent::run::Event;
use tollgate_agent::state::State;
use tollgate_postgres::{CopyReport, PostgresStore};

async fn filled(directory: &std::path::Path) -> SqliteStore {
    let store = SqliteStore::open(directory).unwrap();
    for number in 0..5 {
        let run = format!("r{number}");
        let record = AuditRecord::at(number, AuditKind::Call, "agent a", "success");
        let audit = vec![AuditRecord { model: Some(format!("model-{number}").into()), ..record }];
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
    let copied = PostgresStore::copy(database.config(), &from).await.unwrap();
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
        .batch_execute(&format!(
            "DELETE FROM runs WHERE id >= 'r3'; DELETE FROM events WHERE run >= 'r3'; DELETE FROM audit WHERE id > 2;
             INSERT INTO settings VALUES ('copy', '{}'), ('copied_audit', '2')",
            from.place()
        ))
        .await
        .unwrap();
    let copied = PostgresStore::copy(database.config(), &from).await.unwrap();
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
    PostgresStore::copy(database.config(), &from).await.unwrap();
    let refused = copy_refused(&database, &from).await;
    assert!(refused.contains("it has runs, threads or audit records"), "{refused}");
    let behind = database.client().await;
    let marker = format!("INSERT INTO settings VALUES ('copy', '{}'), ('copied_audit', '5')", from.place());
    behind.batch_execute(&marker).await.unwrap();
    behind.batch_execute("UPDATE runs SET events = 2 WHERE id = 'r2'").await.unwrap();
    let refused = copy_refused(&database, &from).await;
    assert!(refused.contains("the copy of the run r2 differs"), "{refused}");
    behind
        .batch_execute(
            "UPDATE runs SET events = 3 WHERE id = 'r2';
             UPDATE messages SET body = '{\"user\":\"forged\"}' WHERE position = 0",
        )
        .await
        .unwrap();
    let refused = copy_refused(&database, &from).await;
    assert!(refused.contains("the copy of the thread t differs"), "{refused}");
    behind.batch_execute("UPDATE runs SET id = 'foreign' WHERE id = 'r1'").await.unwrap();
    let refused = copy_refused(&database, &from).await;
    assert!(refused.contains("the database contains the run foreign"), "{refused}");
    // A run that a process drives would go on after the copy.
    let busy = tempfile::tempdir().unwrap();
    let from = SqliteStore::open(busy.path()).unwrap();
    from.commit(commit("r", 1, 0, vec![started("r", prompt())])).await.unwrap();
    let refused = copy_refused(&cluster().database().await, &from).await;
    assert!(refused.contains("drives the run r"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_runs_stay_queued_and_commands_that_were_not_carried_out_are_copied() {
    let data = tempfile::tempdir().unwrap();
    let from = filled(data.path()).await;
    let mut queued = commit("q", 1, 0, vec![started("q", prompt())]);
    (queued.queued, queued.epoch, queued.thread_id) = (true, 0, "q".into());
    from.commit(queued).await.unwrap();
    for (id, reason) in [("b", "first"), ("a", "second")] {
        from.send("r0", id, RunCommand::Cancel(reason.to_owned())).await.unwrap();
    }
    let database = cluster().database().await;
    PostgresStore::copy(database.config(), &from).await.unwrap();
    let to = PostgresStore::connect(database.config()).await.unwrap();
    let queued: Vec<String> = to
        .runs(RunFilter::default())
        .await
        .unwrap()
        .into_iter()
        .filter(|run| run.queued)
        .map(|run| run.run_id)
        .collect();
    assert_eq!(queued, ["q"]);
    let sent = to.commands("r0").await.unwrap();
    assert!(sent.len() == 2 && sent == from.commands("r0").await.unwrap(), "{sent:?}");
    // The copy is compared with the directory.
    let behind = database.client().await;
    let marker = format!("INSERT INTO settings VALUES ('copy', '{}'), ('copied_audit', '5')", from.place());
    behind.batch_execute(&marker).await.unwrap();
    behind.batch_execute("DELETE FROM inbox WHERE id = 'a'").await.unwrap();
    let refused = copy_refused(&database, &from).await;
    assert!(refused.contains("the copy of the commands to the run r0 differs"), "{refused}");
}

async fn copy_refused(database: &Database, from: &SqliteStore) -> String {
    PostgresStore::copy(database.config(), from).await.unwrap_err().to_string()
}

/// Begins a copy, and returns once it waits to write to the audit, which the returned client
/// prevents until it rolls back.
async fn halted(database: &Database, from: &Arc<SqliteStore>) -> (JoinHandle<Copying>, Client) {
    let behind = database.client().await;
    behind.batch_execute("BEGIN; LOCK TABLE audit IN SHARE MODE").await.unwrap();
    let (config, from) = (database.config(), Arc::clone(from));
    let copy = tokio::spawn(async move { PostgresStore::copy(config, &*from).await });
    until_locked("the copy of the audit", &database.client().await).await;
    (copy, behind)
}

type Copying = Result<CopyReport, StoreError>;

#[tokio::test(flavor = "multi_thread")]
async fn no_host_works_until_a_copy_has_finished() {
    let data = tempfile::tempdir().unwrap();
    let from = Arc::new(filled(data.path()).await);
    let database = cluster().database().await;
    let host = PostgresStore::connect(database.config().with_name("here")).await.unwrap();
    host.admit(None, None, None).await.unwrap();
    let refused = copy_refused(&database, &from).await;
    assert!(refused.contains("hosts use it: here (") && refused.contains("stop them first"), "{refused}");
    host.close().await.unwrap();
    let idle = PostgresStore::connect(database.config()).await.unwrap();
    let (copy, behind) = halted(&database, &from).await;
    copy.abort();
    behind.batch_execute("ROLLBACK").await.unwrap();
    let says = "a copy into this database has not finished";
    let refused = PostgresStore::connect(database.config()).await.err().unwrap();
    assert!(refused.to_string().ends_with(says), "{refused}");
    assert_eq!(refused.remedy(), Some(&Remedy::RepeatCopy));
    let refused = idle.claim(&["a".to_owned()], 1).await.unwrap_err().to_string();
    assert!(refused.contains(says), "{refused}");
    let record = AuditRecord::at(9, AuditKind::Grant, "person", "granted");
    let refused = idle.record_audit(vec![record.clone()]).await.unwrap_err().to_string();
    assert!(refused.contains(says), "{refused}");
    let other = tempfile::tempdir().unwrap();
    let refused = copy_refused(&database, &SqliteStore::open(other.path()).unwrap()).await;
    assert!(refused.contains(&format!("a copy of {} has not finished", from.place())), "{refused}");
    let copied = PostgresStore::copy(database.config(), &*from).await.unwrap();
    assert_eq!((copied.runs, copied.known, copied.audit), (5, 5, 5));
    idle.record_audit(vec![record]).await.unwrap();
    idle.admit(None, None, None).await.unwrap();
    PostgresStore::connect(database.config()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_changes_during_the_copy_is_not_taken_for_copied() {
    let data = tempfile::tempdir().unwrap();
    let from = Arc::new(filled(data.path()).await);
    let database = cluster().database().await;
    let (copy, behind) = halted(&database, &from).await;
    let other = SqliteStore::open(data.path()).unwrap();
    let mut late = commit("late", 1, 0, vec![started("late", prompt()), Event::RunWaiting]);
    late.thread_id = "late".into();
    other.commit(late).await.unwrap();
    behind.batch_execute("ROLLBACK").await.unwrap();
    let refused = copy.await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("changed during the copy; stop every process"), "{refused}");
    let copied = PostgresStore::copy(database.config(), &*from).await.unwrap();
    assert_eq!((copied.runs, copied.known, copied.threads), (6, 5, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_records_are_copied_in_pages_and_a_run_is_copied_whole_or_not_at_all() {
    let data = tempfile::tempdir().unwrap();
    let from = SqliteStore::open(data.path()).unwrap();
    let large = format!("{:2000}", "x");
    let of_run = |events: u32| {
        let texts = (1..events).map(|_| Event::MessageAdded { text: large.clone() });
        std::iter::once(started("large", prompt()))
            .chain(texts)
            .chain([Event::RunWaiting])
            .collect::<Vec<_>>()
    };
    from.commit(commit("large", 1, 0, of_run(1_200))).await.unwrap();
    from.commit(commit("small", 1, 0, vec![started("small", prompt()), Event::RunWaiting])).await.unwrap();
    let records = (0..1_500).map(|number| AuditRecord::at(number, AuditKind::Grant, "person", "granted"));
    from.record_audit(records.collect()).await.unwrap();
    let from = Pages::of(from);
    let database = cluster().database().await;
    // The third page is one of the large run.
    from.fails_at.store(3, Ordering::Relaxed);
    let refused = PostgresStore::copy(database.config(), &from).await.unwrap_err().to_string();
    assert!(refused.contains("this page cannot be read"), "{refused}");
    let behind = database.client().await;
    let count: i64 = behind.query_one("SELECT count(*) FROM events", &[]).await.unwrap().get(0);
    assert_eq!(count, 0, "no run is copied in part");
    from.fails_at.store(0, Ordering::Relaxed);
    let copied = PostgresStore::copy(database.config(), &from).await.unwrap();
    assert_eq!((copied.runs, copied.events, copied.audit, copied.known), (2, 1_203, 1_500, 0));
    // Three of the large run and one of the small one, to copy them and to compare them.
    assert!(from.read.load(Ordering::Relaxed) >= 3 + 2 * 4, "{:?}", from.read);
    let to = PostgresStore::connect(database.config()).await.unwrap();
    let page = to.events_page("large", 1, PageLimit { events: 1_000, bytes: 10_000 }).await.unwrap();
    assert!(page.has_more && page.events.len() == 4, "{} events", page.events.len());
    let copy = serde_json::to_string(&to.events("large", 0).await.unwrap()).unwrap();
    assert_eq!(copy, serde_json::to_string(&from.store.events("large", 0).await.unwrap()).unwrap());
}
