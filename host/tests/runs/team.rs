//! Tests of agents that are tools, of composed agents, and of the host's own tools.

use crate::children::{agent, builder, calling, data, message, run};
use crate::place::StoreAt;
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate::models::{ScriptedModel, ScriptedTurn};
use tollgate::{Agent, CallRequest, Host, HostError, RunRequest};
use tollgate_agent::backend::Capabilities;
use tollgate_agent::child::Streaming;
use tollgate_agent::composition::Composition;
use tollgate_agent::run::RunStatus;

#[tokio::test(flavor = "multi_thread")]
async fn d10_an_agent_is_offered_as_a_tool() {
    let scout = agent("scout", vec![ScriptedTurn::text("Behind the door.")]).offered_as("ask_scout");
    let host = calling(&StoreAt::memory(), ("ask_scout", json!({"request": "Where?"})), vec![scout]);
    assert_eq!(data(&run(&host).await), json!({"response": "Behind the door."}));
    let wrong = host.call(CallRequest::from_json("ask_scout", "{}")).await.unwrap();
    assert!(message(&wrong).contains("request"), "one argument");
}

#[tokio::test(flavor = "multi_thread")]
async fn d11_what_a_backend_lacks_is_refused_before_it_starts() {
    let text_only = Capabilities { cancellation: true, ..Capabilities::NONE };
    let scout = Agent::new("scout", Arc::new(ScriptedModel::new(vec![ScriptedTurn::text("Yes.")])))
        .with_backend(text_only);
    let call = ("delegate", json!({"seed": {"basics.total": 1}}));
    let host = calling(&StoreAt::memory(), call, vec![scout.clone()]);
    assert_eq!(message(&run(&host).await), "state");
    let host = calling(&StoreAt::memory(), ("delegate", json!({})), vec![scout.clone()]);
    assert_eq!(data(&run(&host).await)["thread_state"], Value::Null, "it has no state to hand back");
    let tools = builder(&StoreAt::memory(), vec![scout.with_tools(["*"])]).build();
    assert!(matches!(tools, Err(HostError::Setup(why)) if why.to_string().contains("decisions, waits")));
}

#[tokio::test(flavor = "multi_thread")]
async fn d12_agents_are_made_of_others() {
    let parts = || vec!["one".to_owned(), "two".to_owned()];
    let made = |composition| {
        let one =
            agent("one", vec![ScriptedTurn::text("first").expecting("Go."), ScriptedTurn::text("third")]);
        let two =
            agent("two", vec![ScriptedTurn::text("second"), ScriptedTurn::calls([("enough", json!({}))])]);
        builder(&StoreAt::memory(), vec![one, two, Agent::made_of("default", composition)]).build().unwrap()
    };
    let go = async |host: Host| {
        let end = host.run(RunRequest::new("default", "Go.")).await.unwrap().wait().await.unwrap();
        assert_eq!(end.status, Some(RunStatus::Completed), "{}", end.text);
        (end.text, end.usage.children.runs)
    };
    assert_eq!(go(made(Composition::Sequential(parts()))).await, ("second".to_owned(), 2));
    assert_eq!(go(made(Composition::Parallel(parts()))).await, ("one:\nfirst\n\ntwo:\nsecond".to_owned(), 2));
    let round = Composition::Loop { agents: parts(), max_rounds: 9 };
    assert_eq!(go(made(round)).await.1, 4, "escalate ends it in its second round");
    let outside = calling(&StoreAt::memory(), ("enough", json!({})), Vec::new());
    assert!(message(&run(&outside).await).contains("loop"), "bad_action outside of one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_instructions_name_state() {
    let scout = agent("scout", vec![ScriptedTurn::text("Seen.")])
        .with_tools(Vec::<String>::new())
        .with_instructions("You are in {city}; {nothing} stays.");
    let call = ("delegate", json!({"seed": {"basics.city": "Bern"}}));
    let host = calling(&StoreAt::memory(), call, vec![scout]);
    assert_eq!(data(&run(&host).await)["response"], "Seen.", "d2: the instructions register the key");
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_search_history_is_a_tool_that_passes_the_gate() {
    let store = StoreAt::memory();
    let host = calling(&store, ("search_history", json!({"role": "user"})), Vec::new());
    let end = run(&host).await;
    assert_eq!(data(&end)["messages"][0]["text"], "Do it");
    let none = Agent::new(
        "default",
        Arc::new(ScriptedModel::new(vec![
            ScriptedTurn::calls([("search_history", json!({}))]),
            ScriptedTurn::text("Done."),
        ])),
    );
    let host = builder(&StoreAt::memory(), vec![none]).build().unwrap();
    assert!(message(&run(&host).await).contains("not_found"), "an agent without a list has none");
}

#[test]
fn b2_d9_only_agents_that_are_there_can_be_handed_to() {
    let front = agent("default", Vec::new()).with_delegates(["nobody"]);
    assert!(matches!(builder(&StoreAt::memory(), vec![front]).build(), Err(HostError::Setup(_))));
    assert_eq!(serde_json::to_value(Streaming::PassthroughRawErrors).unwrap(), "passthrough-raw-errors");
}
