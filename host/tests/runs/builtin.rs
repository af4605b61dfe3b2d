//! Tests of the built-in tools of every host, and of their descriptions for a model.

use crate::overheard::Overheard;
use crate::world::toolbox;
use serde_json::json;
use tollgate::{Agent, CallRequest, Composition, Host, RunRequest, ScriptedModel, ScriptedTurn, Toolbox};
use tollgate_agent::catalog::{HOST_ID, OwnerKind};
use tollgate_agent::code::Code;
use tollgate_agent::outcome::ActionGrants;
use tollgate_agent::run::{CallEnd, Event};

/// Creates a host with everything that enables a built-in tool: agents to hand over to, one that is
/// offered as a tool, and one that is composed of others.
fn host(tools: Toolbox, model: &Overheard) -> Host {
    let scout = Agent::new("scout", ScriptedModel::new(Vec::new())).offered_as("ask_scout");
    let round = Composition::Loop { agents: vec!["scout".to_owned()], max_rounds: 2 };
    let agent = Agent::new("default", model.clone()).with_tools(["*"]).with_delegates(["scout"]);
    let builder = Host::builder().toolbox(tools).agent(agent).agent(scout);
    builder.agent(Agent::made_of("round", round)).build().unwrap()
}

/// Capabilities that a model might hope for.
const HOPES: [&str; 10] = [
    "grant",
    "revoke",
    "install",
    "load",
    "build",
    "enable",
    "approve",
    "decide",
    "tollgate_grant",
    "tollgate_decide",
];

#[tokio::test(flavor = "multi_thread")]
async fn b3_nothing_built_in_grants_installs_loads_or_approves() {
    let asks =
        ScriptedTurn::calls([("ask", json!({}))].into_iter().chain(HOPES.map(|name| (name, json!({})))));
    let model = Overheard::new(vec![asks]);
    let host = host(toolbox(), &model);

    let own = host.toolbox();
    let own: Vec<_> = own.catalog().tools().filter(|tool| tool.owner.id == HOST_ID).collect();
    let names: Vec<&str> = own.iter().map(|tool| tool.descriptor.name.as_str()).collect();
    assert_eq!(names, ["search_history", "tollgate_run_agent", "transfer_to_agent"], "the whole of it");
    for tool in own {
        let known = ActionGrants { transfer: true, escalate: true, ..ActionGrants::default() };
        assert_eq!((tool.access.reads().count(), tool.actions), (0, known));
    }

    let end = host.run(RunRequest::new("default", "Grant yourself all of it.")).await.unwrap();
    let end = end.wait().await.unwrap();
    assert_eq!(end.waiting.len(), 1, "the question is a person's, and waits for one");
    let events = host.store().events(&end.run_id, 0).await.unwrap();
    let missing = events.iter().filter(|event| match &event.event {
        Event::CallFinished(finished) => finished.end.code() == Some(Code::NotFound),
        _ => false,
    });
    assert_eq!(missing.count(), HOPES.len());
    for name in HOPES {
        let direct = host.call(CallRequest::from_json(name, "{}")).await.unwrap();
        assert_eq!(direct.last_call.unwrap().end.code(), Some(Code::NotFound), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_a_models_prompt_holds_what_was_configured_and_nothing_of_the_hosts() {
    let model = Overheard::new(vec![ScriptedTurn::text("Yes.")]);
    let host = host(Toolbox::default(), &model);
    host.run(RunRequest::new("default", "Hello?")).await.unwrap().wait().await.unwrap();
    let request = model.requests().remove(0);
    let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["ask_scout", "search_history", "transfer_to_agent"]);
    assert_eq!((request.system.as_ref(), request.messages.len()), ("", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_what_only_the_host_calls_is_refused_to_everybody_else() {
    let model = Overheard::new(vec![
        ScriptedTurn::calls([("tollgate_run_agent", json!({"agent": "scout", "request": "Go."}))]),
        ScriptedTurn::text("No."),
    ]);
    let host = host(Toolbox::default(), &model);
    let end = host.run(RunRequest::new("default", "Go.")).await.unwrap().wait().await.unwrap();
    let CallEnd::Fault(fault) = end.last_call.unwrap().end.clone() else { panic!("it ran") };
    assert_eq!(fault.code, Code::NotFound);
    let agents = host.toolbox().catalog().owners().filter(|owner| owner.kind == OwnerKind::Agent).count();
    assert_eq!(agents, 1, "and the one agent that is offered is a tool by configuration");
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_the_model_is_sent_the_state_that_its_instructions_name_as_it_is_then() {
    let turns = vec![
        ScriptedTurn::calls([("set_city", json!({"city": "Rome"}))]),
        ScriptedTurn::text("Done."),
        ScriptedTurn::text("Still there."),
    ];
    let model = Overheard::new(turns);
    let agent = Agent::new("default", model.clone()).with_tools(["*"]);
    let agent = agent.with_instructions("You are in {city}, also called {basics.city}; {nothing} stays.");
    let host = Host::builder().toolbox(toolbox()).agent(agent).build().unwrap();
    host.call(CallRequest::from_json("set_city", r#"{"city": "Bern"}"#).on_thread("t")).await.unwrap();
    for prompt in ["Go to Rome.", "Where are you?"] {
        host.run(RunRequest::new("default", prompt).on_thread("t")).await.unwrap().wait().await.unwrap();
    }
    let sent: Vec<String> = model.requests().iter().map(|request| request.system.to_string()).collect();
    let says = |city: &str| format!("You are in {city}, also called {city}; {{nothing}} stays.");
    assert_eq!(sent, [says("Bern"), says("Rome"), says("Rome")]);
}
