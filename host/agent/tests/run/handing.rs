//! What a call asks of the loop beside its result: another agent for the conversation,
//! the end of a loop; and answers in a shape.

use crate::children::{calling, world};
use crate::world::{World, done, reply};
use serde_json::json;
use std::sync::Arc;
use tollgate_agent::child::ChildStatus;
use tollgate_agent::code::Code;
use tollgate_agent::context::{AgentView, RunIdentity};
use tollgate_agent::message::Finish;
use tollgate_agent::outcome::{Action, Outcome, ToolOutput, ToolResult};
use tollgate_agent::run::{AgentSpec, Input, RunLimits, RunSpec, RunStatus, Task, handed_to};

fn with(action: Action) -> Outcome {
    Outcome::Returned(ToolOutput {
        result: ToolResult::success("ok").into(),
        mutations: Vec::new(),
        actions: vec![action],
    })
}

fn transfer(to: &str) -> Outcome {
    with(Action::TransferToAgent(to.to_owned()))
}

#[test]
fn d9_a_transfer_hands_the_run_over_when_the_turn_is_over() {
    let mut world = calling(&[("a", "hand", "{}"), ("b", "look", "{}")]);
    world.end("a", transfer("scout"));
    assert_eq!(world.run.spec().identity.agent_id, "front", "the batch has not committed");
    world.end("b", done("B"));
    assert_eq!((world.run.spec().identity.agent_id.as_str(), world.is_asking()), ("scout", true));
    assert_eq!(world.run.spec().agent.tools, ["look"]);
    world.reply_as(reply("", &[("c", "act", "{}")], Finish::Stop));
    assert_eq!(world.code("c"), Some(Code::NotFound), "the new agent has its own tools");
    assert_eq!(handed_to(world.run.state(), "front"), Some("scout"), "later messages go to it");
    assert_eq!(handed_to(world.run.state(), "somebody"), None);
    world.crash();
    assert_eq!(world.run.spec().identity.agent_id, "scout");
}

#[test]
fn d9_of_two_transfers_the_first_stands() {
    let mut world = calling(&[("a", "hand", "{}"), ("b", "hand", "{}")]);
    world.end("b", transfer("scout"));
    world.end("a", transfer("scout"));
    assert_eq!((world.code("a"), world.code("b")), (None, Some(Code::BadAction)));
    assert_eq!(world.run.spec().identity.agent_id, "scout");
}

#[test]
fn d9_an_unknown_target_is_an_error_result_that_lists_the_known() {
    for target in ["nobody", "gone", "front"] {
        let mut world = calling(&[("a", "hand", "{}")]);
        world.end("a", transfer(target));
        assert_eq!(world.code("a"), Some(Code::ToolError), "{target}");
        assert!(world.answer("a").ends_with("known: scout."), "{}", world.answer("a"));
        assert_eq!(world.run.spec().identity.agent_id, "front");
    }
}

#[test]
fn d12_escalate_ends_the_loop_and_is_a_bad_action_outside_one() {
    let mut outside = calling(&[("a", "hand", "{}")]);
    outside.end("a", with(Action::Escalate));
    assert_eq!((outside.code("a"), outside.run.has_escalated()), (Some(Code::BadAction), false));

    let mut inside = world(RunIdentity { in_loop: true, ..RunIdentity::default() }, RunLimits::default());
    inside.reply_as(reply("Good enough.", &[("a", "hand", "{}"), ("b", "look", "{}")], Finish::Stop));
    inside.pass_gates();
    inside.end("a", with(Action::Escalate));
    inside.end("b", done("B"));
    assert_eq!((inside.status(), inside.final_text()), (&RunStatus::Completed, "Good enough."));
    assert!(inside.run.has_escalated());
}

#[test]
fn d3_structured_output_is_the_answer_in_the_shape_of_the_schema() {
    let outcome = |said: &str| {
        let schema = json!({"type": "object", "required": ["good"]});
        let agent = AgentSpec { output: Some(Arc::new(schema)), ..AgentSpec::default() };
        let (identity, limits) = (RunIdentity::default(), RunLimits::default());
        let task = Task::Prompt("Is it good?".to_owned());
        let mut world = World::new();
        world.give(Input::Start(Arc::new(RunSpec {
            identity,
            agent: agent.into(),
            limits,
            task,
            detached: false,
        })));
        world.say(said);
        let outcome = world.run.child_outcome(world.catalog.keys(), &[]);
        (outcome.status, outcome.output)
    };
    let good = (ChildStatus::Completed, Some(json!({"good": true})));
    assert_eq!(outcome(r#"{"good": true}"#), good);
    assert_eq!(outcome("```json\n{\"good\": true}\n```"), good);
    assert!(matches!(outcome("It is."), (ChildStatus::Failed(_), None)));
    assert!(matches!(outcome("{}"), (ChildStatus::Failed(why), None) if why.contains("good")));
}

#[test]
fn b2_only_an_agent_with_others_to_hand_to_has_transfer_to_agent() {
    let lists = |delegates: &[&str], tools: &[&str]| {
        let delegates = delegates.iter().map(ToString::to_string).collect();
        let view = AgentView { delegates, ..AgentView::default() };
        let tools = tools.iter().map(ToString::to_string).collect();
        AgentSpec { view, tools, ..AgentSpec::default() }.lists("transfer_to_agent")
    };
    assert!(lists(&["scout"], &[]) && lists(&["scout"], &["*"]));
    assert!(!lists(&[], &["*"]) && !lists(&[], &["transfer_to_agent"]));
    let all = AgentSpec { tools: vec!["*".to_owned()], ..AgentSpec::default() };
    assert!(!all.lists("tollgate_run_agent") && all.lists("search_history"));
}
