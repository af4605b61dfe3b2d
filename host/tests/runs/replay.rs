//! Tests of whole runs that are replayed from each store.

use crate::with_each_store;
use crate::world::{decision, host};
use serde_json::json;
use tollgate::models::ScriptedTurn;
use tollgate::{CallRequest, RunRequest};
use tollgate_agent::run::replay::Finding;

with_each_store! {
    async fn a_run_with_others_on_its_thread_comes_to_the_same(store: StoreAt) {
        let turns = vec![
            ScriptedTurn::calls([("add", json!({"n": 2})), ("ask", json!({})), ("add", json!({"n": 3}))]),
            ScriptedTurn::calls([("add", json!({"n": 4}))]),
            ScriptedTurn::text("Done."),
        ];
        let host = host(&store, turns);
        let add = |n: u32| {
            let request = CallRequest::from_json("add", json!({"n": n}).to_string()).on_thread("t");
            let host = host.clone();
            async move { host.call(request).await.unwrap() }
        };
        add(100).await;
        let request = RunRequest::new("default", "Go").on_thread("t");
        let end = host.run(request).await.unwrap().wait().await.unwrap();
        add(1_000).await;
        let decided = decision("d", &end.waiting[0].call_id, json!({"ok": true}));
        let end = host.decide(&end.run_id, decided).await.unwrap().wait().await.unwrap();
        assert_eq!(end.text, "Done.");
        let replayed = host.replay(&end.run_id, None).await.unwrap();
        let mut attempts: Vec<(&str, u32)> =
            replayed.attempts.iter().map(|attempt| (attempt.tool_name.as_str(), attempt.attempt)).collect();
        attempts.sort_unstable();
        assert_eq!(attempts, [("add", 1), ("add", 1), ("add", 1), ("ask", 1), ("ask", 2)]);
        assert!(replayed.is_same(), "{replayed:?}");
    }

    async fn what_cannot_be_run_again_is_said(store: StoreAt) {
        let host = host(&store, Vec::new());
        host.call(CallRequest::from_json("step", "{}").on_thread("t")).await.unwrap();
        let end = host.call(CallRequest::from_json("step", "{}").on_thread("t")).await.unwrap();
        let found = host.replay(&end.run_id, None).await.unwrap().attempts.remove(0).finding;
        match store.is_durable() {
            true => assert!(matches!(&found, Finding::NotReplayable { why } if why.contains("basics.fleeting"))),
            false => assert_eq!(found, Finding::Same, "the record in memory holds all values"),
        }
        let mut slow = CallRequest::from_json("slow", "{}");
        slow.cancel = tokio_util::sync::CancellationToken::new();
        let cancel = slow.cancel.clone();
        let (end, ()) = tokio::join!(host.call(slow), async { cancel.cancel() });
        let replayed = host.replay(&end.unwrap().run_id, None).await.unwrap();
        assert!(!replayed.attempts.iter().any(|attempt| attempt.finding == Finding::Same), "{replayed:?}");
        assert!(host.replay("nothing", None).await.is_err());
    }
}
