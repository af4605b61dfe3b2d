//! Tests of the audit records that stores keep.

use crate::with_each_store;
use crate::world::{decision, host};
use serde_json::json;
use std::path::Path;
use tollgate::models::ScriptedTurn;
use tollgate::store::{AuditFilter, AuditKind, AuditRecord};
use tollgate::{CallRequest, RunRequest};

fn load(digest: &str) -> AuditRecord {
    AuditRecord::new(AuditKind::Load, "host", "served")
        .of_file(Path::new("tools/a.wasm"))
        .of_component("a", Some(digest.into()))
}

fn trapped(tool: &str, digest: &str) -> AuditRecord {
    AuditRecord::new(AuditKind::Call, "agent direct", "trapped")
        .of_component("a", Some(digest.into()))
        .of_tool(tool)
}

with_each_store! {
    async fn what_is_noted_is_read_newest_first_by_what_is_asked(store: StoreAt) {
        let store = store.open();
        store.record_audit(vec![load("1"), load("1"), trapped("x", "1"), load("2"), load("1")]).await.unwrap();
        let digests = async |filter| {
            let records = store.audit(filter).await.unwrap();
            records.into_iter().map(|record| record.digest.unwrap()).collect::<Vec<_>>()
        };
        let loads = AuditFilter { kind: Some(AuditKind::Load), ..AuditFilter::default() };
        assert_eq!(digests(loads.clone()).await, ["1", "2", "1"]);
        assert_eq!(digests(AuditFilter { limit: 2, ..loads.clone() }).await, ["1", "2"]);
        assert_eq!(digests(AuditFilter { since_ms: u64::MAX >> 1, ..loads }).await, Vec::<String>::new());
        let of_tool = AuditFilter { tool_name: Some("x".to_owned()), ..AuditFilter::default() };
        assert_eq!(digests(of_tool).await.len(), 1);
        let of_nobody = AuditFilter { component_id: Some("b".to_owned()), ..AuditFilter::default() };
        assert_eq!(digests(of_nobody).await.len(), 0);
        let decided = AuditFilter { decision: Some("trapped".to_owned()), ..AuditFilter::default() };
        assert_eq!(digests(decided).await.len(), 1);
    }

    async fn what_was_noted_is_there_for_the_next_process(store: StoreAt) {
        let full = AuditRecord {
            power: Some("files".to_owned()),
            run_id: Some("r".into()),
            call_id: Some("call-1".into()),
            model: Some("m-1".into()),
            usage: Some(tollgate_agent::outcome::Usage { fuel: 7, attempts: 1, ..Default::default() }),
            ..trapped("x", "1").of_file(Path::new("a.wasm")).because("a \u{1b}[31mreason")
        };
        store.open().record_audit(vec![full.clone(), trapped("y", "1")]).await.unwrap();
        let next = store.open();
        let records = next.audit(AuditFilter { run_id_prefix: Some("r".to_owned()), ..AuditFilter::default() }).await;
        assert_eq!(records.unwrap(), [full]);
        let trapping: Vec<_> = next.tool_health().await.unwrap().into_iter().map(|h| h.tool_name).collect();
        assert_eq!(trapping, ["x", "y"]);
        next.record_audit(vec![AuditRecord::new(AuditKind::Enabling, "person", "enabled").of_tool("x")]).await.unwrap();
        assert_eq!(next.tool_health().await.unwrap().len(), 1);
    }

    async fn each_call_of_a_run_is_in_the_audit_once(store: StoreAt) {
        let turns = vec![
            ScriptedTurn::calls([("echo", json!({"n": 2})), ("nope", json!({})), ("ask", json!({}))]),
            ScriptedTurn::text("Done."),
        ];
        let host = host(&store, turns);
        let run_id = host.run(RunRequest::new("default", "Go!")).await.unwrap().wait().await.unwrap().run_id;
        host.call(CallRequest::from_json("echo", "{}")).await.unwrap();
        let of_run = AuditFilter { run_id_prefix: Some(run_id.to_string()), ..AuditFilter::default() };
        let mut records = host.store().audit(of_run).await.unwrap();
        records.sort_by(|a, b| a.tool_name.cmp(&b.tool_name));
        let seen: Vec<_> =
            records.iter().map(|r| (r.tool_name.as_deref().unwrap(), r.decision.as_str(), r.who.as_str())).collect();
        let who = "agent default";
        assert_eq!(seen, [("echo", "success", who), ("nope", "not_found", who)], "what waits has not ended");
        assert_eq!(records[0].component_id.as_deref(), Some("basics"));
        assert_eq!((records[0].usage.map(|usage| usage.attempts), records[1].usage), (Some(1), None));
        assert_eq!(host.store().audit(AuditFilter::default()).await.unwrap().len(), 3);
    }

    async fn the_audit_names_the_model_that_asked_for_a_call(store: StoreAt) {
        let calls = ScriptedTurn::calls([("echo", json!({})), ("nope", json!({})), ("ask", json!({}))]);
        let host = host(&store, vec![calls, ScriptedTurn::text("Done.")]);
        let run = host.run(RunRequest::new("default", "Go!")).await.unwrap().wait().await.unwrap();
        let decided = decision("d1", "call-1-3", json!({"ok": true}));
        host.decide(&run.run_id, decided).await.unwrap().wait().await.unwrap();
        host.call(CallRequest::from_json("echo", "{}")).await.unwrap();
        let records = host.store().audit(AuditFilter::default()).await.unwrap();
        let mut seen: Vec<_> = records
            .iter()
            .map(|r| (r.model.as_deref(), r.kind, r.tool_name.as_deref().unwrap()))
            .collect();
        seen.sort_unstable();
        let model = Some("recorded");
        let expected = [
            (None, AuditKind::Call, "echo"),
            (model, AuditKind::Call, "ask"),
            (model, AuditKind::Call, "echo"),
            (model, AuditKind::Call, "nope"),
            (model, AuditKind::Decision, "ask"),
        ];
        assert_eq!(seen, expected, "a direct call has no model");
    }
}
