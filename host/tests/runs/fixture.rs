//! A store written by an earlier release can be opened forever: its runs are readable, and
//! waiting calls can be decided.

use crate::place::sqlite;
use crate::world::{decision, host_on};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tollgate::models::ScriptedTurn;
use tollgate::run::{RunEnd, RunUpdate};
use tollgate::store::{RunFilter, RunSummary, Store, restore_state};
use tollgate::{CallRequest, Host, RunRequest};
use tollgate_agent::code::Code;
use tollgate_agent::run::{Event, Run, RunStatus, Thread};
use tollgate_agent::state::State;

/// The stores, one for each release whose schema or events differ.
const FIXTURES: [&str; 1] = ["store-0.1.0.db"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Opens a copy of a fixture.
fn opened(name: &str) -> (tempfile::TempDir, Arc<dyn Store>) {
    let data = tempfile::tempdir().unwrap();
    std::fs::copy(folder().join(name), data.path().join("tollgate.db")).unwrap();
    let store = sqlite(data.path());
    (data, store)
}

async fn run_of(store: &Arc<dyn Store>, thread: &str) -> RunSummary {
    let filter = RunFilter { thread_id: Some(thread.to_owned()), ..RunFilter::default() };
    store.runs(filter).await.unwrap().pop().unwrap()
}

/// Answers the questions of a run until it asks no more. A tool in another version than the one
/// that asked asks again.
async fn decided(host: &Host, run_id: &str, call_id: &str) -> RunEnd {
    for n in 1..4 {
        let decision = decision(&format!("d{n}"), call_id, json!({"ok": true}));
        let end = host.decide(run_id, decision).await.unwrap().wait().await.unwrap();
        if end.waiting.is_empty() {
            return end;
        }
    }
    panic!("it asks for ever");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_an_earlier_release_is_read() {
    for name in FIXTURES {
        let (_data, store) = opened(name);
        let runs = store.runs(RunFilter::default()).await.unwrap();
        for run in &runs {
            let record = store.events(&run.run_id, 0).await.unwrap();
            assert_eq!(record.len() as u64, run.events, "{name}");
            let mut folded = Run::new(Thread::default());
            for event in &record {
                folded.apply(&event.event).unwrap();
            }
            assert_eq!(folded.is_finished(), !run.is_open());
        }
        let mut status: Vec<_> =
            runs.iter().map(|run| (run.thread_id.as_str(), run.status.as_str())).collect();
        status.sort_unstable();
        let expected = [
            ("asks", "waiting"),
            ("asks-directly", "waiting"),
            ("done", "completed"),
            ("done", "completed"),
            ("left", "running"),
        ];
        assert_eq!(status, expected, "{name}");
        let thread = store.thread("done").await.unwrap();
        assert_eq!(thread.state.get("basics.total"), Some(&json!(6)), "{name}");
        assert_eq!(thread.state.get("gone.items"), Some(&json!(["kept"])), "{name}");
        assert_eq!(thread.messages.len(), 6, "{name}: user, assistant, three answers, assistant");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_in_a_store_of_an_earlier_release_is_decided() {
    for name in FIXTURES {
        let (_data, store) = opened(name);
        let host =
            host_on(Arc::clone(&store), vec![ScriptedTurn::text("Decided."), ScriptedTurn::text("Gone on.")]);
        let run = run_of(&store, "asks").await;
        let end = decided(&host, &run.run_id, "call-1-1").await;
        assert_eq!((end.status, end.text.as_str()), (Some(RunStatus::Completed), "Decided."), "{name}");
        let call = run_of(&store, "asks-directly").await;
        let end = decided(&host, &call.run_id, "call-1").await.last_call.unwrap().end.clone();
        assert_eq!(end.code(), None, "{name}");

        let left = run_of(&store, "left").await;
        assert!(!left.is_driven, "{name}");
        let end = host.recover(&left.run_id).await.unwrap().wait().await.unwrap();
        assert_eq!(end.text, "Gone on.", "{name}");
        assert_eq!(end.last_call.unwrap().end.code(), Some(Code::Interrupted), "{name}");
    }
}

/// Makes a fixture, named after the release; see the README beside the fixtures. Each is made once
/// and never again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "makes a fixture"]
async fn the_fixture_of_this_release_is_made() {
    let data = tempfile::tempdir().unwrap();
    let store = sqlite(data.path());
    let kept = State::restored(0, [("gone.items".to_owned(), json!(["kept"]))]);
    restore_state(&*store, "done", &kept).await.unwrap();
    let turns = vec![
        ScriptedTurn::calls([("add", json!({"n": 2})), ("add", json!({"n": 3})), ("nope", json!({}))]),
        ScriptedTurn::text("It is done."),
        ScriptedTurn::calls([("ask", json!({"what": "send"})), ("add", json!({"n": 1}))]),
        ScriptedTurn::calls([("slow", json!({}))]),
    ];
    let host = host_on(Arc::clone(&store), turns);
    let say = |thread: &str| RunRequest::new("default", "Do it.").on_thread(thread);
    for thread in ["done", "asks"] {
        host.run(say(thread)).await.unwrap().wait().await.unwrap();
    }
    host.call(CallRequest::from_json("add", r#"{"n": 1}"#).on_thread("done")).await.unwrap();
    host.call(CallRequest::from_json("ask", "{}").on_thread("asks-directly")).await.unwrap();
    let mut left = host.run(say("left")).await.unwrap();
    while let Some(told) = left.events.next().await {
        if matches!(told, RunUpdate::Stored(event) if matches!(event.event, Event::CallStarted { .. })) {
            break;
        }
    }
    let file = folder().join(format!("store-{}.db", env!("CARGO_PKG_VERSION")));
    assert!(!file.exists(), "{} is there already, and is what that release wrote", file.display());
    let connection = rusqlite::Connection::open(data.path().join("tollgate.db")).unwrap();
    connection.execute("VACUUM INTO ?1", [file.to_str().unwrap()]).unwrap();
}
