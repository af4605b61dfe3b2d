//! Ids that no store has. The tests of each store include this file and the rules.

use crate::rules::{commit, started};
use crate::with_each_store;
use std::sync::Arc;
use tollgate::store::{
    AuditFilter, KeyFilter, PageLimit, RunCommand, RunFilter, StateRead, StoreError, StoreErrorKind,
};

with_each_store! {
    /// A client may ask for any id. PostgreSQL has no texts with a NUL character, and refuses them in statements.
    async fn an_id_with_a_nul_character_is_unknown(at: StoreAt) {
        let store = at.open();
        store.commit(commit("r", 0, vec![started("r")])).await.unwrap();
        store.send("r", "c", RunCommand::Cancel("enough".to_owned())).await.unwrap();
        for id in ["r\0", "\0", "\0r"] {
            assert!(store.run_spec(id).await.unwrap().is_none());
            assert!(store.events(id, 0).await.unwrap().is_empty());
            assert!(store.events_page(id, 0, PageLimit::NONE).await.unwrap().events.is_empty());
            assert!(store.record(id).await.unwrap().events.is_empty());
            assert_eq!(store.record_bytes(id).await.unwrap(), 0);
            let thread = store.thread(id).await.unwrap();
            assert_eq!((thread.messages.len(), thread.state.revision()), (0, 0));
            assert_eq!(store.thread_size(id).await.unwrap().message_bytes, 0);
            let state = store.state(id, &KeyFilter::All, u64::MAX).await.unwrap();
            assert!(matches!(state, StateRead::State(state) if state.revision() == 0));
            assert!(store.changes(id, 0, 9).await.unwrap().is_empty());
            store.admit(Some(id), Some(id), Some(id)).await.unwrap();
            assert!(store.component(id).await.unwrap().is_none());
            let wanted = Some(id.to_owned());
            let filters = [
                RunFilter { run_id: wanted.clone(), ..RunFilter::default() },
                RunFilter { thread_id: wanted.clone(), ..RunFilter::default() },
                RunFilter { run_id_prefix: wanted.clone(), ..RunFilter::default() },
            ];
            for filter in filters {
                assert!(store.runs(filter).await.unwrap().is_empty());
            }
            let filter = AuditFilter { tool_name: wanted, ..AuditFilter::default() };
            assert!(store.audit(filter).await.unwrap().is_empty());

            let unknown = StoreError::from(store.acquire(id, 1).await.unwrap_err());
            assert_eq!(unknown.kind(), StoreErrorKind::UnknownRun, "{unknown}");
            let unknown = store.send(id, "c", RunCommand::Cancel("enough".to_owned())).await.unwrap_err();
            assert_eq!(unknown.kind(), StoreErrorKind::UnknownRun, "{unknown}");
            assert!(store.commands(id).await.unwrap().is_empty());
            store.withdraw(id, "c").await.unwrap();
            store.withdraw("r", id).await.unwrap();
            let commanded = store.runs_with_commands(&[Arc::from(id), Arc::from("r")]).await.unwrap();
            assert_eq!(commanded, [Arc::from("r")], "the other run is found");
        }
        assert!(store.run_spec("r").await.unwrap().is_some());
        assert_eq!(store.commands("r").await.unwrap().len(), 1);
    }
}
