//! Limits on the records of a component, a thread and a principal. The tests of each store include this file and
//! the rules.

use crate::rules::{changed_commit, commit, started};
use crate::with_each_store;
use std::sync::Arc;
use tollgate::store::{AuditKind, AuditRecord, Commit, StoreErrorKind, StoreLimits};
use tollgate_agent::run::Event;

const NO_LIMITS: StoreLimits = StoreLimits {
    component_record_bytes: u64::MAX,
    thread_record_bytes: u64::MAX,
    principal_record_bytes: u64::MAX,
    min_free_bytes: 0,
};

with_each_store! {
    async fn s9_what_a_thread_and_a_component_caused_is_limited(at: StoreAt) {
        let limits = StoreLimits { component_record_bytes: 900, thread_record_bytes: 1_800, ..NO_LIMITS };
        let store = at.open_limited(limits);
        store.admit(Some("t"), Some("echo"), None).await.unwrap();
        for run in ["r1", "r2"] {
            let charged = vec![None, Some("echo".into())];
            let text = "x".repeat(400);
            let said = commit(run, 0, vec![started(run), Event::MessageAdded { text }]);
            store.commit(changed_commit(said, |it| it.charged = charged)).await.unwrap();
        }
        let full = at.open_limited(limits);
        for (thread_id, component_id, limit) in
            [(None, Some("echo"), "component_record_bytes = 900"), (Some("t"), None, "thread_record_bytes = 1800")]
        {
            let refused = full.admit(thread_id, component_id, None).await.unwrap_err();
            assert_eq!(refused.kind(), StoreErrorKind::Full, "{refused}");
            assert!(refused.to_string().contains(limit), "{refused}");
        }
        full.admit(Some("u"), Some("other"), None).await.unwrap();
        // No store has such a thread, and the component is full all the same.
        let refused = full.admit(Some("t\0"), Some("echo"), None).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Full, "{refused}");
    }

    async fn z8_the_audit_of_a_run_counts_for_its_thread_and_component(at: StoreAt) {
        let limits = StoreLimits { component_record_bytes: 10_000, thread_record_bytes: 20_000, ..NO_LIMITS };
        let store = at.open_limited(limits);
        let refused = |run: &str| {
            let refused = AuditRecord::at(7, AuditKind::Denial, "agent a", "not_granted")
                .of_component("kit", None)
                .because(&"x".repeat(900));
            vec![AuditRecord { run_id: Some(run.into()), ..refused }; 16]
        };
        // No one is charged for a record outside of a commit.
        store.record_audit(refused("r0")).await.unwrap();
        at.open_limited(limits).admit(Some("t"), Some("kit"), None).await.unwrap();
        for (run, thread_is_full) in [("r1", false), ("r2", true)] {
            let said = commit(run, 0, vec![started(run)]);
            store.commit(changed_commit(said, |it| it.audit = refused(run))).await.unwrap();
            let read = at.open_limited(limits);
            let full = read.admit(None, Some("kit"), None).await.unwrap_err();
            assert!(full.to_string().contains("component_record_bytes = 10000"), "{full}");
            assert_eq!(read.admit(Some("t"), None, None).await.is_err(), thread_is_full, "{run}");
            read.admit(Some("u"), Some("other"), None).await.unwrap();
        }
    }

    async fn z8_the_records_of_all_threads_of_a_principal_are_limited(at: StoreAt) {
        let limits = StoreLimits { principal_record_bytes: 10_000, ..NO_LIMITS };
        let store = at.open_limited(limits);
        let say = async |run: &str, thread: &str| {
            let events = vec![started(run), Event::MessageAdded { text: "x".repeat(6_000) }];
            store.commit(Commit::new(Arc::from(run), Arc::from(thread), 0, 7, events)).await.unwrap();
        };
        store.admit(None, None, Some("ada")).await.unwrap();
        say("r1", "ada/x").await;
        for (number, thread) in ["ada", "ada0/x", "ad/x", "adam/x", "x/ada/x", "x/y"].into_iter().enumerate() {
            say(&format!("other{number}"), thread).await;
        }
        store.admit(None, None, Some("ada")).await.unwrap();
        at.open_limited(limits).admit(None, None, Some("ada")).await.unwrap();
        say("r2", "ada/y").await;
        // The first handle adds what it writes, and another one reads it.
        for store in [Arc::clone(&store), at.open_limited(limits)] {
            for thread_id in [None, Some("ada/x"), Some("ada/new")] {
                let refused = store.admit(thread_id, Some("echo"), Some("ada")).await.unwrap_err();
                assert_eq!(refused.kind(), StoreErrorKind::Full, "{refused}");
                let says = refused.to_string();
                assert!(says.contains("the principal ada") && says.contains("principal_record_bytes = 10000"), "{says}");
            }
            store.admit(Some("adam/x"), Some("echo"), Some("adam")).await.unwrap();
            store.admit(Some("ada/x"), Some("echo"), None).await.unwrap();
        }
    }
}
