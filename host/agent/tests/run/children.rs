//! Tests of runs of other agents on behalf of a call, and of conversations that are handed on.

use crate::world::{World, done, faults, pends, sets};
use serde_json::json;
use std::sync::Arc;
use tollgate_agent::child::{ChildError, ChildRequest, ChildStatus};
use tollgate_agent::code::Code;
use tollgate_agent::context::{AgentView, RunIdentity};
use tollgate_agent::message::{Message, TokenUsage};
use tollgate_agent::outcome::{Outcome, ResumeMode, Ticket, ToolResult};
use tollgate_agent::run::event::ChildQuestion;
use tollgate_agent::run::{
    AgentSpec, ChildAsk, ChildEnd, ChildRefusal, DecisionAnswer, Effect, Event, Input, RunLimits, RunSpec,
    RunStatus, Task,
};

/// Creates a run of an agent that may hand the conversation to `scout` and to an unknown agent.
pub(crate) fn world(identity: RunIdentity, limits: RunLimits) -> World {
    let mut world = World::new();
    let delegates = vec!["scout".to_owned(), "gone".to_owned()];
    let view = AgentView { id: "front".to_owned(), delegates, ..AgentView::default() };
    let agent = AgentSpec { view, tools: vec!["*".to_owned()], ..AgentSpec::default() };
    let identity = RunIdentity { agent_id: "front".into(), ..identity };
    let task = Task::Prompt("Do it.".to_owned());
    world.give(Input::Start(Arc::new(RunSpec {
        identity,
        agent: agent.into(),
        limits,
        task,
        detached: false,
    })));
    world
}

pub(crate) fn calling(calls: &[(&str, &str, &str)]) -> World {
    let mut world = world(RunIdentity::default(), RunLimits::default());
    world.reply(calls);
    world
}

fn asked() -> ChildRequest {
    ChildRequest::new("scout", "Look.")
}

fn ask<'a>(call_id: &'a str, attempt: u32, digest: &'a str, request: &'a ChildRequest) -> ChildAsk<'a> {
    ChildAsk { call_id, attempt, ordinal: 1, digest, request }
}

impl World {
    /// Requests a child as the host does: finds it, or creates it.
    pub(crate) fn child(&mut self, call_id: &str) -> String {
        let request = asked();
        let attempt = self.execution(call_id).attempt;
        let ask = ask(call_id, attempt, "d", &request);
        if let Some(found) = self.run.find_child(&self.catalog, &ask).unwrap() {
            return found.run_id.clone();
        }
        let run_id = format!("child-of-{call_id}-{attempt}");
        self.run.plan_child(&self.catalog, &ask, &run_id, None).unwrap();
        let events = self.give(Input::ChildAsked {
            call_id: call_id.into(),
            attempt,
            ordinal: 1,
            agent_id: "scout".to_owned(),
            digest: "d".to_owned(),
            run_id: run_id.clone(),
        });
        assert!(matches!(&events[..], [Event::ChildStarted { .. }]));
        run_id
    }

    pub(crate) fn child_ends(&mut self, call_id: &str, end: ChildEnd) -> Vec<Event> {
        self.give(Input::ChildChanged { call_id: call_id.into(), ordinal: 1, end })
    }

    fn plan(&self, request: &ChildRequest) -> Result<Arc<RunSpec>, ChildError> {
        let ask = ask("a", 1, "d", request);
        self.run.plan_child(&self.catalog, &ask, "child", Some(5_000)).map(|plan| plan.spec)
    }

    pub(crate) fn ends_children(&self) -> Vec<String> {
        let next = self.run.next(&self.catalog);
        let ends = next.into_iter().filter_map(|effect| match effect {
            Effect::EndChild { run_id, .. } => Some(run_id),
            _ => None,
        });
        ends.collect()
    }
}

fn waits(suspension: &str) -> ChildEnd {
    ChildEnd::Waiting(Box::new(ChildQuestion {
        run_id: "child-of-a-1".to_owned(),
        agent_id: "scout".to_owned(),
        call_id: "call-1-1".into(),
        suspension_id: suspension.to_owned(),
        gate: None,
        tool_name: "send".into(),
        arguments: None,
        ticket: Ticket {
            response_schema: Some(json!({"type": "boolean"})),
            resume_mode: ResumeMode::UseDecisionAsToolResult,
            ..Ticket::confirm("May I send it?")
        },
    }))
}

pub(crate) fn ended(steps: u32, tokens: u64) -> ChildEnd {
    let tokens = TokenUsage { input_tokens: tokens, output_tokens: 0 };
    ChildEnd::Ended { status: ChildStatus::Completed, steps, tokens }
}

fn pending() -> Outcome {
    Outcome::Returned(ToolResult::suspended("The scout asks.").into())
}

#[test]
fn d1_a_child_is_a_run_of_its_own_below_its_call() {
    let world = calling(&[("a", "ask_scout", "{}")]);
    let spec = world.plan(&asked()).unwrap();
    let identity = &spec.identity;
    assert_eq!((identity.agent_id.as_str(), identity.run_id.as_str()), ("scout", "child"));
    assert_ne!(identity.thread_id, world.run.spec().identity.thread_id);
    assert_eq!((identity.parent_call_id.as_deref(), identity.depth), (Some("a"), 1));
    assert_eq!(spec.agent.tools, ["look"], "d6: the tools that its own agent lists");
    assert_eq!(spec.task, Task::Prompt("Look.".to_owned()));
}

#[test]
fn d1_only_who_was_granted_an_agent_runs_it() {
    let world = calling(&[("a", "look", "{}"), ("b", "ask_scout", "{}")]);
    let denied = |call_id: &str, request: &ChildRequest| {
        world.run.find_child(&world.catalog, &ask(call_id, 1, "d", request)).unwrap_err()
    };
    let not_granted = |what: &str| ChildRefusal::Error(ChildError::NotGranted(what.to_owned()));
    assert_eq!(denied("a", &asked()), not_granted("scout"));
    assert_eq!(denied("b", &ChildRequest::new("other", "x")), not_granted("other"));
    assert_eq!(denied("b", &asked().with_seed("kit.count", 1)), not_granted("kit.count"), "d3");
}

#[test]
fn d2_a_seed_that_the_child_does_not_take_starts_nothing() {
    let world = calling(&[("a", "ask_scout", "{}")]);
    for (key, value) in [
        ("kit.nothing", json!(1)),
        ("team.unused", json!(1)),
        ("kit.items", json!(7)),
        ("host.agent", json!("x")),
    ] {
        let refused = world.plan(&asked().with_seed(key, value)).unwrap_err();
        assert!(matches!(&refused, ChildError::BadSeed(why) if why.contains(key)), "{refused}");
    }
    assert!(world.plan(&asked().with_seed("kit.city", "Bern")).is_ok());
}

/// A host charges for the request and for one copy of its seed.
#[test]
fn z3_a_seed_takes_no_more_memory_than_was_charged_for_it() {
    let parent = calling(&[("a", "ask_scout", "{}")]);
    let request = asked().with_seed("kit.city", "x".repeat(10_000));
    let plan = parent.run.plan_child(&parent.catalog, &ask("a", 1, "d", &request), "child", None).unwrap();
    let seed = plan.seed.change.unwrap();
    let (update, value) = (seed.updates[0].update.as_ref(), seed.updates[0].value.as_ref());
    assert!(Arc::ptr_eq(update.unwrap(), value.unwrap()));
}

#[test]
fn d2_the_seed_is_there_before_the_first_step() {
    let parent = calling(&[("a", "ask_scout", "{}")]);
    let mut request = asked().with_seed("kit.city", "Bern").with_seed("kit.fleeting", 3);
    request.messages.insert(0, Message::User("Before.".to_owned()));
    let ask = ask("a", 1, "d", &request);
    let plan = parent.run.plan_child(&parent.catalog, &ask, "child", None).unwrap();
    let mut child = World::new();
    let events = child.give(Input::StartSeeded(plan.spec, plan.seed));
    assert!(matches!(
        events[..],
        [
            Event::RunStarted { .. },
            Event::RunSeeded { .. },
            Event::MessageAdded { .. },
            Event::StepStarted { .. }
        ]
    ));
    assert_eq!(child.run.state().get("kit.city"), Some(&json!("Bern")));
    assert_eq!(child.run.state().get("kit.fleeting"), Some(&json!(3)), "s8: also what does not persist");
    assert_eq!(child.run.messages().len(), 2);
    child.say("Seen.");
    let exports = ["kit.city", "kit.count", "run.none"].map(str::to_owned);
    let outcome = child.run.child_outcome(child.catalog.keys(), &exports);
    assert_eq!((outcome.status, outcome.response.as_deref()), (ChildStatus::Completed, Some("Seen.")));
    let handed_back = outcome.thread_state.unwrap();
    assert_eq!((&*handed_back["kit.city"], &*handed_back["kit.count"]), (&json!("Bern"), &json!(0)), "d3");
    assert_eq!(outcome.state.unwrap().len(), 0);
}

/// A request may name a key of many megabytes a thousand times.
#[test]
fn z3_a_child_hands_back_the_values_of_its_state_and_no_copies() {
    let parent = calling(&[("a", "ask_scout", "{}")]);
    let request = asked().with_seed("kit.city", "x".repeat(10_000));
    let plan = parent.run.plan_child(&parent.catalog, &ask("a", 1, "d", &request), "child", None).unwrap();
    let mut child = World::new();
    child.give(Input::StartSeeded(plan.spec, plan.seed));
    child.say("Seen.");
    let exports = vec!["kit.city".to_owned(); 1_000];
    let handed_back = child.run.child_outcome(child.catalog.keys(), &exports).thread_state.unwrap();
    assert!(Arc::ptr_eq(&handed_back["kit.city"], child.run.state().shared("kit.city").unwrap()));
}

#[test]
fn d6_at_most_four_agents_stand_below_one_another() {
    let at = |depth| {
        let mut world = world(RunIdentity { depth, ..RunIdentity::default() }, RunLimits::default());
        world.reply(&[("a", "ask_scout", "{}")]);
        world.plan(&asked())
    };
    assert_eq!(at(3).unwrap().identity.depth, 4);
    assert_eq!(at(4).unwrap_err(), ChildError::TooDeep(5));
}

#[test]
fn d6_a_child_gets_at_most_what_is_left() {
    let limits = RunLimits { model_turns: 6, tokens: Some(100), ..RunLimits::default() };
    let mut world = world(RunIdentity::default(), limits);
    world.reply(&[("a", "ask_scout", "{}"), ("b", "ask_scout", "{}")]);
    let spec = world.plan(&asked()).unwrap();
    assert_eq!((spec.limits.model_turns, spec.limits.tokens, spec.limits.wall_ms), (5, Some(100), 5_000));
    world.child("a");
    world.child_ends("a", ended(4, 70));
    let spec = world.plan(&asked()).unwrap();
    assert_eq!((spec.limits.model_turns, spec.limits.tokens), (1, Some(30)), "what its sibling used is gone");
    world.child("b");
    world.child_ends("b", ended(1, 30));
    let none_left = world.plan(&asked()).unwrap_err();
    assert!(none_left.to_string().contains("model_turns"), "{none_left}");
    world.end("a", done("A"));
    world.end("b", done("B"));
    assert_eq!(world.status(), &RunStatus::Stopped { limit: "tokens".to_owned() });
    assert_eq!(world.run.usage().children.runs, 2);
}

#[test]
fn d8_the_same_place_gets_the_same_child_also_after_a_crash() {
    let mut world = calling(&[("a", "ask_scout", "{}")]);
    let child = world.child("a");
    assert_eq!(world.child("a"), child);
    world.end("a", faults(Code::TimedOut));
    assert_eq!((world.execution("a").attempt, world.child("a")), (2, child.clone()), "a retry");
    world.crash();
    assert_eq!((world.execution("a").attempt, world.child("a")), (3, child), "a crash");
    let other = ChildRequest::new("scout", "Something else.");
    let refused = world.run.find_child(&world.catalog, &ask("a", 3, "other", &other));
    assert_eq!(refused.unwrap_err(), ChildRefusal::AnotherRequest);
}

#[test]
fn d8_the_childs_question_is_shown_and_its_decision_goes_to_the_child() {
    for crash in [false, true] {
        let mut world = calling(&[("a", "ask_scout", "{}")]);
        let child = world.child("a");
        world.child_ends("a", waits("call-1-1/1"));
        world.end("a", pending());
        assert!(world.is_waiting());
        if crash {
            world.crash();
        }
        let asked = world.call("a").question().unwrap().clone();
        assert_eq!(
            (asked.ticket.message.as_str(), asked.tool_name.as_str()),
            ("May I send it?", "ask_scout")
        );
        assert_eq!(asked.ticket.resume_mode, ResumeMode::ReplayToolCall, "the parent runs again");
        assert!(world.decide("d0", "a", DecisionAnswer::Resume(json!("yes"))).is_err(), "w3");
        world.resume("d1", "a", json!(true));
        if crash {
            world.crash();
        }
        let execution = world.execution("a");
        assert!(execution.resume.is_none(), "s1: the parent does not read its child's answers");
        assert_eq!(world.child("a"), child);
        let decision = world.run.decision_for_child("a", &child).unwrap();
        assert_eq!(
            (decision.target.as_str(), &decision.answer),
            ("call-1-1/1", &DecisionAnswer::Resume(json!(true)))
        );
        world.child_ends("a", ended(2, 0));
        world.end("a", done("Sent."));
        assert_eq!(world.code("a"), None);
    }
}

#[test]
fn d8_what_is_cancelled_is_the_childs_call_not_its_parents() {
    let mut world = calling(&[("a", "ask_scout", "{}")]);
    let child = world.child("a");
    world.child_ends("a", waits("call-1-1/1"));
    world.end("a", pending());
    world.decide("d1", "a", DecisionAnswer::Cancel).unwrap();
    assert_eq!(world.running(), ["a"]);
    assert_eq!(world.run.decision_for_child("a", &child).unwrap().answer, DecisionAnswer::Cancel);
    world.child_ends("a", waits("call-1-2/1"));
    world.end("a", pending());
    assert_eq!(world.call("a").question().unwrap().suspension_id, "a/2", "w10: it may ask again");
}

#[test]
fn d8_a_ticket_of_the_tools_own_is_its_own() {
    let mut world = calling(&[("a", "ask_scout", "{}")]);
    world.child("a");
    world.child_ends("a", waits("call-1-1/1"));
    world.end("a", pends(Ticket::confirm("Shall I wait?")));
    assert!(world.call("a").question().unwrap().child.is_none());
    world.resume("d1", "a", json!("yes"));
    assert_eq!(world.execution("a").resume.as_ref().unwrap().value, json!("yes"));
}

#[test]
fn d8_a_child_waits_while_its_calls_sibling_fails() {
    let mut world = calling(&[("a", "ask_scout", "{}"), ("b", "look", "{}")]);
    world.child("a");
    world.child_ends("a", waits("call-1-1/1"));
    world.end("a", pending());
    world.end("b", faults(Code::Trapped));
    assert!(world.is_waiting() && world.ends_children().is_empty());
    assert_eq!(world.code("b"), Some(Code::Trapped));
    world.resume("d1", "a", json!(true));
    world.child_ends("a", ended(1, 0));
    world.end("a", done("Sent."));
    assert_eq!(world.answers().len(), 2);
}

#[test]
fn d8_a_call_that_runs_again_for_a_conflict_keeps_its_child() {
    let mut world = calling(&[("a", "look", "{}"), ("b", "ask_scout", "{}")]);
    let child = world.child("b");
    world.child_ends("b", ended(1, 0));
    world.end("b", sets("city", json!("Rome")));
    world.end("a", sets("city", json!("Bern")));
    world.pass_gates();
    assert_eq!((world.execution("b").attempt, world.child("b")), (2, child));
    world.end("b", sets("city", json!("Rome")));
    assert_eq!(world.run.state().get("kit.city"), Some(&json!("Rome")));
}

#[test]
fn d6_whoever_ends_a_call_ends_its_child() {
    let open = || {
        let mut world = calling(&[("a", "ask_scout", "{}"), ("b", "look", "{}")]);
        let child = world.child("a");
        (world, child)
    };
    let (mut cancelled, child) = open();
    cancelled.give(Input::Cancel { reason: "enough".to_owned() });
    assert_eq!(cancelled.ends_children(), [child], "cancelling the parent");
    assert_eq!(cancelled.child_ends("a", ended(1, 0)).len(), 0, "nothing follows the end of a run");

    let (mut failed, child) = open();
    failed.end("a", faults(Code::Trapped));
    assert_eq!(failed.ends_children(), [child], "a call that did not wait for it");
    failed.child_ends("a", ended(1, 0));
    assert!(failed.ends_children().is_empty());

    let (mut superseded, child) = open();
    superseded.child_ends("a", waits("call-1-1/1"));
    superseded.end("a", pending());
    superseded.end("b", done("B"));
    superseded.give(Input::Message("Never mind.".to_owned()));
    assert_eq!(superseded.ends_children(), [child], "w7: a new message");
}

#[test]
fn d6_a_block_after_a_commit_ends_the_waiting_child() {
    let block_c = |question: &tollgate_agent::run::Question, _: &tollgate_agent::run::Run| {
        vec![match question.proposal.call_id().as_str() {
            "c" => crate::world::block("x"),
            _ => crate::world::allow("x"),
        }]
    };
    let mut world = world(RunIdentity::default(), RunLimits::default()).with_gates(block_c);
    world.reply(&[("a", "ask_scout", "{}"), ("b", "look", "{}"), ("c", "look", "{}")]);
    let child = world.child("a");
    world.child_ends("a", waits("call-1-1/1"));
    world.end("a", pending());
    world.end("b", sets("city", json!("Bern")));
    assert!(matches!(world.status(), RunStatus::Blocked { .. }));
    assert_eq!((world.code("a"), world.code("c")), (Some(Code::NotRun), Some(Code::Blocked)));
    assert_eq!(world.run.state().get("kit.city"), Some(&json!("Bern")));
    assert_eq!(world.ends_children(), [child]);
}

#[test]
fn d11_a_backend_that_lacks_what_is_needed_is_not_started() {
    let mut world = calling(&[("a", "ask_scout", "{}")]);
    world.catalog.set_agents(crate::tools::agents(|scout| {
        scout.backend = tollgate_agent::backend::Capabilities::NONE;
        scout.tools.clear();
        scout.output = Some(Arc::new(json!({"type": "object"})));
    }));
    let refused = world.plan(&asked().with_seed("kit.city", "Bern")).unwrap_err();
    let all = ["cancellation", "output", "state"].map(str::to_owned).to_vec();
    assert_eq!(refused, ChildError::Unsupported(all), "all at once; a seed is never dropped");
}
