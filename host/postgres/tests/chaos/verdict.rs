//! The checks of a story, whatever happened to its hosts.

use crate::story::{ANSWER, EFFECTS, REPORTED};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use tokio_postgres::Client;
use tollgate::store::{RunFilter, Store};
use tollgate_agent::code::Code;
use tollgate_agent::run::{Event, StoredEvent};

/// Observations beside the verdict that all is well.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) faults: u64,
    pub(crate) runs: u64,
    pub(crate) events: u64,
    /// Events that hosts reported.
    pub(crate) reported: u64,
    /// Effects that must happen at most once.
    pub(crate) effects: u64,
    /// Calls that were answered as interrupted.
    pub(crate) interrupted: u64,
    /// How often a run changed its driver after the first.
    pub(crate) takeovers: u64,
}

impl Verdict {
    pub(crate) fn add(&mut self, other: &Self) {
        self.faults += other.faults;
        self.runs += other.runs;
        self.events += other.events;
        self.reported += other.reported;
        self.effects += other.effects;
        self.interrupted += other.interrupted;
        self.takeovers += other.takeovers;
    }
}

/// Looks at a story that has come to its end; `when` says which, in failures.
pub(crate) async fn of(
    store: &Arc<dyn Store>,
    behind: &Client,
    directory: &Path,
    submitted: &[Arc<str>],
    when: &str,
) -> Verdict {
    let mut verdict = Verdict::default();
    let mut records = BTreeMap::new();
    for run in store.runs(RunFilter { limit: 10_000, ..RunFilter::default() }).await.unwrap() {
        // Reading checks the checksums, too.
        let record = store.events(&run.run_id, 0).await.unwrap();
        let numbers: Vec<u64> = record.iter().map(|event| event.number).collect();
        assert_eq!(numbers, (1..=run.events).collect::<Vec<_>>(), "{when}: {run:?}");
        let ends = record.iter().filter(|event| matches!(event.event, Event::RunFinished { .. })).count();
        assert_eq!((run.status.as_str(), ends), ("completed", 1), "{when}: {run:?}");
        assert!(
            matches!(&record.last().unwrap().event, Event::RunFinished { text, .. } if text == ANSWER),
            "{when}: {run:?}"
        );
        verdict.runs += 1;
        verdict.events += run.events;
        records.insert(run.run_id.clone(), record);
    }
    // A prompt to a waiting run has no run of its own.
    assert!(submitted.iter().all(|run_id| records.contains_key(&**run_id)), "{when}: a run was lost");
    verdict.reported = nothing_reported_is_lost(directory, &records, when);
    verdict.effects = nothing_ran_twice(directory, &records, when);
    let ends = records.values().flatten().filter_map(|event| match &event.event {
        Event::CallFinished(finished) => finished.end.code(),
        _ => None,
    });
    let codes: Vec<Code> = ends.collect();
    // A prompt to a run that waits supersedes its question.
    let expected = |code: &Code| matches!(code, Code::Interrupted | Code::Superseded);
    assert!(codes.iter().all(expected), "{when}: {codes:?}");
    verdict.interrupted = codes.iter().filter(|code| **code == Code::Interrupted).count() as u64;
    let sql = "SELECT coalesce(sum(epoch), 0)::int8, count(*) FROM runs WHERE owner IS NOT NULL";
    let owned: i64 = behind.query_one(sql, &[]).await.unwrap().get(1);
    assert_eq!(owned, 0, "{when}: a run that has ended has a driver");
    let left: i64 = behind.query_one("SELECT count(*) FROM inbox", &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "{when}: a command was not carried out");
    // Of an undisturbed run: 1 for the claim, and 1 for each decision.
    let sql = "SELECT coalesce(sum(greatest(epoch - 1, 0)), 0)::int8 FROM runs";
    let raised: i64 = behind.query_one(sql, &[]).await.unwrap().get(0);
    let decided = records.values().flatten().filter(|event| matches!(event.event, Event::RunWaiting)).count();
    verdict.takeovers = u64::try_from(raised).unwrap().saturating_sub(decided as u64);
    one_conversation_per_thread(store, &records, when).await;
    verdict
}

type Records = BTreeMap<String, Vec<Arc<StoredEvent>>>;

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every event that a host reported is in the record as it was reported.
fn nothing_reported_is_lost(directory: &Path, records: &Records, when: &str) -> u64 {
    let reported = lines(&directory.join(REPORTED));
    for line in &reported {
        let (run_id, number) = (line[0].as_str().unwrap(), line[1].as_u64().unwrap());
        let record = records.get(run_id).unwrap_or_else(|| panic!("{when}: the run of {line} is lost"));
        let event = record.get(usize::try_from(number).unwrap() - 1);
        let event = event.unwrap_or_else(|| panic!("{when}: the event {line} is lost"));
        let stored = serde_json::to_value(&**event).unwrap();
        assert!(!line[2].is_null() && !line[3].is_null(), "{line}");
        assert_eq!((&stored["type"], &stored["at_ms"]), (&line[2], &line[3]), "{when}: {line} was replaced");
    }
    assert!(!reported.is_empty(), "{when}: nothing was reported");
    reported.len() as u64
}

/// An effect that must happen at most once did, and its start is in the record. A call that
/// succeeded has its effect.
fn nothing_ran_twice(directory: &Path, records: &Records, when: &str) -> u64 {
    let effects = lines(&directory.join(EFFECTS));
    let mut seen = BTreeSet::new();
    for line in &effects {
        assert!(seen.insert(line.to_string()), "{when}: {line} ran twice");
        let (run_id, call_id) = (line[0].as_str().unwrap(), line[1].as_str().unwrap());
        let started = records[run_id].iter().any(
            |event| matches!(&event.event, Event::CallStarted { call_id: started, .. } if started == call_id),
        );
        assert!(started, "{when}: {line} ran without a record of its start");
    }
    for (run_id, record) in records {
        for event in record {
            let Event::CallFinished(finished) = &event.event else { continue };
            let leaves = ["effect", "ask"].contains(&finished.tool_name.as_str());
            if leaves && finished.end.code().is_none() {
                let line = serde_json::json!([run_id, finished.call_id]).to_string();
                assert!(seen.contains(&line), "{when}: {line} succeeded without its effect");
            }
        }
    }
    effects.len() as u64
}

/// The conversation of a thread has the prompts of its runs in one order, and each once.
async fn one_conversation_per_thread(store: &Arc<dyn Store>, records: &Records, when: &str) {
    let mut prompts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in records.values() {
        let Event::RunStarted { spec } = &record[0].event else { panic!("{when}: a run has no beginning") };
        let said = record.iter().filter_map(|event| match &event.event {
            Event::MessageAdded { text } => Some(text.clone()),
            _ => None,
        });
        prompts.entry(spec.identity.thread_id.to_string()).or_default().extend(said);
    }
    for (thread_id, prompts) in prompts {
        let thread = store.thread(&thread_id).await.unwrap();
        let said: Vec<String> = thread
            .messages
            .iter()
            .filter_map(|message| match message {
                tollgate_agent::message::Message::User(text) => Some(text.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(said, prompts, "{when}: the conversation of {thread_id}");
    }
}
