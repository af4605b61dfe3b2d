//! The checks of a story, regardless of how often its processes were killed.

use crate::place::Place;
use crate::program::{BESIDE, THREADS, line};
use crate::script::{ANSWER, HELPED};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tollgate::store::{RunFilter, RunStore, RunSummary, SqliteStore, StateStore};
use tollgate_agent::code::Code;
use tollgate_agent::message::Message;
use tollgate_agent::outcome::Outcome;
use tollgate_agent::run::{Event, StoredEvent};

/// Observations in addition to the passed checks.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Calls that were answered as interrupted.
    pub(crate) interrupted: u64,
}

impl Verdict {
    /// Checks a story that has ended; `when` identifies it in failures.
    pub(crate) fn of(place: &Place, when: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open(&place.path().join("data")).unwrap();
            let mut records = BTreeMap::new();
            for run in store.runs(RunFilter::default()).await.unwrap() {
                let record = store.events(&run.run_id, 0).await.unwrap();
                is_whole(&run, &record, when);
                nothing_ran_twice(place, &record, when);
                records.insert(run.run_id.clone(), record);
            }
            assert_eq!(records.len(), THREADS.len() + 1, "{when}: one run for each thread, and one child");
            was_told(place, &records, when);
            reads_well(&store.thread(THREADS[0]).await.unwrap(), &records, when);
            let codes = records.values().flatten().filter_map(|event| match &event.event {
                Event::CallFinished(finished) => finished.end.code(),
                _ => None,
            });
            let codes: Vec<Code> = codes.collect();
            assert!(codes.iter().all(|code| *code == Code::Interrupted), "{when}: {codes:?}");
            is_sound(place, when);
            Self { interrupted: codes.len() as u64 }
        })
    }

    /// Checks a run in which a child worked next to a question.
    pub(crate) fn of_beside(place: &Place, when: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open(&place.path().join("data")).unwrap();
            for run in store.runs(RunFilter::default()).await.unwrap() {
                let record = store.events(&run.run_id, 0).await.unwrap();
                match run.kind.as_str() {
                    "child" => {
                        assert!(["completed", "cancelled"].contains(&run.status.as_str()), "{when}: {run:?}")
                    }
                    _ => is_whole(&run, &record, when),
                }
                nothing_ran_twice(place, &record, when);
            }
            let filter = RunFilter { thread_id: Some(BESIDE.to_owned()), ..RunFilter::default() };
            assert_eq!(store.runs(filter).await.unwrap().len(), 1, "{when}");
        });
        is_sound(place, when);
    }

    /// Checks a story whose component was replaced while it ran. Returns how many calls had returned
    /// before their turn to be applied.
    pub(crate) fn of_upgraded(place: &Place, when: &str) -> u64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let returned = runtime.block_on(async {
            let store = SqliteStore::open(&place.path().join("data")).unwrap();
            let mut returned = 0;
            for run in store.runs(RunFilter::default()).await.unwrap() {
                let record = store.events(&run.run_id, 0).await.unwrap();
                is_whole(&run, &record, when);
                nothing_ran_twice(place, &record, when);
                returned += what_returned_counts(&record, when);
            }
            returned
        });
        is_sound(place, when);
        returned
    }

    /// Checks a thread whose number several processes incremented, within these times.
    pub(crate) fn of_adding(place: &Place, expected: RangeInclusive<usize>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open(&place.path().join("data")).unwrap();
            let state = store.thread(THREADS[0]).await.unwrap().state;
            let times = state.revision() as usize;
            assert!(expected.contains(&times), "{times} commits, not {expected:?}");
            assert_eq!((state.revision(), state.get("story.total")), (times as u64, Some(&json!(times))));
            let all = RunFilter { limit: 2 * times + 1, ..RunFilter::default() };
            let mut runs = store.runs(all).await.unwrap();
            // A killed process may have begun one more, which changed nothing.
            runs.retain(|run| run.status != "running");
            assert_eq!(runs.len(), times);
            let mut revisions = Vec::new();
            for run in &runs {
                let record = store.events(&run.run_id, 0).await.unwrap();
                is_whole(run, &record, "adding");
                revisions.extend(record.iter().filter_map(|event| match &event.event {
                    Event::CallFinished(finished) => finished.change.as_ref().map(|change| change.revision),
                    _ => None,
                }));
            }
            revisions.sort_unstable();
            assert_eq!(revisions, (1..=times as u64).collect::<Vec<_>>(), "each commit has its revision");
        });
        is_sound(place, "adding");
    }
}

/// Checks that event numbers have no gaps, and that the run ended once and completed.
fn is_whole(run: &RunSummary, record: &[Arc<StoredEvent>], when: &str) {
    let numbers: Vec<u64> = record.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=run.events).collect::<Vec<_>>(), "{when}");
    // A direct call that a kill interrupted failed, and so did its run.
    let last_call = record.iter().rev().find_map(|event| match &event.event {
        Event::CallFinished(finished) => Some(finished.end.code()),
        _ => None,
    });
    let has_failed = run.kind == "call" && last_call.flatten().is_some();
    assert_eq!(run.status, if has_failed { "failed" } else { "completed" }, "{when}");
    let ends = record.iter().filter(|event| matches!(event.event, Event::RunFinished { .. })).count();
    assert_eq!(ends, 1, "{when}: one end");
    let Event::RunFinished { text, .. } = &record.last().unwrap().event else { panic!("{when}") };
    match run.kind.as_str() {
        "prompt" => assert_eq!(text, ANSWER, "{when}"),
        "child" => assert_eq!(text, HELPED, "{when}"),
        _ => {}
    }
}

/// Checks that a call that may not run twice began once, and left as many bytes as its end states.
fn nothing_ran_twice(place: &Place, record: &[Arc<StoredEvent>], when: &str) {
    let bytes = |file: &str| std::fs::metadata(place.ran().join(file)).map_or(0, |file| file.len());
    for event in record {
        let Event::CallProposed(proposed) = &event.event else { continue };
        let arguments = proposed.arguments.as_ref().unwrap().value();
        let file = match proposed.tool_name.as_str() {
            "appends" => arguments["p"].as_str().unwrap(),
            "ask" => &event.run_id,
            _ => continue,
        };
        let of_call = |event: &&Arc<StoredEvent>| match &event.event {
            Event::CallFinished(finished) => finished.call_id == proposed.call_id,
            _ => false,
        };
        let ends: Vec<_> = record.iter().filter(of_call).collect();
        let [end] = ends.as_slice() else { panic!("{when}: {file} has {} ends", ends.len()) };
        let Event::CallFinished(finished) = &end.event else { continue };
        let ran = bytes(file);
        match finished.end.code() {
            None => assert_eq!(ran, 1, "{when}: {file} succeeded"),
            Some(_) => assert!(ran <= 1, "{when}: {file} ran {ran} times"),
        }
    }
}

/// Checks that no call of the component that returned successfully failed later. Returns their
/// number.
fn what_returned_counts(record: &[Arc<StoredEvent>], when: &str) -> u64 {
    let mut counted = 0;
    for (at, event) in record.iter().enumerate() {
        let Event::CallReturned { call_id, outcome, .. } = &event.event else { continue };
        if !matches!(outcome.as_ref(), Outcome::Returned(_)) {
            continue;
        }
        let end = record[at..].iter().find_map(|event| match &event.event {
            Event::CallFinished(finished) if finished.call_id == *call_id => Some(finished),
            Event::CallConflicted { call_id: of, .. } if of == call_id => None,
            _ => None,
        });
        if let Some(finished) = end.filter(|finished| finished.tool_name == "appends") {
            assert_eq!(finished.end.code(), None, "{when}: {finished:?}");
            counted += 1;
        }
    }
    counted
}

/// Checks that the record contains every line that a client received, letter by letter, and that none
/// was left out within one process.
fn was_told(place: &Place, records: &BTreeMap<String, Vec<Arc<StoredEvent>>>, when: &str) {
    let told = std::fs::read_to_string(place.path().join("told")).unwrap();
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for told in told.lines() {
        let read: Value = serde_json::from_str(told).unwrap_or_else(|e| panic!("{when}: {e}: {told}"));
        if read.is_null() {
            // Another process begins.
            last.clear();
            continue;
        }
        let (run, number) = (read["run_id"].as_str().unwrap(), read["number"].as_u64().unwrap());
        let record = records.get(run).unwrap_or_else(|| panic!("{when}: run {run} was reported and is gone"));
        let kept = record.get(usize::try_from(number - 1).unwrap());
        assert_eq!(kept.map(|event| line(event)).as_deref(), Some(told), "{when}: reported events are kept");
        let before = last.insert(run.to_owned(), number);
        assert!(before.is_none_or(|before| before + 1 == number), "{when}: {before:?}, then {number}");
    }
}

/// Checks that each call in the conversation has its answer, and that the state matches the calls.
fn reads_well(
    thread: &tollgate_agent::run::Thread,
    records: &BTreeMap<String, Vec<Arc<StoredEvent>>>,
    when: &str,
) {
    let count = |wanted: fn(&Message) -> bool| thread.messages.iter().filter(|m| wanted(m)).count();
    assert_eq!(count(|m| matches!(m, Message::User(_))), 1, "{when}");
    assert_eq!(count(|m| matches!(m, Message::Assistant(_))), 3, "{when}");
    assert_eq!(count(|m| matches!(m, Message::Answer(_))), 10, "{when}");
    let events = || records.values().flatten().map(|event| &event.event);
    let added = events().filter(|event| match event {
        Event::CallFinished(finished) => finished.tool_name == "add" && finished.end.code().is_none(),
        _ => false,
    });
    let total = thread.state.get("story.total").cloned().unwrap_or(json!(0));
    assert_eq!(total, json!(added.count()), "{when}: what was answered is what was changed");
    assert_eq!(thread.state.get("story.city"), Some(&json!("Rome")), "{when}: in the order of the calls");
    let changes = events().filter(|event| event.change().is_some()).count();
    assert_eq!(thread.state.revision(), changes as u64, "{when}");
}

/// Checks that SQLite finds no problem in its file.
fn is_sound(place: &Place, when: &str) {
    let file = place.path().join("data/tollgate.db");
    let connection = rusqlite::Connection::open(file).unwrap();
    let answer: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok", "{when}");
}
