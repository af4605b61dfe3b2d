//! Removing old runs while hosts work, after an interruption, and by a role that may not.

use crate::cluster::{Database, cluster};
use crate::components::file;
use crate::roles::database_with_roles;
use crate::{call, commit, finished, prompt, started, step, until, until_locked};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate::store::{
    AuditKind, AuditRecord, Commit, ComponentStore, CoordinationStore, PruneOptions, PruneReport, Remedy,
    RunFilter, RunStore, SqliteStore, StateStore,
};
use tollgate_agent::digest::digest;
use tollgate_agent::message::Message;
use tollgate_agent::outcome::ToolResult;
use tollgate_agent::run::event::{CheckedCall, FinishedCall, ToolVersion};
use tollgate_agent::run::{CallEnd, Event};
use tollgate_agent::state::{KeyUpdate, StateChange};
use tollgate_postgres::{PostgresConfig, PostgresStore};

const PRUNING: PruneOptions = PruneOptions { before_ms: 1_000, dry_run: false, give_back: false };

async fn prune(store: &PostgresStore) -> PruneReport {
    store.prune(PRUNING, &CancellationToken::new()).await.unwrap()
}

async fn connect(database: &Database) -> PostgresStore {
    PostgresStore::connect(database.config()).await.unwrap()
}

fn changed(revision: u64) -> Event {
    let updates = [KeyUpdate::restored("k.n", serde_json::json!(revision))].into();
    let end = CallEnd::Result(Arc::new(ToolResult::success(revision)));
    let change = Some(StateChange { revision, updates });
    Event::CallFinished(Arc::new(FinishedCall { change, ..FinishedCall::new("c", "echo", end) }))
}

/// Returns the proposal of a call of the component `kit`.
fn proposed() -> Event {
    Event::CallProposed(Arc::new(CheckedCall {
        call_id: "c".into(),
        tool_name: "echo".into(),
        owner: Some(ToolVersion { id: "kit".into(), version: "1".into() }),
        ..CheckedCall::default()
    }))
}

/// Stores a whole run on a thread.
async fn store_run(store: &PostgresStore, run: &str, thread: &str, more: Vec<Event>) {
    let events = [vec![started(run, prompt())], more, vec![finished()]].concat();
    let mut whole = commit(run, 1, 0, events);
    whole.thread_id = thread.into();
    store.commit(whole).await.unwrap();
}

async fn number(behind: &tokio_postgres::Client, sql: &str) -> i64 {
    behind.query_one(sql, &[]).await.unwrap().get(0)
}

/// The rows that old runs and their threads had.
const LEFT: &str = "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM events)
    + (SELECT count(*) FROM messages) + (SELECT count(*) FROM changes) + (SELECT count(*) FROM threads)
    + (SELECT count(*) FROM audit) + (SELECT count(*) FROM run_components)
    + (SELECT count(*) FROM settings WHERE name LIKE 'pruned %')";

#[tokio::test(flavor = "multi_thread")]
async fn z8_a_long_run_is_removed_in_parts_and_what_an_interrupted_call_has_left_is_found() {
    let database = cluster().database().await;
    let (store, behind) = (connect(&database).await, database.client().await);
    let thread = "01890000-0000-7000-8000-000000000000";
    let said = vec![Event::MessageAdded { text: "x".repeat(2_000) }; 2_500];
    let begins = vec![started("long", call()), proposed()];
    let events = [begins, said, vec![finished()]].concat();
    let mut long = commit("long", 1, 0, events);
    long.thread_id = thread.into();
    long.charged = vec![Some("kit".into()); 2_503];
    long.messages = vec![Message::User("Go on.".to_owned()); 1_200];
    let refused = AuditRecord::at(1, AuditKind::Denial, "agent a", "not_granted").of_component("kit", None);
    long.audit = vec![AuditRecord { run_id: Some("long".into()), ..refused }; 1_100];
    store.commit(long).await.unwrap();
    let bytes = "SELECT record_bytes FROM threads";
    assert!(number(&behind, bytes).await > 5_000_000);
    // An interrupted call has removed the first run, and the events of a run whose id was used again are not its own.
    behind
        .batch_execute(
            "INSERT INTO events SELECT 'gone', n, 1, '{}' FROM generate_series(1, 1500) AS n;
             INSERT INTO threads (id) VALUES ('empty');
             INSERT INTO settings VALUES ('pruned run gone', ''), ('pruned run again', ''), ('pruned thread empty', '')",
        )
        .await
        .unwrap();
    store_run(&store, "again", "t", Vec::new()).await;
    behind.batch_execute("UPDATE runs SET updated_at_ms = 2000 WHERE id = 'again'").await.unwrap();
    let stopped = CancellationToken::new();
    stopped.cancel();
    assert_eq!(store.prune(PRUNING, &stopped).await.unwrap().runs, 0);
    let pruned = prune(&store).await;
    assert_eq!((pruned.runs, pruned.events, pruned.audit), (1, 2_503, 1_100));
    assert_eq!(store.events("again", 0).await.unwrap().len(), 2);
    assert_eq!(number(&behind, LEFT).await, 1 + 2 + 1, "the run, its events and its thread");
    let kit = "SELECT coalesce(sum(record_bytes), 0)::int8 FROM component_sizes WHERE component_id = 'kit'";
    assert_eq!(number(&behind, kit).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn z8_runs_are_removed_while_hosts_commit_another_process_prunes_and_a_run_is_taken_over() {
    let database = cluster().database().await;
    let config = database.config().with_lease(Duration::from_secs(1)).unwrap();
    let (store, other) = (Arc::new(connect(&database).await), connect(&database).await);
    for n in 0..200 {
        store_run(&store, &format!("old{n:03}"), &format!("t{}", n % 10), vec![changed(n / 10 + 1)]).await;
    }
    let gone = PostgresStore::connect(config.clone()).await.unwrap();
    let mut open = commit("open", 1, 0, vec![started("open", prompt()), step(1)]);
    open.thread_id = "t0".into();
    gone.commit(open).await.unwrap();
    drop(gone);
    let takes_over = PostgresStore::connect(config).await.unwrap();
    let commits = async {
        for n in 0..100 {
            let run = format!("new{n}");
            let (thread, revision) = (Arc::from(format!("t{}", n % 10)), 21 + n / 10);
            let events = vec![started(&run, call()), changed(revision), finished()];
            store.commit(Commit::new(Arc::from(run.as_str()), thread, 0, 5_000, events)).await.unwrap();
        }
    };
    let takeover = async {
        let epoch = until("the takeover", async || takes_over.acquire("open", 2).await.ok()).await;
        let mut ends = commit("open", epoch, 2, vec![finished()]);
        ends.thread_id = "t0".into();
        takes_over.commit(ends).await.unwrap();
    };
    let (one, two, (), ()) = tokio::join!(prune(&store), prune(&other), commits, takeover);
    let rest = prune(&other).await;
    assert_eq!(one.runs + two.runs + rest.runs, 201, "{one:?} {two:?} {rest:?}");
    let left = store.runs(RunFilter { limit: 1_000, ..RunFilter::default() }).await.unwrap();
    assert_eq!(left.len(), 100);
    assert!(store.verify().await.unwrap().is_sound());
    for n in 0..10 {
        let thread = format!("t{n}");
        let state = other.thread(&thread).await.unwrap().state;
        assert_eq!((state.revision(), state.get("k.n")), (30, Some(&serde_json::json!(30))));
        let changes = other.changes(&thread, 0, 100).await.unwrap();
        let revisions: Vec<u64> = changes.iter().map(|change| change.revision).collect();
        assert_eq!(revisions, (20..=30).collect::<Vec<_>>(), "the first ones are joined");
    }
    let behind = database.client().await;
    let marks = "SELECT count(*) FROM settings WHERE name LIKE 'pruned %'";
    assert_eq!(number(&behind, marks).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn z8_a_run_whose_removal_was_interrupted_can_be_replayed_if_it_is_kept_from_then_on() {
    let database = cluster().database().await;
    let (store, behind) = (Arc::new(connect(&database).await), database.client().await);
    store_run(&store, "r1", "t", vec![changed(1)]).await;
    store_run(&store, "r2", "t", vec![changed(2), changed(3)]).await;
    behind
        .batch_execute("UPDATE runs SET started_at_ms = 10, updated_at_ms = 10 WHERE id = 'r2'")
        .await
        .unwrap();
    let holds = database.client().await;
    holds.batch_execute("BEGIN; SELECT FROM runs WHERE id = 'r2' FOR UPDATE").await.unwrap();
    let prunes = Arc::clone(&store);
    let pruning = tokio::spawn(async move { prunes.prune(PRUNING, &CancellationToken::new()).await });
    until_locked("the removal of the second run", &behind).await;
    pruning.abort();
    assert!(pruning.await.is_err());
    holds.batch_execute("ROLLBACK").await.unwrap();
    let longer = PruneOptions { before_ms: 8, ..PRUNING };
    assert_eq!(store.prune(longer, &CancellationToken::new()).await.unwrap().runs, 0);
    let left = store.runs(RunFilter::default()).await.unwrap();
    assert_eq!(left.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["r2"]);
    let changes = store.changes("t", 0, 9).await.unwrap();
    assert_eq!(changes.iter().map(|change| change.revision).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(prune(&store).await.runs, 1);
    let changes = store.changes("t", 0, 9).await.unwrap();
    assert_eq!(changes.iter().map(|change| change.revision).collect::<Vec<_>>(), [3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn z8_a_copied_run_gives_back_only_what_its_thread_was_charged_for() {
    let data = tempfile::tempdir().unwrap();
    let from = SqliteStore::open(data.path()).unwrap();
    let mut whole = commit("r", 1, 0, vec![started("r", call()), proposed(), finished()]);
    whole.charged = vec![Some("kit".into()); 3];
    whole.messages = vec![Message::User("Go on.".to_owned())];
    let refused = AuditRecord::at(1, AuditKind::Denial, "agent a", "not_granted").of_component("kit", None);
    whole.audit = vec![AuditRecord { run_id: Some("r".into()), ..refused }];
    from.commit(whole).await.unwrap();
    let database = cluster().database().await;
    PostgresStore::copy(database.config(), &from).await.unwrap();
    let behind = database.client().await;
    // Runs of this database have called the component too.
    behind.batch_execute("INSERT INTO component_sizes VALUES ('kit', 0, 100000)").await.unwrap();
    let bytes = "SELECT record_bytes FROM threads";
    assert!(number(&behind, bytes).await > 0);
    let store = connect(&database).await;
    behind.batch_execute("INSERT INTO settings VALUES ('copy', 'a directory')").await.unwrap();
    let refused = store.prune(PRUNING, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(refused.remedy(), Some(&Remedy::RepeatCopy), "the copy would differ: {refused}");
    behind.batch_execute("DELETE FROM settings WHERE name = 'copy'").await.unwrap();
    let pruned = prune(&store).await;
    assert_eq!((pruned.runs, pruned.events, pruned.audit), (1, 3, 1));
    assert_eq!(number(&behind, "SELECT record_bytes FROM component_sizes").await, 100_000);
    assert_eq!(number(&behind, bytes).await, 0);
}

/// Removes the thread `t` once something waits for it, as `prune` does with a thread of which nothing is left.
async fn remove_awaited_thread(holds: &tokio_postgres::Client, behind: &tokio_postgres::Client) {
    until_locked("the wait for the thread", behind).await;
    holds.batch_execute("DELETE FROM threads; COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn z8_a_run_and_a_change_that_wait_for_a_thread_are_stored_although_it_is_removed() {
    let database = cluster().database().await;
    let (store, behind) = (Arc::new(connect(&database).await), database.client().await);
    let holds = database.client().await;
    let (insert, hold) = ("INSERT INTO threads (id) VALUES ('t')", "BEGIN; SELECT FROM threads FOR UPDATE");
    behind.batch_execute(insert).await.unwrap();
    holds.batch_execute(hold).await.unwrap();
    let commits = Arc::clone(&store);
    let committed =
        tokio::spawn(async move { commits.commit(commit("r", 1, 0, vec![started("r", prompt())])).await });
    remove_awaited_thread(&holds, &behind).await;
    committed.await.unwrap().unwrap();
    assert_eq!(store.events("r", 0).await.unwrap().len(), 1);
    assert!(number(&behind, "SELECT record_bytes FROM threads").await > 0);

    behind.batch_execute(&format!("TRUNCATE runs, events, threads; {insert}")).await.unwrap();
    holds.batch_execute(hold).await.unwrap();
    let changes = Arc::clone(&store);
    let updates = [KeyUpdate::restored("k.n", 1.into())].into();
    let changed =
        tokio::spawn(async move { changes.change("t", StateChange { revision: 1, updates }).await });
    remove_awaited_thread(&holds, &behind).await;
    changed.await.unwrap().unwrap();
    let state = store.thread("t").await.unwrap().state;
    assert_eq!((state.revision(), state.get("k.n")), (1, Some(&serde_json::json!(1))));
}

#[tokio::test(flavor = "multi_thread")]
async fn z8_a_component_without_runs_is_removed_once_no_host_relies_on_it() {
    let database = cluster().database().await;
    let (store, behind) = (connect(&database).await, database.client().await);
    let (bytes, components) = (b"a component".as_slice(), "SELECT count(*) FROM component_parts");
    let wanted = digest(bytes);
    let run = async |store: &PostgresStore, run: &str| {
        let mut whole = commit(run, 1, 0, vec![started(run, prompt()), finished()]);
        whole.components = vec![file(&wanted, Some(bytes))];
        store.commit(whole).await.unwrap();
    };
    let age = "UPDATE settings SET value = '0' WHERE name LIKE 'unused component %'";
    run(&store, "r1").await;
    assert_eq!(prune(&store).await.components_left, 1, "a host may be about to refer to it");
    assert_eq!(prune(&store).await.components_left, 1);
    // Another host looks for it, and a run refers to it once more.
    behind.batch_execute(age).await.unwrap();
    run(&connect(&database).await, "r2").await;
    assert_eq!(prune(&store).await.components_left, 1);
    assert_eq!(store.component(&wanted).await.unwrap().as_deref(), Some(bytes));
    behind.batch_execute(age).await.unwrap();
    assert_eq!(prune(&store).await.components_left, 0);
    assert_eq!(number(&behind, components).await, 0);
    run(&connect(&database).await, "r3").await;
    assert_eq!(store.component(&wanted).await.unwrap().as_deref(), Some(bytes));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_role_of_the_hosts_may_count_old_runs_and_not_remove_them() {
    let (owner, role) = database_with_roles().await;
    let store = PostgresStore::connect(PostgresConfig::new(&role).unwrap()).await.unwrap();
    store_run(&store, "r", "t", vec![changed(1)]).await;
    let refused = store.prune(PRUNING, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(refused.remedy(), Some(&Remedy::PruneAsOwner));
    assert!(refused.to_string().contains("the role lacks DELETE on events, "), "{refused}");
    let counted = PruneOptions { dry_run: true, ..PRUNING };
    assert_eq!(store.prune(counted, &CancellationToken::new()).await.unwrap().runs, 1);
    let owner = PostgresStore::connect(PostgresConfig::new(&owner).unwrap()).await.unwrap();
    assert_eq!(prune(&owner).await.runs, 1);
    assert!(store.runs(RunFilter::default()).await.unwrap().is_empty());
}
