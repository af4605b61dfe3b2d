//! The checks of a story, regardless of how often its processes were killed.

use crate::invariants::{Recorded, Records};
use crate::place::Place;
use crate::program::{BESIDE, THREADS, line};
use crate::script::{ANSWER, HELPED};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tollgate::store::{RunFilter, RunStore, SqliteStore, StateStore};
use tollgate_agent::code::Code;
use tollgate_agent::message::Message;
use tollgate_agent::outcome::Outcome;
use tollgate_agent::run::event::CheckedCall;
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
        let interrupted = read(place, async |store| {
            let records = records_of(&store, place, when, |_| false).await;
            assert_eq!(records.iter().count(), THREADS.len() + 1, "{when}: one run a thread, and one child");
            was_told(place, &records, when);
            reads_well(&store.thread(THREADS[0]).await.unwrap(), &records, when);
            let codes = records.codes();
            assert!(codes.iter().all(|code| *code == Code::Interrupted), "{when}: {codes:?}");
            codes.len() as u64
        });
        is_sound(place, when);
        Self { interrupted }
    }

    /// Checks a run in which a child worked next to a question.
    pub(crate) fn of_beside(place: &Place, when: &str) {
        read(place, async |store| {
            records_of(&store, place, when, |recorded| recorded.run.kind == "child").await;
            let filter = RunFilter { thread_id: Some(BESIDE.to_owned()), ..RunFilter::default() };
            assert_eq!(store.runs(filter).await.unwrap().len(), 1, "{when}");
        });
        is_sound(place, when);
    }

    /// Checks a story whose component was replaced while it ran. Returns how many calls had returned
    /// before their turn to be applied.
    pub(crate) fn of_upgraded(place: &Place, when: &str) -> u64 {
        let returned = read(place, async |store| {
            let records = records_of(&store, place, when, |_| false).await;
            records.iter().map(|recorded| what_returned_counts(&recorded.events, when)).sum()
        });
        is_sound(place, when);
        returned
    }

    /// Checks a thread whose number several processes incremented, within these times.
    pub(crate) fn of_adding(place: &Place, expected: RangeInclusive<usize>) {
        read(place, async |store| {
            let state = store.thread(THREADS[0]).await.unwrap().state;
            let times = state.revision() as usize;
            assert!(expected.contains(&times), "{times} commits, not {expected:?}");
            assert_eq!(state.get("story.total"), Some(&json!(times)));
            let records = Records::read(&store, "adding").await;
            records.states_follow(&[&store]).await;
            // A killed process may have begun one more, which changed nothing.
            assert_eq!(records.iter().filter(|recorded| recorded.is_over()).count(), times);
        });
        is_sound(place, "adding");
    }
}

/// Reads the store of a place.
fn read<T>(place: &Place, work: impl AsyncFnOnce(SqliteStore) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { work(SqliteStore::open(&place.path().join("data")).unwrap()).await })
}

/// Reads the records of a story that has ended, and checks their invariants.
async fn records_of(
    store: &SqliteStore,
    place: &Place,
    when: &str,
    may_be_cancelled: impl Fn(&Recorded) -> bool,
) -> Records {
    let records = Records::read(store, when).await;
    records.have_ended(&[("prompt", ANSWER), ("child", HELPED)], may_be_cancelled);
    records.ran_at_most_once(|run_id, call| effects(place, run_id, call));
    records.children_belong();
    records.states_follow(&[store]).await;
    records.conversations_are_whole(store).await;
    records
}

/// Returns how many bytes a call left in the files that only it writes; `None` if its tool may run
/// twice.
fn effects(place: &Place, run_id: &str, call: &CheckedCall) -> Option<u64> {
    let arguments = call.arguments.as_ref().unwrap().value();
    let file = match call.tool_name.as_str() {
        "appends" => arguments["p"].as_str().unwrap(),
        "ask" => run_id,
        _ => return None,
    };
    Some(std::fs::metadata(place.ran().join(file)).map_or(0, |file| file.len()))
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
fn was_told(place: &Place, records: &Records, when: &str) {
    let told = std::fs::read_to_string(place.path().join("told")).unwrap();
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for told in told.lines() {
        let read: Value = serde_json::from_str(told).unwrap_or_else(|e| panic!("{when}: {e}: {told}"));
        if read.is_null() {
            // Another process begins.
            last.clear();
            continue;
        }
        let (run, number) = records.contain(&read);
        let kept = &records.of(&run).unwrap().events[usize::try_from(number - 1).unwrap()];
        assert_eq!(line(kept), told, "{when}: reported events are kept");
        let before = last.insert(run, number);
        assert!(before.is_none_or(|before| before + 1 == number), "{when}: {before:?}, then {number}");
    }
}

/// Checks that the conversation is the story's, and that the state matches the calls.
fn reads_well(thread: &tollgate_agent::run::Thread, records: &Records, when: &str) {
    let count = |wanted: fn(&Message) -> bool| thread.messages.iter().filter(|m| wanted(m)).count();
    assert_eq!(count(|m| matches!(m, Message::User(_))), 1, "{when}");
    assert_eq!(count(|m| matches!(m, Message::Assistant(_))), 3, "{when}");
    assert_eq!(count(|m| matches!(m, Message::Answer(_))), 10, "{when}");
    let ended = records.iter().flat_map(Recorded::finished);
    let added = ended.filter(|finished| finished.tool_name == "add" && finished.end.code().is_none());
    let total = thread.state.get("story.total").cloned().unwrap_or(json!(0));
    assert_eq!(total, json!(added.count()), "{when}: what was answered is what was changed");
    assert_eq!(thread.state.get("story.city"), Some(&json!("Rome")), "{when}: in the order of the calls");
}

/// Checks that SQLite finds no problem in its file.
fn is_sound(place: &Place, when: &str) {
    let file = place.path().join("data/tollgate.db");
    let connection = rusqlite::Connection::open(file).unwrap();
    let answer: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok", "{when}");
}
