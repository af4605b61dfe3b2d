//! Tests of a writer on a full disk, of deferred commits, and of cached threads.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::job::PreparedCommit;
use super::readers::Readers;
use super::{Process, SharedParts, SqliteStore, ThreadCache, Writer, open, process};
use serde_json::json;
use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tollgate_agent::context::RunIdentity;
use tollgate_agent::message::Message;
use tollgate_agent::outcome::ToolResult;
use tollgate_agent::run::event::FinishedCall;
use tollgate_agent::run::{AgentSpec, CallEnd, Event, RunLimits, RunSpec, RunStatus, Task};
use tollgate_agent::state::{Fold, KeyScope, KeyUpdate, Reducer, StateChange};
use tollgate_store::{
    Commit, CommitError, ComponentFile, ComponentSource, ComponentStore, Durability, PruneOptions,
    PruneReport, RunFilter, RunStore, StateStore, StoreErrorKind,
};

/// Creates a writer on a disk with room for this many pages; 0 for no limit.
fn writer(directory: &Path, max_pages: i64) -> Writer {
    let (file, connection) = open::prepare(directory).unwrap();
    if max_pages > 0 {
        let given: i64 =
            connection.pragma_update_and_check(None, "max_page_count", max_pages, |row| row.get(0)).unwrap();
        assert_eq!(given, max_pages);
    }
    let connection = Arc::new(Mutex::new(connection));
    let process = Arc::new(Process::register(directory).unwrap());
    let readers = Arc::new(Readers::new(file.clone(), Arc::clone(&process)));
    let shared = SharedParts {
        cache: Arc::new(ThreadCache::new(Arc::clone(&connection))),
        process,
        sizes: Arc::default(),
        volatile: Arc::default(),
    };
    Writer::start(connection, &file, readers, shared).unwrap()
}

fn commit(run: &str, events: Vec<Event>, after: u64) -> Commit {
    Commit::new(Arc::from(run), Arc::from("t"), after, 1, events)
}

fn started() -> Event {
    let task = Task::Call { tool_name: "echo".into(), arguments: "".into() };
    let (identity, agent, limits) = (RunIdentity::default(), AgentSpec::default(), RunLimits::default());
    Event::RunStarted {
        spec: Arc::new(RunSpec { identity, agent: agent.into(), limits, task, detached: false }),
    }
}

fn finished(change: StateChange) -> Event {
    let end = CallEnd::Result(Arc::new(ToolResult::success(1)));
    Event::CallFinished(Arc::new(FinishedCall {
        change: Some(change),
        ..FinishedCall::new("c", "echo", end)
    }))
}

fn said() -> Event {
    Event::MessageAdded { text: "x".repeat(3_000) }
}

#[tokio::test]
async fn a_full_disk_refuses_a_commit_whole_and_keeps_all_before_it() {
    let data = tempfile::tempdir().unwrap();
    let full = writer(data.path(), 60);
    full.commit(commit("r", vec![started()], 0)).await.unwrap();
    let mut kept = 1;
    let refused = loop {
        match full.commit(commit("r", vec![said(), said()], kept)).await {
            Ok(_) => kept += 2,
            Err(CommitError::Failed(e)) => break e,
            Err(e) => panic!("{e}"),
        }
    };
    assert_eq!(refused.kind(), StoreErrorKind::Full);
    let refused = refused.to_string();
    assert!(kept > 10 && refused.contains("the disk is full; free some room"), "{kept}: {refused}");
    assert!(full.commit(commit("r", vec![said(), said()], kept)).await.is_err(), "it stays full");
    let store = SqliteStore::open(data.path()).unwrap();
    assert_eq!(store.events("r", 0).await.unwrap().len() as u64, kept);
    drop(full);
    let roomy = writer(data.path(), 0);
    roomy.commit(commit("r", vec![said(), said()], kept)).await.unwrap();
    assert_eq!(store.events("r", 0).await.unwrap().len() as u64, kept + 2);
}

/// Returns an event that sets a key that does not persist.
fn counted(revision: u64) -> Event {
    let update = KeyUpdate { persistent: false, ..KeyUpdate::restored("k.count", revision.into()) };
    Event::RunSeeded {
        change: Some(StateChange { revision, updates: [update].into() }),
        messages: Vec::new(),
    }
}

#[tokio::test]
async fn a_value_that_does_not_persist_is_seen_with_its_commit() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    store.commit(commit("r", vec![started(), counted(1)], 0)).await.unwrap();
    // Sends the next commit, and does not take its answer.
    let mut committing = std::pin::pin!(store.commit(commit("r", vec![counted(2)], 2)));
    std::future::poll_fn(|cx| {
        assert!(committing.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    let soon = async {
        loop {
            let state = store.thread("t").await.unwrap().state;
            if state.revision() == 2 {
                break state;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let state = tokio::time::timeout(Duration::from_secs(20), soon).await.unwrap();
    assert_eq!(state.get("k.count"), Some(&2.into()));
    committing.await.unwrap();
}

fn deferred_start(run: &str) -> Commit {
    deferred(commit(run, vec![started()], 0))
}

fn deferred(mut commit: Commit) -> Commit {
    commit.durability = Durability::Deferred;
    commit
}

#[tokio::test]
async fn a9_a_deferred_commit_is_read_back_at_once_and_kept_when_the_store_closes() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    store.commit(deferred_start("one")).await.unwrap();
    assert_eq!(store.events("one", 0).await.unwrap().len(), 1, "readers wait for it");
    store.commit(deferred_start("two")).await.unwrap();
    drop(store);
    let store = SqliteStore::open(data.path()).unwrap();
    assert_eq!(store.runs(RunFilter::default()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a9_a_deferred_commit_is_written_soon_without_a_reader() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    let other = SqliteStore::open(data.path()).unwrap();
    store.commit(deferred_start("one")).await.unwrap();
    until_stored(&other, "one", 1).await;
}

#[tokio::test]
async fn s9_lost_deferred_commits_are_reported_and_fail_no_other_commit() {
    let data = tempfile::tempdir().unwrap();
    let full = writer(data.path(), 60);
    for number in 0..100 {
        let long = commit(&format!("r{number}"), vec![started(), said(), said()], 0);
        full.commit(deferred(long)).await.unwrap();
    }
    let lost = full.flush().await.unwrap_err().to_string();
    assert!(
        lost.contains("records of answered calls are lost") && lost.contains("the disk is full"),
        "{lost}"
    );
    full.flush().await.unwrap();
}

#[tokio::test]
async fn s9_one_lost_record_leaves_the_next_run_alone() {
    let data = tempfile::tempdir().unwrap();
    let writer = writer(data.path(), 0);
    // No run with this name has begun.
    let refused = deferred(commit("never", vec![said()], 7));
    writer.commit(refused).await.unwrap();
    writer.catch_up().await.unwrap();
    writer.commit(commit("next", vec![started()], 0)).await.unwrap();
    let lost = writer.flush().await.unwrap_err().to_string();
    assert!(lost.contains("records of answered calls are lost (1), the first that of never"), "{lost}");
}

#[tokio::test]
async fn a9_at_most_one_group_of_deferred_commits_waits_for_a_slow_disk() {
    let data = tempfile::tempdir().unwrap();
    let writer = writer(data.path(), 0);
    let other = open::connect(&data.path().join("tollgate.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for number in 0..256 {
        writer.commit(deferred_start(&format!("r{number}"))).await.unwrap();
    }
    let late = tokio::time::timeout(Duration::from_millis(200), writer.commit(deferred_start("late")));
    assert!(late.await.is_err(), "it waits for the disk");
    other.execute_batch("COMMIT").unwrap();
    writer.catch_up().await.unwrap();
    writer.commit(deferred_start("later")).await.unwrap();
}

#[tokio::test]
async fn a_thread_is_read_anew_once_anybody_has_written_to_it() {
    let data = tempfile::tempdir().unwrap();
    let (store, other) = (SqliteStore::open(data.path()).unwrap(), SqliteStore::open(data.path()).unwrap());
    for (writes, revision) in [(&store, 1), (&other, 2), (&store, 3)] {
        writes.change("t", StateChange { revision, updates: [].into() }).await.unwrap();
        for reads in [&store, &other, &store] {
            assert_eq!(reads.thread("t").await.unwrap().state.revision(), revision);
        }
    }
}

#[tokio::test]
async fn a_thread_that_is_known_follows_what_its_process_commits() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    let update = |scope, persistent, value: u64| KeyUpdate {
        key: format!("a.{scope:?}").to_lowercase().into(),
        scope,
        persistent,
        update: None,
        value: Some(Arc::new(value.into())),
        fold: None,
    };
    for revision in 1..=3 {
        let updates =
            [update(KeyScope::Thread, true, revision), update(KeyScope::Run, true, revision)].into();
        store.change("t", StateChange { revision, updates }).await.unwrap();
        let state = store.thread("t").await.unwrap().state;
        let fresh = SqliteStore::open(data.path()).unwrap().thread("t").await.unwrap().state;
        assert_eq!(state, fresh, "as the file has it");
        assert_eq!(
            (state.revision(), state.get("a.thread"), state.get("a.run")),
            (revision, Some(&revision.into()), None)
        );
        assert_eq!(
            store.cache.get("t").ok().map(|thread| thread.state),
            Some(state),
            "without a look into the file"
        );
    }
    // The thread is cached only while this process writes, because another may have written
    // otherwise.
    {
        let connection = store.cache.connection.lock().unwrap();
        assert!(store.cache.get("t").is_err());
        store.cache.begin_writing(&connection).unwrap();
        assert_eq!(store.cache.get("t").ok().map(|thread| thread.state.revision()), Some(3));
        store.cache.follow(&[], &[]);
        assert!(store.cache.get("t").is_err());
    }
    // A rejected commit leaves no trace, and the conversation is read again.
    let refused = store.change("t", StateChange { revision: 3, updates: [].into() }).await;
    assert!(matches!(refused, Err(CommitError::Conflict(_))), "{refused:?}");
    assert_eq!(store.cache.get("t").ok().map(|thread| thread.state.revision()), Some(3));
    let mut greeted = commit("r", vec![started()], 0);
    greeted.messages = vec![Message::User("Good day.".to_owned())];
    store.commit(greeted).await.unwrap();
    assert!(store.cache.get("t").is_err());
    assert_eq!(store.thread("t").await.unwrap().messages.len(), 1);
}

/// Returns an update that joins these items to a list.
fn joined(items: serde_json::Value) -> KeyUpdate {
    let fold = Fold { reducer: Reducer::Union, initial: Some(Arc::new(json!([]))), is_free: true };
    let (key, update) = (Arc::from("k.list"), Some(Arc::new(items)));
    KeyUpdate { key, scope: KeyScope::Thread, persistent: true, update, value: None, fold: Some(fold) }
}

#[tokio::test]
async fn z3_few_updates_are_kept_beside_a_value_however_short_they_are() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    let numbers: Vec<u64> = (10_000..13_000).collect();
    store.change("t", StateChange { revision: 1, updates: [joined(json!(numbers))].into() }).await.unwrap();
    let updates = (0..1_500).map(|n| joined(if n % 500 == 0 { json!([n]) } else { json!([]) }));
    store.change("t", StateChange { revision: 2, updates: updates.collect() }).await.unwrap();
    let file = rusqlite::Connection::open(open::file_in(data.path())).unwrap();
    let count = "SELECT count(*) FROM state_updates";
    let kept: i64 = file.query_row(count, [], |row| row.get(0)).unwrap();
    assert!((1..=1_024).contains(&kept), "{kept} updates");
    let expected = [vec![0], vec![1_000], numbers, vec![500]].concat();
    for store in [store, SqliteStore::open(data.path()).unwrap()] {
        let state = store.thread("t").await.unwrap().state;
        assert_eq!(state.get("k.list"), Some(&json!(expected)), "sorted by their text");
    }
}

#[tokio::test]
async fn z3_a_late_commit_is_moved_behind_others_without_reading_what_they_changed() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    for revision in 1..=3 {
        let updates = [joined(json!([revision]))].into();
        store.change("t", StateChange { revision, updates }).await.unwrap();
    }
    drop(store);
    let file = rusqlite::Connection::open(open::file_in(data.path())).unwrap();
    assert_eq!(file.execute("UPDATE changes SET body = 'unreadable'", []).unwrap(), 3);
    let store = SqliteStore::open(data.path()).unwrap();
    let change = StateChange { revision: 1, updates: [joined(json!([4]))].into() };
    store.change("t", change.clone()).await.unwrap_err();
    let mut late = commit("r", vec![started(), finished(change)], 0);
    late.thread_state_bytes = Some(1_000);
    assert_eq!(store.commit(late).await.unwrap().moved, 3);
    assert_eq!(store.thread("t").await.unwrap().state.get("k.list"), Some(&json!([1, 2, 3, 4])));
}

fn large() -> Event {
    Event::MessageAdded { text: "x".repeat(4 << 20) }
}

#[test]
fn z3_a_large_commit_is_prepared_away_from_the_threads_that_drive_calls() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let data = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(data.path()).unwrap();
        for (after, events) in [(0, vec![started(), large()]), (2, vec![said(), large(), said()])] {
            let durability = if after == 0 { Durability::Deferred } else { Durability::Durable };
            let mut large = commit("r", events, after);
            large.durability = durability;
            // No other thread prepares it yet.
            let (release, held) = std::sync::mpsc::channel::<()>();
            let blocking = tokio::task::spawn_blocking(move || held.recv());
            let mut committing = store.commit(large);
            let soon = Duration::from_millis(100);
            assert!(tokio::time::timeout(soon, &mut committing).await.is_err());
            store.commit(commit(&format!("other{after}"), vec![started()], 0)).await.unwrap();
            assert!(tokio::time::timeout(soon, &mut committing).await.is_err());
            drop(release);
            blocking.await.unwrap().unwrap_err();
            if after == 0 {
                committing.await.unwrap();
            } else {
                // It is written even if its caller leaves.
                drop(committing);
                until_stored(&store, "r", 5).await;
            }
            assert!(store.verify().await.unwrap().is_sound());
        }
        let read = store.readers.ask(|reader| Ok((reader.checksum("r", 5)?, reader.checksum("r", 6)?)));
        let (last, none) = read.await.unwrap();
        assert_eq!((last.map(|sum| sum.len()), none), (Some(16), None));
    });
}

async fn until_stored(store: &SqliteStore, run: &str, events: usize) {
    let stored = async {
        while store.events(run, 0).await.unwrap().len() < events {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), stored).await.unwrap();
}

/// A component's file that lists the threads that have read it.
#[derive(Debug, Default)]
struct ReadFile(Mutex<Vec<Option<String>>>);

impl ComponentSource for ReadFile {
    fn read(&self) -> Option<Vec<u8>> {
        self.0.lock().unwrap().push(std::thread::current().name().map(str::to_owned));
        Some(b"abc".to_vec())
    }
}

#[tokio::test]
async fn z3_a_component_is_read_once_and_not_while_others_wait_to_write() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    let (file, digest) = (Arc::<ReadFile>::default(), tollgate_agent::digest::digest(b"abc"));
    for run in ["a", "b"] {
        let mut called = deferred_start(run);
        let source = Arc::<ReadFile>::clone(&file);
        called.components = vec![ComponentFile { digest: Arc::from(digest.as_str()), source }];
        store.commit(called).await.unwrap();
        assert_eq!(store.component(&digest).await.unwrap().as_deref(), Some(&b"abc"[..]));
    }
    let read_by = file.0.lock().unwrap();
    assert!(read_by.len() == 1 && read_by[0].as_deref() != Some("tollgate-store"), "{read_by:?}");
}

#[test]
fn z3_the_checksums_of_a_large_commit_are_not_computed_again() {
    let before = Some([7; 16].to_vec());
    let prepared = PreparedCommit::large(commit("r", vec![said(), large()], 1), before.clone()).unwrap();
    let (_, rows) = prepared.moved(0).unwrap();
    let known = prepared.sums(&rows, 0, before.as_deref());
    assert!(matches!(known, Cow::Borrowed(_)));
    for (moved, other) in [(1, before), (0, None)] {
        let computed = prepared.sums(&rows, moved, other.as_deref());
        assert!(matches!(computed, Cow::Owned(_)));
        assert_eq!(computed == known, moved == 1, "the event before it counts");
    }
}

#[test]
fn files_of_processes_that_were_killed_are_removed_at_the_next_start() {
    let data = tempfile::tempdir().unwrap();
    let first = SqliteStore::open(data.path()).unwrap();
    let processes = data.path().join("processes");
    for _ in 0..5 {
        std::fs::write(processes.join(uuid::Uuid::now_v7().to_string()), "").unwrap();
    }
    let _second = SqliteStore::open(data.path()).unwrap();
    let mut left: Vec<String> = std::fs::read_dir(&processes)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    left.retain(|id| id != first.process_id());
    assert_eq!(left.len(), 1, "the two that live");
    assert_eq!(process::sweep(&processes), 0);
}

#[tokio::test]
async fn s9_a_file_that_is_lost_under_a_live_process_is_told_before_anything_is_written() {
    for lost in ["tollgate.db-shm", "tollgate.db-wal", "tollgate.db"] {
        let data = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(data.path()).unwrap();
        store.commit(commit("r", vec![started()], 0)).await.unwrap();
        let (path, aside) = (data.path().join(lost), data.path().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        let told = store.commit(commit("r", vec![said()], 1)).await.unwrap_err().to_string();
        assert!(told.contains("while it was in use"), "{lost}: {told}");
        // Once the file is back, the failed commit can be repeated: it left no trace.
        std::fs::rename(&aside, &path).unwrap();
        store.commit(commit("r", vec![said()], 1)).await.unwrap();
        assert_eq!(store.events("r", 0).await.unwrap().len(), 2, "{lost}");
    }
}

const PRUNING: PruneOptions = PruneOptions { before_ms: 1_000, dry_run: false, give_back: false };

fn ended() -> Event {
    Event::RunFinished { status: RunStatus::Completed, text: String::new(), usage: Box::default() }
}

/// Opens a store with old audit records. Before one is removed, a trigger makes this many random bytes.
fn with_slow_audit(directory: &Path, records: i64, bytes: u32) -> rusqlite::Connection {
    let (_, connection) = open::prepare(directory).unwrap();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
        INSERT INTO audit (at_ms, kind, who, decision) SELECT 1, 'call', 'agent a', 'success' FROM n";
    connection.execute(fill, [records]).unwrap();
    let slow = format!(
        "CREATE TRIGGER slow BEFORE DELETE ON audit BEGIN SELECT length(hex(randomblob({bytes}))); END"
    );
    connection.execute_batch(&slow).unwrap();
    connection
}

/// Returns the number of old records that are left.
fn old_records(connection: &rusqlite::Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM audit WHERE at_ms = 1", [], |row| row.get(0)).unwrap()
}

#[test]
fn z8_pruning_lets_others_write_and_stops_when_it_is_told_to() {
    const RECORDS: i64 = 20_000;
    let data = tempfile::tempdir().unwrap();
    let other = with_slow_audit(data.path(), RECORDS, 50_000);
    let left = || old_records(&other);
    let pruned = pruned_until_stopped(data.path(), &other, left);
    assert_eq!(pruned.audit.cast_signed(), RECORDS - left());
    other.execute_batch("DROP TRIGGER slow").unwrap();
    let rest = SqliteStore::prune(data.path(), PRUNING).unwrap();
    assert_eq!(((pruned.audit + rest.audit).cast_signed(), left()), (RECORDS, 0));
}

#[test]
fn z8_a_slow_part_of_pruning_ends_soon() {
    let data = tempfile::tempdir().unwrap();
    let other = with_slow_audit(data.path(), 2_000, 1_000_000);
    let pruned = pruned_until_stopped(data.path(), &other, || old_records(&other));
    assert!(pruned.audit < 200, "{pruned:?}");
}

/// Prunes on a thread of its own while another connection writes, and stops in the middle. Returns
/// what was removed until then. `left` counts the rows that are to go.
fn pruned_until_stopped(
    directory: &Path,
    other: &rusqlite::Connection,
    left: impl Fn() -> i64,
) -> PruneReport {
    let (stop, directory, all) = (CancellationToken::new(), directory.to_owned(), left());
    let stopped = stop.clone();
    let pruned = std::thread::spawn(move || SqliteStore::prune_until(&directory, PRUNING, &stopped).unwrap());
    while left() == all {
        std::thread::sleep(Duration::from_millis(1));
    }
    other
        .execute("INSERT INTO audit (at_ms, kind, who, decision) VALUES (2000, 'call', 'a', 'b')", [])
        .unwrap();
    assert!(left() > 0, "others wait until all is removed");
    stop.cancel();
    let pruned = pruned.join().unwrap();
    assert!(left() > 0, "{pruned:?}");
    pruned
}

#[test]
fn z8_components_without_runs_are_removed_in_batches() {
    const COMPONENTS: i64 = 1_000;
    let data = tempfile::tempdir().unwrap();
    let (_, other) = open::prepare(data.path()).unwrap();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
        INSERT INTO components (digest, bytes) SELECT 'digest' || i, zeroblob(100) FROM n";
    other.execute(fill, [COMPONENTS]).unwrap();
    let slow = "CREATE TRIGGER slow BEFORE DELETE ON components
        BEGIN SELECT length(hex(randomblob(500000))); END";
    other.execute_batch(slow).unwrap();
    let left = || other.query_row("SELECT count(*) FROM components", [], |row| row.get::<_, i64>(0)).unwrap();
    let pruned = pruned_until_stopped(data.path(), &other, left);
    assert_eq!(pruned.components_left.cast_signed(), left());
    // One of the rest gets a run again, and stays.
    let first = "(SELECT min(id) FROM components)";
    other.execute_batch("DROP TRIGGER slow; PRAGMA foreign_keys = off").unwrap();
    other.execute(&format!("INSERT INTO run_components (run, component) VALUES (1, {first})"), []).unwrap();
    assert_eq!((SqliteStore::prune(data.path(), PRUNING).unwrap().components_left, left()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn z8_runs_are_removed_in_batches_and_the_rest_stays_sound() {
    const RUNS: i64 = 350;
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    for number in 0..RUNS {
        store.commit(commit(&format!("r{number}"), vec![started(), said(), ended()], 0)).await.unwrap();
    }
    let (_, other) = open::prepare(data.path()).unwrap();
    let slow = "CREATE TRIGGER slow BEFORE DELETE ON runs BEGIN SELECT length(hex(randomblob(2000000))); END";
    other.execute_batch(slow).unwrap();
    let left = || other.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0)).unwrap();
    let pruned = tokio::task::block_in_place(|| pruned_until_stopped(data.path(), &other, left));
    assert_eq!(
        (pruned.runs.cast_signed(), pruned.events.cast_signed()),
        (RUNS - left(), 3 * (RUNS - left()))
    );
    assert!(store.verify().await.unwrap().is_sound());
    other.execute_batch("DROP TRIGGER slow").unwrap();
    let rest = tokio::task::block_in_place(|| SqliteStore::prune(data.path(), PRUNING).unwrap());
    assert_eq!(((pruned.runs + rest.runs).cast_signed(), left()), (RUNS, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn z8_the_changes_of_a_thread_are_joined_in_parts() {
    const RUNS: u64 = 350;
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path()).unwrap();
    for revision in 1..=RUNS {
        let change = StateChange { revision, updates: [joined(json!([revision]))].into() };
        let events = vec![started(), finished(change), ended()];
        store.commit(commit(&format!("r{revision}"), events, 0)).await.unwrap();
    }
    let (_, other) = open::prepare(data.path()).unwrap();
    let slow = "CREATE TRIGGER slow BEFORE DELETE ON changes
        BEGIN SELECT length(hex(randomblob(500000))); END";
    other.execute_batch(slow).unwrap();
    let left = || other.query_row("SELECT count(*) FROM changes", [], |row| row.get::<_, i64>(0)).unwrap();
    tokio::task::block_in_place(|| pruned_until_stopped(data.path(), &other, left));
    assert!(left() > 1, "all were removed at once");
    // The rest leads to the same state.
    let mut state = tollgate_agent::state::State::default();
    while let Some(change) = store.changes("t", state.revision(), 1).await.unwrap().first() {
        state.apply(change);
    }
    let stored = store.thread("t").await.unwrap().state;
    assert_eq!((state.revision(), state.get("k.list")), (RUNS, stored.get("k.list")));
    // The next call joins them, although the thread no longer has runs.
    other.execute_batch("DROP TRIGGER slow").unwrap();
    tokio::task::block_in_place(|| SqliteStore::prune(data.path(), PRUNING).unwrap());
    let changes = store.changes("t", 0, 1_000).await.unwrap();
    let mut state = tollgate_agent::state::State::default();
    changes.iter().for_each(|change| state.apply(change));
    let stored = store.thread("t").await.unwrap().state;
    assert_eq!((changes.len(), state.get("k.list")), (1, stored.get("k.list")));
}

/// Returns the number of this process's descriptors on the database of this store.
fn descriptors(directory: &Path) -> usize {
    let file = super::open::file_in(directory);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == file)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_queries_at_once_leave_few_descriptors_behind() {
    let data = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(data.path()).unwrap());
    let mut queries = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let store = Arc::clone(&store);
        queries.spawn(async move { store.runs(RunFilter::default()).await.unwrap() });
    }
    queries.join_all().await;
    // Eight for reading, and one for writing.
    assert!(descriptors(data.path()) <= 9, "{}", descriptors(data.path()));
}
