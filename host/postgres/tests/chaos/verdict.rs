//! The checks of a story, whatever happened to its hosts.

use crate::invariants::{Recorded, Records};
use crate::story::{ANSWER, EFFECTS, HELPED, ORDER, REPORTED, TOTAL};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use tokio_postgres::Client;
use tollgate::store::Store;
use tollgate_agent::code::Code;
use tollgate_agent::message::Message;
use tollgate_agent::run::Event;

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
    /// Runs of the helper.
    pub(crate) children: u64,
    /// Changes of state.
    pub(crate) changes: u64,
    /// Runs that were cancelled.
    pub(crate) cancelled: u64,
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
        self.children += other.children;
        self.changes += other.changes;
        self.cancelled += other.cancelled;
        self.takeovers += other.takeovers;
    }
}

/// The runs that the clients of a story submitted, and what happened to them.
#[derive(Debug, Default)]
pub(crate) struct Submitted {
    pub(crate) runs: Vec<Arc<str>>,
    pub(crate) cancelled: BTreeSet<Arc<str>>,
    /// Whether the clock of a host stepped. The time of a call includes its pauses, so a step ends it.
    pub(crate) clock_stepped: bool,
}

/// Looks at a story that has come to its end; `when` says which, in failures. All readers must read
/// the same.
pub(crate) async fn of(
    readers: &[&dyn Store],
    behind: &Client,
    directory: &Path,
    submitted: &Submitted,
    when: &str,
) -> Verdict {
    let store = readers[0];
    let records = Records::read(store, when).await;
    let is_cancelled = |recorded: &Recorded| submitted.cancelled.contains(recorded.run.run_id.as_str());
    // A child is cancelled with its parent, and also if its call was interrupted.
    records.have_ended(&[("prompt", ANSWER), ("child", HELPED)], |recorded| {
        recorded.run.kind == "child" || is_cancelled(recorded)
    });
    assert!(submitted.runs.iter().all(|run| records.of(run).is_some()), "{when}: a run was lost");
    let (mut verdict, lines) = (Verdict::default(), |file: &str| lines(&directory.join(file)));
    let reported = lines(REPORTED);
    reported.iter().for_each(|event| drop(records.contain(event)));
    assert!(!reported.is_empty(), "{when}: nothing was reported");
    let mut effects: BTreeMap<String, u64> = BTreeMap::new();
    for line in lines(EFFECTS) {
        *effects.entry(line.to_string()).or_default() += 1;
    }
    verdict.effects = records.ran_at_most_once(|run_id, call| {
        let leaves = ["effect", "ask"].contains(&call.tool_name.as_str());
        leaves.then(|| effects.get(&json!([run_id, call.call_id]).to_string()).copied().unwrap_or_default())
    });
    assert_eq!(verdict.effects, effects.values().sum::<u64>(), "{when}: an effect belongs to no call");
    verdict.children = records.children_belong();
    records.states_follow(readers).await;
    records.conversations_are_whole(store).await;
    verdict.changes = each_addition_counts(store, &records, when).await;
    for recorded in records.iter() {
        // A prompt to a run that waits supersedes its question.
        let expected = |code: Code| match code {
            Code::Interrupted | Code::Superseded => true,
            Code::Cancelled => recorded.run.status == "cancelled",
            Code::TimedOut => submitted.clock_stepped,
            _ => false,
        };
        for finished in recorded.finished() {
            let is_expected = finished.end.code().is_none_or(expected);
            assert!(is_expected, "{when}: {finished:?}: {:?}", recorded.run);
        }
    }
    let codes = records.codes();
    verdict.interrupted = codes.iter().filter(|code| **code == Code::Interrupted).count() as u64;
    verdict.reported = reported.len() as u64;
    for recorded in records.iter() {
        verdict.runs += 1;
        verdict.events += recorded.run.events;
        verdict.cancelled += u64::from(recorded.run.status == "cancelled");
    }
    let count = async |sql: &str| behind.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    let owned = count("SELECT count(*) FROM runs WHERE owner IS NOT NULL").await;
    assert_eq!(owned, 0, "{when}: a run that has ended has a driver");
    assert_eq!(count("SELECT count(*) FROM inbox").await, 0, "{when}: a command was not carried out");
    // Of an undisturbed run: 1 for the claim, and 1 for each decision or cancellation.
    let raised = count("SELECT coalesce(sum(greatest(epoch - 1, 0)), 0)::int8 FROM runs").await;
    let events = records.iter().flat_map(|recorded| &recorded.events);
    let decided = events.filter(|event| matches!(event.event, Event::RunWaiting)).count() as u64;
    verdict.takeovers = raised.unsigned_abs().saturating_sub(decided);
    one_conversation_per_thread(store, &records, when).await;
    verdict
}

/// Returns the lines of a file, which are JSON.
fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks that the state of each thread has every addition that succeeded, once. Returns their number.
async fn each_addition_counts(store: &dyn Store, records: &Records, when: &str) -> u64 {
    let mut added: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for recorded in records.iter() {
        let of_thread = added.entry(recorded.run.thread_id.as_str()).or_default();
        let ended = recorded.finished().filter(|end| end.tool_name == "add" && end.end.code().is_none());
        of_thread.extend(ended.map(|end| format!("{} of {}", end.call_id, recorded.run.run_id)));
    }
    let mut all = 0;
    for (thread_id, added) in added {
        let state = store.thread(thread_id).await.unwrap().state;
        let order = state.get(ORDER).cloned().unwrap_or(json!([]));
        let order = order.as_array().unwrap();
        let names: BTreeSet<String> = order.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
        assert_eq!((&names, order.len()), (&added, added.len()), "{when}: {thread_id}");
        assert_eq!(state.get(TOTAL).cloned().unwrap_or(json!(0)), json!(added.len()), "{when}: {thread_id}");
        all += added.len() as u64;
    }
    all
}

/// Checks that the conversation of a thread has the prompts of its runs in one order, and each once.
async fn one_conversation_per_thread(store: &dyn Store, records: &Records, when: &str) {
    let mut prompts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for recorded in records.iter().filter(|recorded| recorded.run.kind == "prompt") {
        let said = recorded.events.iter().filter_map(|event| match &event.event {
            Event::MessageAdded { text } => Some(text.as_str()),
            _ => None,
        });
        prompts.entry(&recorded.run.thread_id).or_default().extend(said);
    }
    for (thread_id, prompts) in prompts {
        let thread = store.thread(thread_id).await.unwrap();
        let said = thread.messages.iter().filter_map(|message| match message {
            Message::User(text) => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(said.collect::<Vec<_>>(), prompts, "{when}: the conversation of {thread_id}");
    }
}
