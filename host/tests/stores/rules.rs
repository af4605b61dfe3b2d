//! The rules that every store follows. The tests of each store include this file, and define
//! `StoreAt` and `with_each_store!` for it.

use crate::with_each_store;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tollgate::store::{
    AuditFilter, AuditKind, AuditRecord, Commit, CommitError, KeyFilter, RunCommand, RunFilter, StateRead,
    StoreError, StoreErrorKind, restore_state,
};
use tollgate_agent::message::Message;
use tollgate_agent::outcome::ToolResult;
use tollgate_agent::run::event::FinishedCall;
use tollgate_agent::run::{AgentSpec, CallEnd, Event, RunLimits, RunSpec, RunStatus, StoredEvent, Task};
use tollgate_agent::state::{Fold, KeyUpdate, Reducer, State, StateChange};

pub(crate) fn started(run: &str) -> Event {
    let identity = tollgate_agent::context::RunIdentity {
        run_id: run.into(),
        thread_id: "t".into(),
        agent_id: "a".into(),
        ..Default::default()
    };
    let task = Task::Call { tool_name: "echo".into(), arguments: "".into() };
    let spec = RunSpec {
        identity,
        agent: AgentSpec::default().into(),
        limits: RunLimits::default(),
        task,
        detached: false,
    };
    Event::RunStarted { spec: Arc::new(spec) }
}

pub(crate) fn changed(revision: u64, value: u64) -> Event {
    let updates = [KeyUpdate::restored("k.n", json!(value))].into();
    let end = CallEnd::Result(Arc::new(ToolResult::success(value)));
    let change = Some(StateChange { revision, updates });
    Event::CallFinished(Arc::new(FinishedCall { change, ..FinishedCall::new("c", "echo", end) }))
}

pub(crate) fn finished() -> Event {
    Event::RunFinished { status: RunStatus::Completed, text: String::new(), usage: Box::default() }
}

pub(crate) fn commit(run: &str, after: u64, events: Vec<Event>) -> Commit {
    Commit::new(Arc::from(run), Arc::from("t"), after, 7, events)
}

pub(crate) fn changed_commit(mut commit: Commit, change: impl FnOnce(&mut Commit)) -> Commit {
    change(&mut commit);
    commit
}

/// Returns the event of a call that appends to a list.
pub(crate) fn appended(revision: u64, key: &str, value: &str) -> Event {
    let fold = Fold { reducer: Reducer::Append, initial: Some(Arc::new(json!([]))), is_free: true };
    let update = KeyUpdate { value: None, fold: Some(fold), ..KeyUpdate::restored(key, json!(value)) };
    let mut event = changed(revision, 0);
    if let Event::CallFinished(finished) = &mut event {
        let change = StateChange { revision, updates: [update].into() };
        Arc::make_mut(finished).change = Some(change);
    }
    event
}

with_each_store! {
    async fn s4_a_value_follows_from_updates_however_large_it_becomes(at: StoreAt) {
        let store = at.open();
        let text = "x".repeat(300);
        let mut expected = Vec::new();
        for n in 1..=60 {
            let run = format!("r{n}");
            let events = vec![started(&run), appended(n, "k.list", &format!("{n} {text}"))];
            store.commit(commit(&run, 0, events)).await.unwrap();
            expected.push(json!(format!("{n} {text}")));
            let kept = if n % 7 == 0 { at.open().thread("t").await.unwrap() } else { store.thread("t").await.unwrap() };
            assert_eq!(kept.state.get("k.list"), Some(&json!(expected)), "{n}");
        }
        let events = store.events("r60", 0).await.unwrap();
        let record = serde_json::to_string(&*events[1]).unwrap();
        assert!(record.len() < 1_000, "the record holds the update alone: {} bytes", record.len());
        let bytes: usize =
            events.iter().map(|event| serde_json::to_string(&event.event).unwrap().len()).sum();
        // A store in memory reads nothing.
        let expected = if at.is_durable() { bytes as u64 } else { 0 };
        assert_eq!(store.record_bytes("r60").await.unwrap(), expected);
        assert_eq!(store.record_bytes("unknown").await.unwrap(), 0);
        let mut folded = State::default();
        store.changes("t", 0, 100).await.unwrap().iter().for_each(|change| folded.apply(change));
        assert_eq!(folded, at.open().thread("t").await.unwrap().state);
        // Setting a value replaces its earlier updates.
        let state = State::restored(0, [("k.list".to_owned(), json!(["set"]))]);
        restore_state(&*store, "t", &state).await.unwrap();
        store.commit(commit("last", 0, vec![started("last"), appended(62, "k.list", "more")])).await.unwrap();
        assert_eq!(at.open().thread("t").await.unwrap().state.get("k.list"), Some(&json!(["set", "more"])));
    }

    async fn s5_what_commutes_or_touches_other_keys_is_moved_and_does_not_conflict(at: StoreAt) {
        let store = at.open();
        store.commit(commit("a", 0, vec![started("a"), appended(1, "k.list", "a")])).await.unwrap();
        store.commit(commit("b", 0, vec![started("b"), changed(2, 5)])).await.unwrap();
        // Both were built on the earlier state.
        let late = commit("c", 0, vec![started("c"), appended(1, "k.list", "c"), appended(2, "k.list", "d")]);
        assert_eq!(store.commit(late).await.unwrap().moved, 2);
        let other = commit("d", 0, vec![started("d"), appended(1, "k.other", "e"), Event::RunWaiting]);
        assert_eq!(at.open().commit(other).await.unwrap().moved, 4);
        let thread = at.open().thread("t").await.unwrap();
        assert_eq!(thread.state.revision(), 5);
        assert_eq!(thread.state.get("k.list"), Some(&json!(["a", "c", "d"])));
        assert_eq!(thread.state.get("k.other"), Some(&json!(["e"])));
        assert_eq!(store.thread("t").await.unwrap().state, thread.state);
        let revision = |event: &StoredEvent| event.event.change().map(|change| change.revision);
        let recorded = store.events("c", 0).await.unwrap();
        assert_eq!(recorded.iter().map(|event| revision(event)).collect::<Vec<_>>(), [None, Some(3), Some(4)]);
        let revisions: Vec<u64> = store.changes("t", 0, 9).await.unwrap().iter().map(|c| c.revision).collect();
        assert_eq!(revisions, [1, 2, 3, 4, 5]);
        // Updates that do not commute still conflict.
        let refused = store.commit(commit("e", 0, vec![started("e"), changed(1, 6)])).await;
        assert!(matches!(refused, Err(CommitError::Conflict(5))), "{refused:?}");
        store.commit(commit("f", 0, vec![started("f"), changed(6, 6)])).await.unwrap();
    }

    async fn e1_events_are_numbered_without_gaps(store: StoreAt) {
        let store = store.open();
        store.commit(commit("r", 0, vec![started("r"), Event::StepStarted { step: 1 }])).await.unwrap();
        let refused = store.commit(commit("r", 1, vec![Event::RunWaiting])).await;
        assert!(matches!(refused, Err(CommitError::Advanced)), "{refused:?}");
        let ahead = store.commit(commit("r", 3, vec![Event::RunWaiting])).await;
        assert!(matches!(ahead, Err(CommitError::Behind)), "{ahead:?}");
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
        assert!(matches!(refused, Err(CommitError::Conflict(2))), "{refused:?}");
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
        restore_state(&*store, "t", &State::restored(0, [("k.n".to_owned(), json!(5))])).await.unwrap();
        let revisions = |changes: Vec<StateChange>| changes.iter().map(|c| c.revision).collect::<Vec<_>>();
        assert_eq!(revisions(store.changes("t", 0, 10).await.unwrap()), [1, 2, 3]);
        assert_eq!(revisions(store.changes("t", 1, 1).await.unwrap()), [2]);
        assert!(store.changes("nobody", 0, 10).await.unwrap().is_empty());
    }

    async fn z3_large_changes_are_read_in_parts(at: StoreAt) {
        let store = at.open();
        let value = "x".repeat(700 * 1024);
        for revision in 1..=3 {
            let (run, event) = (format!("r{revision}"), appended(revision, "k.list", &value));
            store.commit(commit(&run, 0, vec![started(&run), event])).await.unwrap();
        }
        let (mut revisions, mut most) = (Vec::new(), 0);
        loop {
            let changes = store.changes("t", revisions.last().copied().unwrap_or_default(), 10).await.unwrap();
            if changes.is_empty() {
                break;
            }
            most = most.max(changes.len());
            revisions.extend(changes.iter().map(|change| change.revision));
        }
        assert_eq!(revisions, [1, 2, 3]);
        // Two of them are larger than `MAX_CHANGES_BYTES`.
        assert!(!at.is_durable() || most == 1, "{most} at once");
    }

    async fn s8_state_can_be_restored(store: StoreAt) {
        let store = store.open();
        store.commit(commit("r1", 0, vec![started("r1"), changed(1, 10)])).await.unwrap();
        let state = State::restored(0, [("k.n".to_owned(), json!(5)), ("k.m".to_owned(), json!("x"))]);
        assert_eq!(restore_state(&*store, "t", &state).await.unwrap(), 2);
        let thread = store.thread("t").await.unwrap();
        assert_eq!((thread.state.get("k.n"), thread.state.get("k.m")), (Some(&json!(5)), Some(&json!("x"))));
        let refused = store.commit(commit("r2", 0, vec![started("r2"), changed(2, 1)])).await;
        assert!(matches!(refused, Err(CommitError::Conflict(2))), "{refused:?}");
    }

    async fn s9_a_refused_commit_leaves_nothing_of_itself_behind(at: StoreAt) {
        let store = at.open();
        store.commit(commit("r1", 0, vec![started("r1"), changed(1, 10)])).await.unwrap();
        let mut late = commit("r2", 0, vec![started("r2"), changed(1, 20)]);
        late.messages = vec![Message::User("lost".to_owned())];
        assert!(matches!(store.commit(late).await, Err(CommitError::Conflict(_))));
        let mut elsewhere = commit("r1", 9, vec![Event::RunWaiting]);
        elsewhere.thread_id = Arc::from("new");
        assert!(matches!(store.commit(elsewhere).await, Err(CommitError::Behind)));
        let thread = at.open().thread("t").await.unwrap();
        assert_eq!((thread.messages.len(), thread.state.revision()), (0, 1));
        assert_eq!(store.runs(RunFilter::default()).await.unwrap().len(), 1);
        assert_eq!(store.thread("new").await.unwrap().state.revision(), 0);
    }

    async fn s9_commits_at_once_are_all_there_and_in_one_order(at: StoreAt) {
        let writers = (0..8).map(|n| {
            let store = at.open();
            tokio::spawn(async move {
                let run = format!("r{n}");
                let mut revision = 1;
                loop {
                    match store.commit(commit(&run, 0, vec![started(&run), changed(revision, revision)])).await {
                        Ok(_) => return,
                        Err(CommitError::Conflict(now)) => revision = now + 1,
                        Err(e) => panic!("{e}"),
                    }
                }
            })
        });
        futures::future::join_all(writers).await.into_iter().for_each(|end| end.unwrap());
        let store = at.open();
        let thread = store.thread("t").await.unwrap();
        assert_eq!((thread.state.revision(), thread.state.get("k.n")), (8, Some(&json!(8))));
        let all = store.changes("t", 0, 100).await.unwrap();
        assert_eq!(all.iter().map(|change| change.revision).collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    }

    async fn what_is_read_is_what_was_written(at: StoreAt) {
        let text = "ä \u{1F600} \" \\ \0 '; DROP TABLE runs; --\n".repeat(2_000);
        let mut first = commit("r", 0, vec![started("r"), Event::MessageAdded { text: text.clone() }]);
        first.messages = vec![Message::User(text.clone())];
        let told = Arc::clone(first.events());
        at.open().commit(first).await.unwrap();
        let store = at.open();
        let read = store.events("r", 0).await.unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), serde_json::to_string(&*told).unwrap());
        assert_eq!((read[1].number, read[1].at_ms, read[1].run_id.as_ref()), (2, 7, "r"));
        assert_eq!(*store.thread("t").await.unwrap().messages, [Message::User(text)]);
    }

    async fn z3_a_part_of_the_state_is_read_without_the_rest(at: StoreAt) {
        let long = "x".repeat(300_000);
        let values = [("k.n", json!(5)), ("k.long", json!(long)), ("other.long", json!(long))];
        let values = State::restored(0, values.map(|(key, value)| (key.to_owned(), value)));
        restore_state(&*at.open(), "t", &values).await.unwrap();
        let store = at.open();
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let one = KeyFilter::Of { owner_ids: named(&[]), keys: named(&["k.n", "k.none"]) };
        let StateRead::State(state) = store.state("t", &one, 100).await.unwrap() else { panic!("it is small") };
        assert_eq!((state.revision(), state.get("k.n")), (1, Some(&json!(5))));
        let of_owner = KeyFilter::Of { owner_ids: named(&["k"]), keys: named(&[]) };
        if at.is_durable() {
            assert_eq!(state.keys().collect::<Vec<_>>(), ["k.n"]);
            let StateRead::Larger(bytes) = store.state("t", &of_owner, 300_000).await.unwrap() else {
                panic!("it was read")
            };
            assert!((300_002..300_100).contains(&bytes), "{bytes}");
            let size = at.open().thread_size("t").await.unwrap();
            assert!((600_000..600_100).contains(&size.state_bytes) && size.message_bytes == 0, "{size:?}");
        }
        let StateRead::State(state) = store.state("t", &of_owner, 400_000).await.unwrap() else {
            panic!("it was not read")
        };
        assert_eq!(state.get("k.long"), Some(&json!(long)));
        let StateRead::State(whole) = store.state("t", &KeyFilter::All, 1 << 20).await.unwrap() else {
            panic!("it was not read")
        };
        assert_eq!(whole, store.thread("t").await.unwrap().state);
        let StateRead::State(unknown) = store.state("nobody", &one, 0).await.unwrap() else {
            panic!("there is nothing to read")
        };
        assert_eq!(unknown, State::default());
    }

    async fn s4_null_is_a_value(at: StoreAt) {
        let updates = [KeyUpdate::restored("k.n", serde_json::Value::Null)].into();
        at.open().change("t", StateChange { revision: 1, updates }).await.unwrap();
        assert_eq!(at.open().thread("t").await.unwrap().state.get("k.n"), Some(&serde_json::Value::Null));
    }

    async fn s6_of_keys_that_do_not_persist_the_record_names_only_the_name(at: StoreAt) {
        let fleeting = KeyUpdate { persistent: false, ..KeyUpdate::restored("k.secret", json!("hunter2")) };
        let mut event = changed(1, 1);
        if let Event::CallFinished(finished) = &mut event {
            let change = Arc::make_mut(finished).change.as_mut().unwrap();
            change.updates = change.updates.iter().cloned().chain([fleeting]).collect();
        }
        let store = at.open();
        store.commit(commit("r", 0, vec![started("r"), event])).await.unwrap();
        let thread = store.thread("t").await.unwrap();
        assert_eq!(thread.state.get("k.secret"), Some(&json!("hunter2")), "this process has it");
        let record = serde_json::to_string(&store.events("r", 0).await.unwrap()).unwrap();
        assert!(record.contains("k.secret") && !record.contains("hunter2"));
        if at.is_durable() {
            let thread = at.open().thread("t").await.unwrap();
            assert_eq!((thread.state.get("k.n"), thread.state.get("k.secret")), (Some(&json!(1)), None));
        }
    }

    async fn threads_are_independent(at: StoreAt) {
        let store = at.open();
        for (run, thread) in [("r1", "a"), ("r2", "b")] {
            let mut of_thread = commit(run, 0, vec![started(run), changed(1, 5)]);
            of_thread.thread_id = Arc::from(thread);
            store.commit(of_thread).await.unwrap();
        }
        assert_eq!(store.thread("a").await.unwrap().state.revision(), 1);
        assert_eq!(store.thread("b").await.unwrap().state.revision(), 1);
        assert_eq!(store.thread("c").await.unwrap().state.revision(), 0);
    }

    async fn lists_are_filtered_by_each_word_and_by_all(at: StoreAt) {
        let store = at.open();
        for run in ["abc-1", "abc-2", "abd-1", "x%_"] {
            store.commit(commit(run, 0, vec![started(run)])).await.unwrap();
        }
        store.commit(commit("abc-2", 1, vec![Event::RunWaiting])).await.unwrap();
        let ids = async |filter: RunFilter| {
            store.runs(filter).await.unwrap().into_iter().map(|run| run.run_id).collect::<Vec<_>>()
        };
        let prefix = |prefix: &str| RunFilter { run_id_prefix: Some(prefix.to_owned()), ..RunFilter::default() };
        assert_eq!(ids(prefix("abc")).await, ["abc-2", "abc-1"]);
        assert_eq!(ids(prefix("abc-1")).await, ["abc-1"]);
        assert_eq!(ids(RunFilter::one("abc-1")).await, ["abc-1"]);
        assert!(ids(RunFilter::one("abc")).await.is_empty());
        assert_eq!(ids(prefix("x%_")).await, ["x%_"]);
        assert!(ids(prefix("%")).await.is_empty());
        let all = RunFilter { status: Some("waiting".to_owned()), thread_id: Some("t".to_owned()), ..prefix("abc") };
        assert_eq!(ids(all.clone()).await, ["abc-2"]);
        assert!(ids(RunFilter { thread_id: Some("u".to_owned()), ..all }).await.is_empty());
        assert_eq!(ids(RunFilter { limit: 2, ..RunFilter::default() }).await, ["x%_", "abd-1"]);
        let of_kind = |kind: &str| RunFilter { kind: Some(kind.to_owned()), ..prefix("ab") };
        assert_eq!(ids(of_kind("call")).await, ["abd-1", "abc-2", "abc-1"]);
        assert!(ids(of_kind("prompt")).await.is_empty());
        let long = "0192f0a1-7c3e-7b61-9d5a-3b1e9f3c2a71";
        store.commit(commit(long, 0, vec![started(long)])).await.unwrap();
        let short = |short: &str| RunFilter { short_id_prefix: Some(short.to_owned()), ..RunFilter::default() };
        assert_eq!(ids(short("9f3c2a71")).await, [long]);
        assert_eq!(ids(short("9f")).await, [long]);
        assert_eq!(ids(short("abc")).await, ["abc-2", "abc-1"], "an id of another form is its own short id");
        assert!(ids(short("0192")).await.is_empty());
        let compact = "0192f0a17c3e7b619d5a3b1e9f3c2a71";
        store.commit(commit(compact, 0, vec![started(compact)])).await.unwrap();
        assert_eq!(ids(short("0192")).await, [compact], "an id without hyphens is its own short id");
        assert_eq!(ids(short("9f3c2a71")).await, [long]);
        let (accents, end) = ("\u{e9}".repeat(36), "\u{e9}".repeat(8));
        store.commit(commit(&accents, 0, vec![started(&accents)])).await.unwrap();
        assert_eq!(ids(short(&end)).await, [accents], "the length is that in characters");
        assert!(ids(short(&format!("{end}\u{e9}"))).await.is_empty());
    }

    async fn a_run_that_was_let_go_is_at_work_no_more_until_it_is_taken_up(at: StoreAt) {
        let store = at.open();
        store.commit(commit("r", 0, vec![started("r")])).await.unwrap();
        let at_work = async || store.runs(RunFilter::default()).await.unwrap()[0].is_driven;
        assert!(at_work().await);
        store.release("r", 1).await;
        store.flush().await.unwrap();
        assert!(!at_work().await);
        store.commit(commit("r", 1, vec![Event::StepStarted { step: 1 }])).await.unwrap();
        assert!(at_work().await);
    }

    async fn s9_who_acquires_a_run_fences_all_before_it(at: StoreAt) {
        let store = at.open();
        let unknown = StoreError::from(store.acquire("r", 0).await.unwrap_err());
        assert_eq!(unknown.kind(), StoreErrorKind::UnknownRun, "{unknown}");
        let unknown = store.send("r", "c", RunCommand::Cancel("x".to_owned())).await.unwrap_err();
        assert_eq!(unknown.kind(), StoreErrorKind::UnknownRun, "{unknown}");
        store.commit(commit("r", 0, vec![started("r")])).await.unwrap();
        // A process that has not read the whole record acquires nothing, and fences no one.
        let advanced = store.acquire("r", 0).await;
        assert!(matches!(advanced, Err(CommitError::Advanced)), "{advanced:?}");
        let behind = store.acquire("r", 2).await;
        assert!(matches!(behind, Err(CommitError::Behind)), "{behind:?}");
        let epoch = store.acquire("r", 1).await.unwrap();
        assert!(epoch > 1);
        let late = store.commit(commit("r", 1, vec![Event::StepStarted { step: 1 }])).await;
        assert!(matches!(late, Err(CommitError::Fenced)), "{late:?}");
        let of_epoch = |epoch, after, event| changed_commit(commit("r", after, vec![event]), |it| it.epoch = epoch);
        store.commit(of_epoch(epoch, 1, Event::StepStarted { step: 1 })).await.unwrap();
        // A late driver that gives up does not take the run from the one that acquired it.
        store.release("r", 1).await;
        store.flush().await.unwrap();
        assert!(store.runs(RunFilter::default()).await.unwrap()[0].is_driven);
        store.commit(of_epoch(epoch, 2, Event::RunWaiting)).await.unwrap();
        // A run that waits for a person is acquired to go on.
        let next = at.open().acquire("r", 3).await.unwrap();
        assert!(next > epoch);
        let late = store.commit(of_epoch(epoch, 3, Event::StepStarted { step: 2 })).await;
        assert!(matches!(late, Err(CommitError::Fenced)), "{late:?}");
        assert_eq!(store.events("r", 0).await.unwrap().len(), 3);
    }

    async fn s9_a_run_that_another_living_process_drives_is_not_acquired(at: StoreAt) {
        if !at.is_durable() {
            // There is no other process.
            return;
        }
        let (store, other) = (at.open(), at.open());
        store.commit(commit("r", 0, vec![started("r")])).await.unwrap();
        let refused = other.acquire("r", 1).await;
        assert!(matches!(refused, Err(CommitError::Advanced)), "{refused:?}");
        store.release("r", 1).await;
        store.flush().await.unwrap();
        if let Ok(epoch) = other.acquire("r", 1).await {
            let commit = changed_commit(commit("r", 1, vec![Event::StepStarted { step: 1 }]), |it| it.epoch = epoch);
            other.commit(commit).await.unwrap();
        }
        let record = store.events("r", 0).await.unwrap();
        assert!(!record.is_empty());
    }

    async fn a_command_reaches_the_other_processes_until_it_is_carried_out(at: StoreAt) {
        let (store, other) = (at.open(), at.open());
        let cancel = || RunCommand::Cancel("enough".to_owned());
        assert!(store.send("r", "1", cancel()).await.is_err(), "there is no such run");
        for run in ["r", "q"] {
            store.commit(commit(run, 0, vec![started(run)])).await.unwrap();
        }
        let runs: Vec<Arc<str>> = ["q", "r", "unknown"].map(Arc::from).into();
        assert!(store.runs_with_commands(&runs).await.unwrap().is_empty());
        let mut hints = store.watch();
        assert!(other.send("r", "1", cancel()).await.unwrap());
        other.send("r", "1", RunCommand::Cancel("twice".to_owned())).await.unwrap();
        other.send("r", "2", cancel()).await.unwrap();
        let about = async { while !hints.next().await.is_about("r") {} };
        tokio::time::timeout(Duration::from_secs(60), about).await.expect("a hint arrives");
        assert_eq!(store.runs_with_commands(&runs).await.unwrap(), [Arc::from("r")]);
        let ids = async || {
            let sent = store.commands("r").await.unwrap();
            assert!(sent.iter().all(|sent| sent.command == cancel()));
            sent.into_iter().map(|sent| sent.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids().await, ["1", "2"]);
        store.withdraw("r", "1").await.unwrap();
        assert_eq!(ids().await, ["2"]);
        let carries_out = |it: &mut Commit| it.carries_out = vec![Arc::from("2")];
        let step = commit("r", 1, vec![Event::StepStarted { step: 1 }]);
        store.commit(changed_commit(step, carries_out)).await.unwrap();
        assert!(other.runs_with_commands(&runs).await.unwrap().is_empty());
        // Nothing is sent to a run that has ended.
        store.commit(commit("q", 1, vec![finished()])).await.unwrap();
        assert!(!other.send("q", "3", cancel()).await.unwrap());
        assert!(other.commands("q").await.unwrap().is_empty());
        // The other process learns of events, too.
        let mut hints = other.watch();
        store.commit(commit("r", 2, vec![Event::StepStarted { step: 2 }])).await.unwrap();
        let about = async { while !hints.next().await.is_about("r") {} };
        tokio::time::timeout(Duration::from_secs(60), about).await.expect("a hint arrives");
    }

    async fn a_tool_that_traps_is_counted_until_it_answers(at: StoreAt) {
        let store = at.open();
        let call = |decision: &str| {
            let ended = AuditRecord::at(7, AuditKind::Call, "agent a", decision);
            let ended = ended.of_component("echo", Some("1".into())).of_tool("echo");
            AuditRecord { model: Some("m-1".into()), ..ended }
        };
        for (run, decision, traps) in [("r1", "trapped", 1), ("r2", "trapped", 2), ("r3", "timed_out", 2), ("r4", "success", 0)] {
            let audit = vec![call(decision)];
            store.commit(changed_commit(commit(run, 0, vec![started(run)]), |it| it.audit = audit)).await.unwrap();
            let health = at.open().tool_health().await.unwrap();
            assert_eq!(health.first().map_or(0, |health| health.traps), traps, "{decision}");
        }
        let filter = AuditFilter { decision: Some("trapped".to_owned()), ..AuditFilter::default() };
        assert_eq!(at.open().audit(filter).await.unwrap(), [call("trapped"), call("trapped")]);
        assert_eq!(store.audit(AuditFilter::default()).await.unwrap()[0], call("success"), "newest first");
    }

    async fn a_record_of_a_file_is_noted_only_if_it_is_news(at: StoreAt) {
        let store = at.open();
        let load = |digest: &str| {
            let load = AuditRecord::at(7, AuditKind::Load, "host", "served");
            let load = load.of_file(std::path::Path::new("/tools/a.wasm"));
            AuditRecord { model: Some("m-1".into()), ..load.of_component("a", Some(digest.into())) }
        };
        store.record_audit(vec![load("1"), load("1")]).await.unwrap();
        at.open().record_audit(vec![load("1"), load("2")]).await.unwrap();
        let records = store.audit(AuditFilter::default()).await.unwrap();
        assert_eq!(records, [load("2"), load("1")]);
    }

    async fn the_audit_is_listed_by_time(at: StoreAt) {
        let store = at.open();
        let noted = |at_ms, decision: &str| AuditRecord::at(at_ms, AuditKind::Grant, "person", decision);
        // The second one is older: it waited to be written.
        for record in [noted(9, "a"), noted(7, "b"), noted(9, "c"), noted(8, "d")] {
            store.record_audit(vec![record]).await.unwrap();
        }
        let listed = async |filter| {
            let records = store.audit(filter).await.unwrap();
            records.iter().map(|record| record.decision.to_string()).collect::<String>()
        };
        assert_eq!(listed(AuditFilter::default()).await, "cadb");
        assert_eq!(listed(AuditFilter { skip: 1, limit: 2, ..AuditFilter::default() }).await, "ad");
        assert_eq!(listed(AuditFilter { since_ms: 8, until_ms: 9, ..AuditFilter::default() }).await, "d");
    }

    async fn the_runs_of_a_principal_are_those_of_its_threads(at: StoreAt) {
        let store = at.open();
        for (run, thread) in [("r1", "ada/x"), ("r2", "ada"), ("r3", "bob/ada/y"), ("r4", "ada/x/y"), ("r5", "adam/z")] {
            let mut begins = started(run);
            if let Event::RunStarted { spec } = &mut begins {
                Arc::make_mut(spec).identity.thread_id = thread.into();
            }
            let begun = commit(run, 0, vec![begins]);
            store.commit(changed_commit(begun, |it| it.thread_id = thread.into())).await.unwrap();
        }
        let listed = async |prefix: &str| {
            let filter = RunFilter { thread_prefix: Some(prefix.to_owned()), ..RunFilter::default() };
            at.open().runs(filter).await.unwrap().into_iter().map(|run| run.run_id).collect::<Vec<_>>()
        };
        assert_eq!(listed("ada/").await, ["r4", "r1"]);
        assert_eq!(listed("bob/").await, ["r3"]);
        assert_eq!(listed("ada/x/").await, ["r4"]);
        assert_eq!(listed("ada").await, ["r5", "r4", "r2", "r1"]);
    }

    async fn callers_that_queue_for_a_thread_are_let_in_one_after_another(at: StoreAt) {
        let (store, other) = (at.open(), at.open());
        let first = store.queue("t").await.unwrap();
        drop(store.queue("u").await.unwrap());
        if at.is_durable() {
            let mut waits = Box::pin(other.queue("t"));
            let early = tokio::time::timeout(Duration::from_millis(300), &mut waits).await;
            assert!(early.is_err(), "it is not its turn");
            drop(first);
            let turn = tokio::time::timeout(Duration::from_secs(60), waits).await;
            turn.expect("it is its turn").unwrap();
        }
    }
}
