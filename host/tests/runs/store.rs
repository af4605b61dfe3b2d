//! What every store keeps to, and what the one on disk says when it cannot.

use crate::with_each_store;
use crate::world::StoreAt;
use serde_json::json;
use std::sync::Arc;
use tollgate::store::{Commit, CommitError, RunFilter, SqliteStore};
use tollgate_agent::message::Message;
use tollgate_agent::outcome::{ToolResult, Usage};
use tollgate_agent::run::event::Finished;
use tollgate_agent::run::{AgentSpec, CallEnd, Event, RunLimits, RunSpec, Task};
use tollgate_agent::state::{KeyUpdate, State, StateChange};

fn started(run: &str) -> Event {
    let identity = tollgate_agent::context::RunIdentity {
        run_id: run.to_owned(),
        thread_id: "t".to_owned(),
        agent_id: "a".to_owned(),
        ..Default::default()
    };
    let task = Task::Call { tool_name: "echo".to_owned(), arguments: String::new() };
    let spec = RunSpec { identity, agent: AgentSpec::default(), limits: RunLimits::default(), task };
    Event::RunStarted { spec: Arc::new(spec) }
}

fn changed(revision: u64, value: u64) -> Event {
    let updates = vec![KeyUpdate::restored("k.n", json!(value))];
    Event::CallFinished(Finished {
        call_id: "c".to_owned(),
        tool_name: "echo".to_owned(),
        end: CallEnd::Result(Arc::new(ToolResult::success(value))),
        change: Some(StateChange { revision, updates }),
        notes: Vec::new(),
        usage: Usage::default(),
    })
}

fn commit(run: &str, after: u64, events: Vec<Event>) -> Commit {
    Commit { run_id: Arc::from(run), thread_id: Arc::from("t"), after, at_ms: 7, events, ..Commit::default() }
}

with_each_store! {
    async fn e1_events_are_numbered_without_gaps(store: StoreAt) {
        let store = store.open();
        store.commit(commit("r", 0, vec![started("r"), Event::StepStarted { step: 1 }])).await.unwrap();
        let refused = store.commit(commit("r", 1, vec![Event::RunWaiting])).await;
        assert!(matches!(refused, Err(CommitError::Advanced)), "{refused:?}");
        store.commit(commit("r", 2, vec![Event::RunWaiting])).await.unwrap();
        let numbers: Vec<u64> = store.events("r", 1).await.unwrap().iter().map(|e| e.number).collect();
        assert_eq!(numbers, [2, 3]);
        assert!(store.events("nobody", 0).await.unwrap().is_empty());
    }

    async fn s9_a_commit_on_an_old_revision_fails_and_stores_nothing(store: StoreAt) {
        let store = store.open();
        store.commit(commit("r1", 0, vec![started("r1"), changed(1, 10)])).await.unwrap();
        store.commit(commit("r2", 0, vec![started("r2"), changed(2, 20)])).await.unwrap();
        let refused = store.commit(commit("r3", 0, vec![started("r3"), changed(1, 30)])).await;
        let Err(CommitError::Conflict(missed)) = refused else { panic!("{refused:?}") };
        assert_eq!(missed.iter().map(|change| change.revision).collect::<Vec<_>>(), [1, 2]);
        assert!(store.events("r3", 0).await.unwrap().is_empty());
        let thread = store.thread("t").await.unwrap();
        assert_eq!((thread.state.revision(), thread.state.get("k.n")), (2, Some(&json!(20))));
    }

    async fn threads_keep_their_conversation(at: StoreAt) {
        let store = at.open();
        for (run, text) in [("r1", "one"), ("r2", "two")] {
            let mut commit = commit(run, 0, vec![started(run)]);
            commit.messages = vec![Message::User(text.to_owned())];
            store.commit(commit).await.unwrap();
        }
        let messages = at.open().thread("t").await.unwrap().messages;
        assert_eq!(*messages, [Message::User("one".to_owned()), Message::User("two".to_owned())]);
    }

    async fn runs_are_listed_newest_first(store: StoreAt) {
        let store = store.open();
        for run in ["r1", "r2"] {
            store.commit(commit(run, 0, vec![started(run)])).await.unwrap();
        }
        store.commit(commit("r1", 1, vec![Event::RunWaiting])).await.unwrap();
        let all = store.runs(RunFilter::default()).await.unwrap();
        assert_eq!(all.iter().map(|r| r.run_id.as_str()).collect::<Vec<_>>(), ["r2", "r1"]);
        let filter = RunFilter { status: Some("waiting".to_owned()), ..RunFilter::default() };
        let waiting = store.runs(filter).await.unwrap();
        assert_eq!((waiting.len(), waiting[0].events, waiting[0].title.as_str()), (1, 2, "echo"));
    }

    async fn the_changes_of_a_thread_are_read_in_order(store: StoreAt) {
        let store = store.open();
        store.commit(commit("r1", 0, vec![started("r1"), changed(1, 10)])).await.unwrap();
        store.commit(commit("r2", 0, vec![started("r2"), changed(2, 20)])).await.unwrap();
        store.restore("t", &State::restored(0, [("k.n".to_owned(), json!(5))])).await.unwrap();
        let revisions = |changes: Vec<StateChange>| changes.iter().map(|c| c.revision).collect::<Vec<_>>();
        assert_eq!(revisions(store.changes("t", 0, 10).await.unwrap()), [1, 2, 3]);
        assert_eq!(revisions(store.changes("t", 1, 1).await.unwrap()), [2]);
        assert!(store.changes("nobody", 0, 10).await.unwrap().is_empty());
    }

    async fn s8_state_can_be_restored(store: StoreAt) {
        let store = store.open();
        store.commit(commit("r1", 0, vec![started("r1"), changed(1, 10)])).await.unwrap();
        let state = State::restored(0, [("k.n".to_owned(), json!(5)), ("k.m".to_owned(), json!("x"))]);
        assert_eq!(store.restore("t", &state).await.unwrap(), 2);
        let thread = store.thread("t").await.unwrap();
        assert_eq!((thread.state.get("k.n"), thread.state.get("k.m")), (Some(&json!(5)), Some(&json!("x"))));
        let refused = store.commit(commit("r2", 0, vec![started("r2"), changed(2, 1)])).await;
        assert!(matches!(refused, Err(CommitError::Conflict(missed)) if missed.len() == 1));
    }
}

fn refusal(directory: &std::path::Path) -> String {
    match SqliteStore::open(directory) {
        Ok(_) => panic!("it was opened"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn a_file_that_is_no_store_is_refused_in_words() {
    let at = StoreAt::sqlite();
    let file = at.path().join("tollgate.db");
    std::fs::write(&file, "not a database, but long enough to look at: ".repeat(100)).unwrap();
    assert!(refusal(at.path()).contains("no SQLite file"), "{}", refusal(at.path()));
    std::fs::remove_file(&file).unwrap();
    rusqlite::Connection::open(&file).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    assert!(refusal(at.path()).contains("another program's"), "{}", refusal(at.path()));
}

#[test]
fn a_store_of_a_newer_version_is_refused_in_words() {
    let at = StoreAt::sqlite();
    drop(SqliteStore::open(at.path()).unwrap());
    let connection = rusqlite::Connection::open(at.path().join("tollgate.db")).unwrap();
    connection
        .execute_batch(
            "INSERT INTO refinery_schema_history VALUES (99, 'future', '2030-01-01T00:00:00Z', '1')",
        )
        .unwrap();
    assert!(refusal(at.path()).contains("version 99"), "{}", refusal(at.path()));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let refused = refusal(std::path::Path::new("/proc/nowhere/tollgate"));
    assert!(refused.contains("/proc/nowhere") && refused.contains("--data"), "{refused}");
}
