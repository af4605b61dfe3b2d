//! Tests of gates that take time, next to those that answer at once.

use crate::place::StoreAt;
use crate::world::toolbox;
use async_trait::async_trait;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tollgate::gates::{Gate, ProposedCall, Verdict};
use tollgate::models::{ScriptedModel, ScriptedTurn};
use tollgate::{Agent, Host, RunRequest};
use tollgate_agent::code::Code;
use tollgate_agent::run::{CallEnd, Event, RunStatus};

/// A gate that takes time to answer.
struct Waits(&'static str, fn(&ProposedCall<'_>) -> Verdict);

#[async_trait]
impl Gate for Waits {
    fn id(&self) -> &str {
        self.0
    }

    async fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        tokio::time::sleep(Duration::from_millis(1)).await;
        (self.1)(call)
    }
}

/// A gate that never answers.
struct Silent;

#[async_trait]
impl Gate for Silent {
    fn id(&self) -> &str {
        "silent"
    }

    async fn judge(&self, _: &ProposedCall<'_>) -> Verdict {
        std::future::pending().await
    }
}

fn host(gate: impl Gate + 'static, turns: Vec<ScriptedTurn>) -> Host {
    let agent = Agent::new("default", Arc::new(ScriptedModel::new(turns))).with_tools(["*"]);
    let store = StoreAt::memory().open();
    Host::builder().toolbox(toolbox()).agent(agent).store(store).gate(gate).build().unwrap()
}

async fn ends(host: &Host) -> (RunStatus, Vec<Option<Code>>) {
    let end = host.run(RunRequest::new("default", "go")).await.unwrap().wait().await.unwrap();
    let events = host.store().events(&end.run_id, 0).await.unwrap();
    let codes = events.iter().filter_map(|event| match &event.event {
        Event::CallFinished(finished) => Some(finished.end.code()),
        _ => None,
    });
    (end.status.unwrap(), codes.collect())
}

fn three_echoes() -> Vec<ScriptedTurn> {
    let echo = || ("echo", json!({}));
    vec![ScriptedTurn::calls([echo(), echo(), echo()]), ScriptedTurn::text("done")]
}

#[tokio::test(flavor = "multi_thread")]
async fn g7_a_gate_that_is_waited_for_counts_with_the_calls_of_its_batch() {
    let budget = Waits("budget", |call| match call.calls_before.of_tool {
        0 | 1 => Verdict::Allow,
        _ => Verdict::Deny("twice is enough".to_owned()),
    });
    let (status, codes) = ends(&host(budget, three_echoes())).await;
    assert_eq!((status, codes), (RunStatus::Completed, vec![None, None, Some(Code::Denied)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn g6_a_gate_that_panics_denies_with_its_id_and_the_run_survives() {
    let host = host(Waits("broken", |_| panic!("on purpose")), three_echoes());
    let (status, codes) = ends(&host).await;
    assert_eq!((status, codes), (RunStatus::Completed, vec![Some(Code::Denied); 3]));
    let end = host.call(tollgate::CallRequest::from_json("echo", "{}")).await.unwrap();
    let CallEnd::Fault(fault) = end.last_call.unwrap().end.clone() else { panic!() };
    assert!(fault.message.contains("'broken'"), "{}", fault.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn x1_a_run_whose_gate_is_silent_can_be_cancelled() {
    let host = host(Silent, three_echoes());
    let handle = host.run(RunRequest::new("default", "go")).await.unwrap();
    handle.cancel();
    let end = tokio::time::timeout(Duration::from_millis(1_200), handle.wait()).await.unwrap().unwrap();
    assert!(matches!(end.status, Some(RunStatus::Cancelled { .. })), "{:?}", end.status);
}

#[tokio::test]
async fn g2_two_gates_of_one_id_are_refused_whatever_they_are() {
    let gate = || Waits("twice", |_| Verdict::Allow);
    let built = Host::builder().gate(gate()).gate(gate()).build();
    assert!(built.err().unwrap().to_string().contains("\"twice\""));
    let list = Waits("tool-list", |_| Verdict::Allow);
    assert!(Host::builder().gate(list).build().is_err(), "the host's own gate is one too");
}
