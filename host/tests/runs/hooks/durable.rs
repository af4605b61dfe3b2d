//! Tests of hooks during everything that takes time: retries, questions, crashes, replays.

use super::plugin::{Keeper, LONG, waiting};
use super::{codes, events, run};
use crate::place::StoreAt;
use crate::with_each_store;
use crate::world::host_with;
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate::models::ScriptedTurn;
use tollgate::{CallRequest, Host, RunRequest};
use tollgate_agent::code::Code;
use tollgate_agent::run::replay::Finding;
use tollgate_agent::run::{Decision, DecisionAnswer, Event, RunStatus};

/// Returns a run whose process ended while the hook after its call was asked.
fn left_while_hooks_are_asked(store: &StoreAt) -> Arc<str> {
    let process = || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let run_id = runtime.block_on(async {
            let (keeper, reached, _leave) = waiting();
            let turns = vec![ScriptedTurn::calls([("add", json!({"n": 2}))])];
            let host = host_with(store, turns, |builder| builder.plugin(keeper).hook_timeout(LONG));
            let handle = host.run(RunRequest::new("default", "go").on_thread("t")).await.unwrap();
            reached.acquire().await.unwrap().forget();
            handle.run_id.clone()
        });
        runtime.shutdown_timeout(LONG);
        run_id
    };
    std::thread::scope(|scope| scope.spawn(process).join().unwrap())
}

async fn diary(store: &StoreAt) -> Value {
    let state = store.open().thread("t").await.unwrap().state;
    state.get("keeper.diary").cloned().unwrap_or_default()
}

fn decision(target: &str, answer: DecisionAnswer) -> Decision {
    Decision {
        id: "d".to_owned(),
        target: target.to_owned(),
        answer,
        reason: None,
        by: None,
        by_key: false,
        at_ms: 1,
    }
}

fn keeping(store: &StoreAt, turns: Vec<ScriptedTurn>) -> Host {
    host_with(store, turns, |builder| builder.plugin(Keeper::default()))
}

with_each_store! {
    async fn h1_a_call_that_goes_on_in_another_process_is_not_hooked_again(store: StoreAt) {
        let end = run(&keeping(&store, vec![ScriptedTurn::calls([("ask", json!({}))])])).await;
        assert_eq!(end.waiting.len(), 1);
        assert_eq!(diary(&store).await, json!(["before ask"]));
        let next = keeping(&store, vec![ScriptedTurn::text("Sent.")]);
        let decided = decision(&end.waiting[0].call_id, DecisionAnswer::Resume(json!({"ok": true})));
        let end = next.decide(&end.run_id, decided).await.unwrap().wait().await.unwrap();
        assert_eq!(end.text, "Sent.");
        assert_eq!(diary(&store).await, json!(["before ask", "after ask: success"]));
        let replayed = next.replay(&end.run_id, None).await.unwrap();
        assert!(replayed.is_same() && replayed.attempts.len() == 2, "{replayed:?}");
    }

    async fn h3_what_a_call_returned_survives_its_host_while_hooks_are_asked(store: StoreAt) {
        let run_id = left_while_hooks_are_asked(&store);
        let next = keeping(&store, vec![ScriptedTurn::text("Done.")]);
        let end = next.recover(&run_id).await.unwrap().wait().await.unwrap();
        assert_eq!((end.text.as_str(), codes(&next, &end).await), ("Done.", vec![None]));
        let started = events(&next, &end).await.into_iter().filter(|event| matches!(event, Event::CallStarted { .. }));
        assert_eq!(started.count(), 1, "the tool, which may not run twice, did not");
        assert_eq!(diary(&store).await, json!(["before add", "after add: success"]));
        assert_eq!(store.open().thread("t").await.unwrap().state.get("basics.total"), Some(&json!(2)));
    }

    async fn h1_a_cancelled_call_has_its_hooks_and_the_run_ends(store: StoreAt) {
        let host = keeping(&store, vec![ScriptedTurn::calls([("slow", json!({})), ("ask", json!({}))])]);
        let mut handle = host.run(RunRequest::new("default", "go").on_thread("t")).await.unwrap();
        while let Some(told) = handle.events.next().await {
            let tollgate::run::RunUpdate::Stored(event) = told else { continue };
            if matches!(event.event, Event::CallReturned { .. }) {
                break;
            }
        }
        handle.cancel();
        let end = handle.wait().await.unwrap();
        assert!(matches!(end.status, Some(RunStatus::Cancelled { .. })), "{:?}", end.status);
        assert_eq!(codes(&host, &end).await, [Some(Code::Cancelled), Some(Code::Cancelled)]);
        let mut lines = diary(&store).await.as_array().unwrap().clone();
        lines.sort_by_key(|line| line.to_string());
        assert_eq!(lines, ["after ask: cancelled", "after slow: cancelled", "before ask", "before slow"]);
    }

    async fn h3_a_replay_takes_nothing_of_hooks_for_a_difference(store: StoreAt) {
        let turns = vec![
            ScriptedTurn::calls([("add", json!({"n": 2})), ("set_city", json!({"city": "Bern"})), ("set_city", json!({"city": "Rome"}))]),
            ScriptedTurn::calls([("echo", json!({"n": 4}))]),
            ScriptedTurn::text("Done."),
        ];
        let end = run(&keeping(&store, turns)).await;
        // One host has the plugin, and the other does not.
        for host in [keeping(&store, Vec::new()), crate::world::host(&store, Vec::new())] {
            let replayed = host.replay(&end.run_id, None).await.unwrap();
            assert!(replayed.attempts.len() >= 4, "{replayed:?}");
            let differ: Vec<_> = replayed.attempts.iter().filter(|a| a.finding != Finding::Same).collect();
            assert!(differ.is_empty(), "{differ:?}");
        }
    }

    async fn h3_a_direct_call_with_hooks_is_one_change_and_durable(store: StoreAt) {
        let host = keeping(&store, Vec::new());
        let end = host.call(CallRequest::from_json("add", r#"{"n": 2}"#).on_thread("t")).await.unwrap();
        let finished = end.last_call.unwrap();
        assert_eq!(finished.change.as_ref().unwrap().updates.len(), 3);
        assert_eq!(diary(&store).await, json!(["before add", "after add: success"]));
    }
}
