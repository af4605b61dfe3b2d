//! Tests of calls that wait for a person, across hosts.

use crate::with_each_store;
use crate::world::host;
use serde_json::{Value, json};
use tollgate::models::ScriptedTurn;
use tollgate::store::RunCommand;
use tollgate::{CallRequest, HostError, RunRequest};
use tollgate_agent::run::{CallEnd, Decision, DecisionAnswer, RunStatus};

fn decision(id: &str, target: &str, answer: DecisionAnswer) -> Decision {
    Decision {
        id: id.to_owned(),
        target: target.to_owned(),
        answer,
        reason: Some("because".to_owned()),
        by: None,
        by_key: false,
        at_ms: 1,
    }
}

fn resume(value: Value) -> DecisionAnswer {
    DecisionAnswer::Resume(value)
}

with_each_store! {
    async fn w2_a_waiting_run_survives_its_host(store: StoreAt) {
        let turns = vec![ScriptedTurn::calls([("ask", json!({"what": "send"})), ("add", json!({"n": 1}))])];
        let end = {
            let host = host(&store, turns);
            host.run(RunRequest::new("default", "Do it").on_thread("t")).await.unwrap().wait().await.unwrap()
        };
        assert_eq!((end.status, end.waiting.len()), (None, 1));
        let asked = &end.waiting[0];
        assert_eq!((asked.ticket.action.as_str(), asked.tool_name.as_str()), ("approve", "ask"));

        let next = host(&store, vec![ScriptedTurn::text("Sent.")]);
        let wrong = next.decide(&end.run_id, decision("d0", &asked.call_id, resume(json!("yes")))).await;
        assert!(matches!(wrong, Err(HostError::DoesNotFit { .. })), "w3: {wrong:?}");
        let unknown = next.decide(&end.run_id, decision("d0", "nothing", resume(json!({"ok": true})))).await;
        let is_named = |why: &HostError| matches!(why, HostError::UnknownQuestion(target) if target == "nothing");
        assert!(unknown.as_ref().is_err_and(is_named), "{unknown:?}");
        let handle = next.decide(&end.run_id, decision("d1", &asked.call_id, resume(json!({"ok": true})))).await;
        let end = handle.unwrap().wait().await.unwrap();
        assert_eq!((end.status, end.text.as_str()), (Some(RunStatus::Completed), "Sent."));
        let thread = store.open().thread("t").await.unwrap();
        assert_eq!(thread.state.get("basics.notes"), Some(&json!(["asked"])), "l4: a pending call's mutations commit");
        assert_eq!(thread.state.get("basics.total"), Some(&json!(1)));
        let again = next.decide(&end.run_id, decision("d2", &asked.call_id, resume(json!({"ok": false})))).await;
        let Err(HostError::AlreadyDecided { target, decision: Some(made), .. }) = again else { panic!("w5") };
        assert_eq!((target.as_str(), made.id.as_str()), (&*asked.call_id, "d1"));
    }

    async fn w4_a_cancelled_call_never_runs(store: StoreAt) {
        let host = host(&store, Vec::new());
        let end = host.call(CallRequest::from_json("ask", "{}")).await.unwrap();
        let target = end.waiting[0].suspension_id.clone();
        let handle = host.decide(&end.run_id, decision("d1", &target, DecisionAnswer::Cancel)).await.unwrap();
        let CallEnd::Fault(fault) = handle.wait().await.unwrap().last_call.unwrap().end.clone() else { panic!() };
        assert!(fault.message.contains("because"), "{}", fault.message);
    }

    async fn w5_a_repeated_decision_is_answered_with_the_recorded_one(store: StoreAt) {
        let host = host(&store, vec![ScriptedTurn::calls([("ask", json!({})), ("ask", json!({}))])]);
        let end = host.run(RunRequest::new("default", "Do it").on_thread("t")).await.unwrap().wait().await.unwrap();
        let made = decision("d1", &end.waiting[0].call_id, resume(json!({"ok": true})));
        host.decide(&end.run_id, made.clone()).await.unwrap().wait().await.unwrap();
        let again = host.send(&end.run_id, RunCommand::Decide(Decision { at_ms: 9, ..made })).await;
        let Err(HostError::AlreadyDecided { decision: Some(recorded), .. }) = again else { panic!("{again:?}") };
        assert_eq!((recorded.id.as_str(), recorded.at_ms), ("d1", 1));
    }

    async fn w7_a_new_message_supersedes_what_waits(store: StoreAt) {
        let first = host(&store, vec![ScriptedTurn::calls([("ask", json!({}))])]);
        let waiting = first.run(RunRequest::new("default", "Do it").on_thread("t")).await.unwrap().wait().await.unwrap();
        let next = host(&store, vec![ScriptedTurn::text("Never mind.")]);
        let end = next.run(RunRequest::new("default", "Forget it").on_thread("t")).await.unwrap().wait().await.unwrap();
        assert_eq!((end.run_id, end.text.as_str()), (waiting.run_id, "Never mind."));
    }
}
