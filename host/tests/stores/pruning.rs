//! Removing old runs. The tests of each durable store include this file and the rules.

use crate::rules::{appended, changed, changed_commit, commit, finished, started};
use crate::with_each_store;
use std::sync::Arc;
use tollgate::store::{AuditFilter, AuditKind, AuditRecord, Commit, RunFilter, StoreLimits};
use tollgate_agent::message::Message;
use tollgate_agent::run::event::{CheckedCall, ToolVersion};
use tollgate_agent::run::{Event, Task};

/// Returns the first event of a run below another one.
fn started_below(run: &str, parent: &str) -> Event {
    let Event::RunStarted { mut spec } = started(run) else { panic!("it is another event") };
    let of_child = Arc::make_mut(&mut spec);
    of_child.identity.parent_run_id = Some(parent.into());
    of_child.task = Task::Prompt("Help.".to_owned());
    Event::RunStarted { spec }
}

with_each_store! {
    async fn z8_pruning_removes_completed_runs_and_keeps_what_waits_and_every_state(at: StoreAt) {
        if !at.is_durable() {
            return;
        }
        let store = at.open();
        for n in 1..=30 {
            let run = format!("old{n}");
            let said = Event::MessageAdded { text: "y".repeat(20_000) };
            let events = vec![started(&run), said, appended(n, "k.list", &"x".repeat(5_000)), finished()];
            let mut old = commit(&run, 0, events);
            old.messages = vec![Message::User(run.clone())];
            store.commit(old).await.unwrap();
        }
        // This run waits. It needs the later changes of the thread to continue.
        store.commit(commit("waits", 0, vec![started("waits"), Event::RunWaiting])).await.unwrap();
        let before = store.thread("t").await.unwrap();
        let waiting_blocks = at.prune(1_000, true).await;
        assert_eq!((waiting_blocks.runs, waiting_blocks.dry_run), (0, true), "they end when it began");
        let held = &waiting_blocks.held_back[0];
        assert_eq!((held.run_id.as_str(), held.status.as_str(), held.runs), ("waits", "waiting", 30));
        assert_eq!(at.prune(1_000, false).await.runs, 0);
        store.commit(commit("waits", 2, vec![finished()])).await.unwrap();
        assert_eq!(at.prune(7, true).await.runs, 0, "nothing is older than that");
        assert_eq!(at.prune(1_000, true).await.runs, 31);
        assert_eq!(store.events("old3", 0).await.unwrap().len(), 4, "a dry run removes nothing");
        let pruned = at.prune(1_000, false).await;
        assert_eq!((pruned.runs, pruned.events), (31, 123));
        let store = at.open();
        assert!(store.runs(RunFilter::default()).await.unwrap().is_empty());
        let after = store.thread("t").await.unwrap();
        assert_eq!((&after.state, &after.messages), (&before.state, &before.messages));
        // The changes before the remaining runs are merged into one.
        let changes = store.changes("t", 0, 100).await.unwrap();
        assert_eq!(changes.iter().map(|change| change.revision).collect::<Vec<_>>(), [30]);
        let mut folded = tollgate_agent::state::State::default();
        changes.iter().for_each(|change| folded.apply(change));
        assert_eq!(folded, after.state);
        let new = commit("new", 0, vec![started("new"), appended(31, "k.list", "new"), finished()]);
        store.commit(new).await.unwrap();
        assert_eq!(store.record("new").await.unwrap().damage, None);
    }

    async fn z8_a_thread_without_anything_that_lasts_is_pruned(at: StoreAt) {
        if !at.is_durable() {
            return;
        }
        let store = at.open();
        let mut fleeting = changed(1, 5);
        if let Event::CallFinished(finished) = &mut fleeting {
            let change = Arc::make_mut(finished).change.as_mut().unwrap();
            Arc::make_mut(&mut change.updates)[0].persistent = false;
        }
        store.commit(commit("r", 0, vec![started("r"), fleeting, finished()])).await.unwrap();
        // The conversation of a run that named no thread, alone and for a principal, and one with a name.
        let generated = "01890000-0000-7000-8000-000000000000";
        let threads = [generated.to_owned(), format!("ada/{generated}"), "ada/plans".to_owned()];
        for (n, thread_id) in threads.iter().enumerate() {
            let run = format!("r{n}");
            let mut said = commit(&run, 0, vec![started(&run), finished()]);
            said.thread_id = Arc::from(thread_id.as_str());
            said.messages = vec![Message::User("Good day.".to_owned())];
            store.commit(said).await.unwrap();
        }
        assert_eq!(at.prune(1_000, false).await.runs, 4);
        assert_eq!(at.prune(1_000, false).await.runs, 0);
        let store = at.open();
        assert_eq!(store.thread("t").await.unwrap().state.revision(), 0, "the thread is gone");
        let mut left = Vec::new();
        for thread_id in &threads {
            left.push(store.thread(thread_id).await.unwrap().messages.len());
        }
        assert_eq!(left, [0, 0, 1], "a conversation with a name can be continued");
    }

    async fn z8_a_run_that_was_at_work_beside_one_that_is_left_stays(at: StoreAt) {
        if !at.is_durable() {
            return;
        }
        let store = at.open();
        for (run, revision, from_ms, to_ms) in [("before", 1, 1, 2), ("beside", 2, 3, 20), ("left", 3, 10, 2_000)] {
            let at = |after, at_ms, events| Commit::new(Arc::from(run), Arc::from("t"), after, at_ms, events);
            store.commit(at(0, from_ms, vec![started(run), changed(revision, revision)])).await.unwrap();
            store.commit(at(2, to_ms, vec![finished()])).await.unwrap();
        }
        assert_eq!(at.prune(1_000, false).await.runs, 1);
        let left = store.runs(RunFilter::default()).await.unwrap();
        let mut left: Vec<_> = left.iter().map(|run| run.run_id.as_str()).collect();
        left.sort_unstable();
        assert_eq!(left, ["beside", "left"]);
        let revisions: Vec<u64> = store.changes("t", 0, 9).await.unwrap().iter().map(|it| it.revision).collect();
        assert_eq!(revisions, [1, 2, 3], "the remaining runs can be replayed");
    }

    async fn z8_a_child_stays_as_long_as_its_parent_is_open(at: StoreAt) {
        if !at.is_durable() {
            return;
        }
        let store = at.open();
        let below = changed_commit(commit("child", 0, vec![started_below("child", "parent"), finished()]), |it| {
            it.thread_id = "below".into();
        });
        store.commit(commit("parent", 0, vec![started("parent"), Event::RunWaiting])).await.unwrap();
        store.commit(below).await.unwrap();
        assert_eq!(at.prune(1_000, false).await.runs, 0);
        store.commit(commit("parent", 2, vec![finished()])).await.unwrap();
        assert_eq!(at.prune(1_000, false).await.runs, 2);
    }

    async fn z8_pruning_gives_back_what_was_counted_and_removes_old_audit_records(at: StoreAt) {
        if !at.is_durable() {
            return;
        }
        let limits = StoreLimits {
            component_record_bytes: 5_000,
            thread_record_bytes: 5_000,
            principal_record_bytes: 5_000,
            min_free_bytes: 0,
        };
        let store = at.open();
        let refused = AuditRecord::at(7, AuditKind::Denial, "agent a", "not_granted").of_component("kit", None);
        let of_file = |digest: &str| AuditRecord {
            file: Some("kit.wasm".to_owned()),
            digest: Some(digest.into()),
            ..AuditRecord::at(7, AuditKind::Load, "host", "loaded")
        };
        store.record_audit(vec![refused.clone(), of_file("one")]).await.unwrap();
        store.record_audit(vec![of_file("two")]).await.unwrap();
        for run in ["r1", "r2"] {
            let call = CheckedCall {
                call_id: "c".into(),
                tool_name: "echo".into(),
                owner: Some(ToolVersion { id: "kit".into(), version: "1".into() }),
                ..CheckedCall::default()
            };
            let text = "x".repeat(3_000);
            let events = vec![
                started(run),
                Event::CallProposed(Arc::new(call)),
                Event::MessageAdded { text },
                finished(),
            ];
            let whole = changed_commit(commit(run, 0, events), |it| {
                it.thread_id = "ada/t".into();
                it.charged = vec![Some("kit".into()); 4];
                it.audit = vec![AuditRecord { run_id: Some(run.into()), ..refused.clone() }; 3];
            });
            store.commit(whole).await.unwrap();
        }
        store.flush().await.unwrap();
        let checks = [(Some("ada/t"), None, None), (None, Some("kit"), None), (None, None, Some("ada"))];
        for (thread, component, principal) in checks {
            assert!(at.open_limited(limits).admit(thread, component, principal).await.is_err());
        }
        let counted = at.prune(1_000, true).await;
        assert_eq!((counted.runs, counted.events, counted.audit), (2, 8, 8));
        let pruned = at.prune(1_000, false).await;
        assert_eq!((pruned.runs, pruned.events, pruned.audit), (2, 8, 8));
        let none = StoreLimits {
            component_record_bytes: 1,
            thread_record_bytes: 1,
            principal_record_bytes: 1,
            min_free_bytes: 0,
        };
        for (thread, component, principal) in checks {
            at.open_limited(none).admit(thread, component, principal).await.unwrap();
        }
        let left = at.open().audit(AuditFilter::default()).await.unwrap();
        let left: Vec<_> = left.iter().map(|record| record.digest.as_deref()).collect();
        assert_eq!(left, [Some("two")], "the newest record of a file stays");
    }
}
