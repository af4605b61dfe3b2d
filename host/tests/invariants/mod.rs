//! The invariants of records, whatever happened to the processes that wrote them. The tests that
//! kill processes check them on SQLite; those of several hosts, on PostgreSQL.
#![allow(dead_code, reason = "not every test uses everything")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tollgate::store::{RunFilter, RunSummary, Store};
use tollgate_agent::code::Code;
use tollgate_agent::message::Message;
use tollgate_agent::run::event::{CheckedCall, FinishedCall};
use tollgate_agent::run::{Event, RunStatus, StoredEvent};
use tollgate_agent::state::{KeyScope, StateChange};

/// The record of a run.
pub(crate) struct Recorded {
    pub(crate) run: RunSummary,
    pub(crate) events: Vec<Arc<StoredEvent>>,
}

impl Recorded {
    /// Returns whether the run has ended.
    pub(crate) fn is_over(&self) -> bool {
        !self.run.is_open()
    }

    /// Returns the ends of its calls.
    pub(crate) fn finished(&self) -> impl Iterator<Item = &FinishedCall> {
        self.events.iter().filter_map(|event| match &event.event {
            Event::CallFinished(finished) => Some(finished.as_ref()),
            _ => None,
        })
    }

    fn changes(&self) -> impl Iterator<Item = &StateChange> {
        self.events.iter().filter_map(|event| event.event.change())
    }
}

/// The records of all runs of a store.
pub(crate) struct Records {
    runs: BTreeMap<String, Recorded>,
    /// Identifies the story in failures.
    when: String,
}

impl Records {
    /// Reads all records, and checks each by itself.
    pub(crate) async fn read(store: &dyn Store, when: &str) -> Self {
        let mut runs = BTreeMap::new();
        for run in store.runs(RunFilter { limit: usize::MAX, ..RunFilter::default() }).await.unwrap() {
            // Reading checks the checksums, too.
            let events = store.events(&run.run_id, 0).await.unwrap();
            let recorded = Recorded { run, events };
            is_whole(&recorded, when);
            runs.insert(recorded.run.run_id.clone(), recorded);
        }
        Self { runs, when: when.to_owned() }
    }

    /// Returns the records of all runs, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Recorded> {
        self.runs.values()
    }

    pub(crate) fn of(&self, run_id: &str) -> Option<&Recorded> {
        self.runs.get(run_id)
    }

    /// Returns the codes of all calls that failed.
    pub(crate) fn codes(&self) -> Vec<Code> {
        self.iter().flat_map(Recorded::finished).filter_map(|finished| finished.end.code()).collect()
    }

    /// Checks that each run has ended: completed with the answer of its kind, or cancelled if that
    /// was asked for. A direct call may also have failed.
    pub(crate) fn have_ended(&self, answers: &[(&str, &str)], may_be_cancelled: impl Fn(&Recorded) -> bool) {
        for recorded in self.iter() {
            let (run, when) = (&recorded.run, &self.when);
            let text = match &recorded.events.last().unwrap().event {
                Event::RunFinished { text, .. } => text,
                _ => panic!("{when}: it has not ended: {run:?}"),
            };
            match run.status.as_str() {
                "completed" => {
                    let answer = answers.iter().find(|(kind, _)| run.kind == *kind);
                    assert!(answer.is_none_or(|(_, answer)| text == answer), "{when}: {text}: {run:?}");
                }
                "cancelled" => assert!(may_be_cancelled(recorded), "{when}: nobody asked for it: {run:?}"),
                "failed" => assert_eq!(run.kind, "call", "{when}: {run:?}"),
                _ => panic!("{when}: {run:?}"),
            }
        }
    }

    /// Checks that the record contains an event as a process reported it. Returns the run and the
    /// event's number.
    pub(crate) fn contain(&self, reported: &Value) -> (String, u64) {
        let when = &self.when;
        let (run_id, number) = (reported["run_id"].as_str().unwrap(), reported["number"].as_u64().unwrap());
        let Some(recorded) = self.of(run_id) else { panic!("{when}: the run of {reported} is lost") };
        let stored = recorded.events.get(usize::try_from(number - 1).unwrap());
        let Some(stored) = stored else { panic!("{when}: the event {reported} is lost") };
        assert_eq!(&serde_json::to_value(&**stored).unwrap(), reported, "{when}: it was replaced");
        (run_id.to_owned(), number)
    }

    /// Checks the calls of tools that may not run twice. `effects` returns how many effects a call
    /// left; `None` if its tool may run twice. No call has two, none has one before its start was
    /// recorded, and one that succeeded has one. Each call ended once. Returns the number of effects.
    pub(crate) fn ran_at_most_once(&self, effects: impl Fn(&str, &CheckedCall) -> Option<u64>) -> u64 {
        let (mut all, when) = (0, &self.when);
        for recorded in self.iter() {
            for event in &recorded.events {
                let Event::CallProposed(call) = &event.event else { continue };
                let Some(left) = effects(&event.run_id, call) else { continue };
                let name = format!("{when}: {} of {}", call.call_id, event.run_id);
                let ends: Vec<_> = recorded.finished().filter(|end| end.call_id == call.call_id).collect();
                assert!(ends.len() <= 1, "{name} has {} ends", ends.len());
                assert!(!recorded.is_over() || ends.len() == 1, "{name} has no end");
                assert!(left <= 1, "{name} ran {left} times");
                let started = |event: &Arc<StoredEvent>| matches!(&event.event, Event::CallStarted { call_id, .. } if *call_id == call.call_id);
                assert!(left == 0 || recorded.events.iter().any(started), "{name} ran before its start");
                let has_succeeded = ends.first().is_some_and(|end| end.end.code().is_none());
                assert!(!has_succeeded || left == 1, "{name} succeeded without its effect");
                all += left;
            }
        }
        all
    }

    /// Checks that each child belongs to one call of its parent, and has ended if its parent has.
    /// Returns the number of children.
    pub(crate) fn children_belong(&self) -> u64 {
        let when = &self.when;
        let mut asked: BTreeMap<&str, &Recorded> = BTreeMap::new();
        for parent in self.iter() {
            for event in &parent.events {
                let Event::ChildStarted { child_run_id, .. } = &event.event else { continue };
                let twice = asked.insert(child_run_id, parent).is_some();
                assert!(!twice, "{when}: {child_run_id} is the child of two calls");
            }
        }
        let mut children = 0;
        for child in self.iter().filter(|recorded| recorded.run.kind == "child") {
            let Event::RunStarted { spec } = &child.events[0].event else {
                panic!("{when}: {:?}", child.run)
            };
            let parent = asked.get(child.run.run_id.as_str());
            let Some(parent) = parent else { panic!("{when}: no call asked for {:?}", child.run) };
            assert_eq!(spec.identity.parent_run_id.as_deref(), Some(parent.run.run_id.as_str()), "{when}");
            assert!(child.is_over() || !parent.is_over(), "{when}: {:?} outlived its parent", child.run);
            children += 1;
        }
        children
    }

    /// Checks that the changes of each thread have one order without gaps, the same for every
    /// reader, and that the state follows from them.
    pub(crate) async fn states_follow(&self, readers: &[&dyn Store]) {
        let when = &self.when;
        let mut threads: BTreeMap<&str, BTreeMap<u64, &StateChange>> = BTreeMap::new();
        for recorded in self.iter() {
            let changes = threads.entry(&recorded.run.thread_id).or_default();
            for change in recorded.changes() {
                let twice = changes.insert(change.revision, change).is_some();
                assert!(
                    !twice,
                    "{when}: two changes made revision {} of {}",
                    change.revision, recorded.run.thread_id
                );
            }
        }
        for (thread_id, changes) in threads {
            let revisions: Vec<u64> = changes.keys().copied().collect();
            assert_eq!(revisions, (1..=changes.len() as u64).collect::<Vec<_>>(), "{when}: {thread_id}");
            let mut values: HashMap<&str, Arc<Value>> = HashMap::new();
            for update in changes.values().flat_map(|change| change.updates.iter()) {
                if update.persistent && update.scope == KeyScope::Thread {
                    let before = values.remove(&*update.key);
                    values.extend(update.folded(before).map(|value| (&*update.key, value)));
                }
            }
            for reader in readers {
                let state = reader.thread(thread_id).await.unwrap().state;
                assert_eq!(state.revision(), changes.len() as u64, "{when}: {thread_id}");
                for (key, value) in &values {
                    assert_eq!(state.get(key), Some(&**value), "{when}: {key} of {thread_id}");
                }
                let read = reader.changes(thread_id, 0, usize::MAX).await.unwrap();
                assert!(read.iter().eq(changes.values().copied()), "{when}: changes of {thread_id}");
            }
        }
    }

    /// Checks that calls in the conversation of each thread have one answer each, before anything
    /// else is said.
    pub(crate) async fn conversations_are_whole(&self, store: &dyn Store) {
        let when = &self.when;
        let threads: BTreeSet<&str> = self.iter().map(|recorded| recorded.run.thread_id.as_str()).collect();
        for thread_id in threads {
            let mut open = BTreeSet::new();
            for message in store.thread(thread_id).await.unwrap().messages.iter() {
                match message {
                    Message::Answer(answer) => {
                        let was_open = open.remove(answer.call_id.as_str());
                        assert!(was_open, "{when}: {thread_id}: {} is answered twice", answer.call_id);
                    }
                    Message::Assistant(said) => {
                        assert!(open.is_empty(), "{when}: {thread_id}: {open:?} have no answer");
                        open.extend(said.calls.iter().map(|call| call.id.to_string()));
                    }
                    Message::User(_) => {
                        assert!(open.is_empty(), "{when}: {thread_id}: {open:?} have no answer")
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Checks that events have numbers without gaps and times that never go back, and that the run has
/// one end if it is listed as ended, after which nothing follows.
fn is_whole(recorded: &Recorded, when: &str) {
    let Recorded { run, events } = recorded;
    let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=run.events).collect::<Vec<_>>(), "{when}: {run:?}");
    assert!(events.is_sorted_by_key(|event| event.at_ms), "{when}: a time goes back: {run:?}");
    let ends = events.iter().filter(|event| matches!(event.event, Event::RunFinished { .. })).count();
    assert_eq!(ends, usize::from(recorded.is_over()), "{when}: {run:?}");
    if ends == 0 {
        return;
    }
    let Some(Event::RunFinished { status, .. }) = events.last().map(|last| &last.event) else {
        panic!("{when}: an event follows the end: {run:?}")
    };
    let has_failed = recorded.finished().last().is_some_and(|finished| finished.end.code().is_some());
    let status = match status {
        // A direct call that failed is listed as failed.
        RunStatus::Completed if run.kind == "call" && has_failed => "failed",
        RunStatus::Completed => "completed",
        RunStatus::Blocked { .. } => "blocked",
        RunStatus::Stopped { .. } => "stopped",
        RunStatus::Cancelled { .. } => "cancelled",
        RunStatus::Failed { .. } => "failed",
    };
    assert_eq!(run.status, status, "{when}: {run:?}");
}
