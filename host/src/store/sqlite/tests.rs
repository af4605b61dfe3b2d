//! What a writer does that the disk has no more room for.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::{Process, SqliteStore, Writer, open};
use crate::store::{Commit, CommitError, Store};
use std::path::Path;
use std::sync::Arc;
use tollgate_agent::context::RunIdentity;
use tollgate_agent::run::{AgentSpec, Event, RunLimits, RunSpec, Task};

/// A writer on a disk with room for this many pages; 0 for as many as it likes.
fn writer(directory: &Path, max_pages: i64) -> Writer {
    let file = open::prepare(directory).unwrap();
    let connection = open::connect(&file).unwrap();
    if max_pages > 0 {
        let given: i64 =
            connection.pragma_update_and_check(None, "max_page_count", max_pages, |row| row.get(0)).unwrap();
        assert_eq!(given, max_pages);
    }
    Writer::start(connection, &file, Arc::new(Process::register(directory).unwrap())).unwrap()
}

fn commit(run: &str, events: Vec<Event>, after: u64) -> Commit {
    let (run_id, thread_id) = (Arc::from(run), Arc::from("t"));
    Commit { run_id, thread_id, after, at_ms: 1, events, ..Commit::default() }
}

fn started() -> Event {
    let task = Task::Call { tool_name: "echo".to_owned(), arguments: String::new() };
    let (identity, agent, limits) = (RunIdentity::default(), AgentSpec::default(), RunLimits::default());
    Event::RunStarted { spec: Arc::new(RunSpec { identity, agent: agent.into(), limits, task }) }
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
            Err(CommitError::Failed(e)) => break e.to_string(),
            Err(e) => panic!("{e}"),
        }
    };
    assert!(kept > 10 && refused.contains("the disk is full; free some room"), "{kept}: {refused}");
    assert!(full.commit(commit("r", vec![said(), said()], kept)).await.is_err(), "it stays full");
    let store = SqliteStore::open(data.path()).unwrap();
    assert_eq!(store.events("r", 0).await.unwrap().len() as u64, kept);
    drop(full);
    let roomy = writer(data.path(), 0);
    roomy.commit(commit("r", vec![said(), said()], kept)).await.unwrap();
    assert_eq!(store.events("r", 0).await.unwrap().len() as u64, kept + 2);
}
