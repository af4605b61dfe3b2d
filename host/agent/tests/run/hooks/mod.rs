//! Tests of hooks around calls and turns. Their answers are recorded once and commit with the call.

mod ending;

use crate::tools;
use crate::world::{World, deny, done, faults, pends, reply, sets, suspend};
use serde_json::{Value, json};
use tollgate_agent::code::Code;
use tollgate_agent::hook::{CustomEvent, HookAnswer, HookPoint, ModelHooked};
use tollgate_agent::message::{Finish, Message};
use tollgate_agent::outcome::{Action, ResumeMode, ScheduledNote, Ticket, ToolFilter, ToolResult};
use tollgate_agent::run::event::FinishedCall;
use tollgate_agent::run::{CallEnd, Event, Input, RunLimits};
use tollgate_agent::state::PendingMutation;

/// Returns a run with the plugin `keeper`, which logs `before NAME` and `after NAME`.
fn asked() -> World {
    let mut world = World::new();
    tools::add_keeper(&mut world.catalog);
    world.before = Box::new(|question| logs(&format!("before {}", question.proposal.call_id())));
    world.after = Some(Box::new(|ended| logs(&format!("after {}", ended.call_id))));
    world.start(RunLimits::default(), tollgate_agent::run::Task::Prompt("Do it.".to_owned()));
    world
}

fn calling(calls: &[(&str, &str, &str)]) -> World {
    let mut world = asked();
    world.reply(calls);
    world
}

fn writes(key: &str, update: Value) -> HookAnswer {
    let mutation = PendingMutation { key: key.to_owned(), persistent: true, update: Some(update) };
    HookAnswer { mutations: vec![mutation], ..HookAnswer::new("keeper") }
}

fn logs(line: &str) -> HookAnswer {
    writes("keeper.log", json!(line))
}

fn asks(action: Action) -> HookAnswer {
    HookAnswer { actions: vec![action], ..HookAnswer::new("keeper") }
}

fn log(world: &World) -> Value {
    world.run.state().get("keeper.log").cloned().unwrap_or_else(|| json!([]))
}

fn finished<'a>(world: &'a World, call_id: &str) -> &'a FinishedCall {
    let found = world.events.iter().find_map(|event| match event {
        Event::CallFinished(finished) if finished.call_id == call_id => Some(finished),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{call_id} has not ended"))
}

/// Returns how often hooks answered on this side of a call.
fn times(world: &World, call: &str, side: HookPoint) -> usize {
    let is = |event: &&Event| matches!(event, Event::CallHooked { call_id, point, .. } if call_id == call && *point == side);
    world.events.iter().filter(is).count()
}

#[test]
fn h1_hooks_run_once_for_a_call_that_is_tried_again() {
    let mut world = calling(&[("a", "look", "{}")]);
    for _ in 0..3 {
        world.end("a", faults(Code::TimedOut));
    }
    assert_eq!(world.execution("a").attempt, 4);
    world.end("a", done("seen"));
    assert_eq!((times(&world, "a", HookPoint::Before), times(&world, "a", HookPoint::After)), (1, 1));
    assert_eq!(log(&world), json!(["before a", "after a"]));
}

#[test]
fn h1_hooks_after_a_call_run_whatever_its_outcome() {
    for (outcome, code) in [
        (done("seen"), None),
        (faults(Code::Trapped), Some(Code::Trapped)),
        (faults(Code::TimedOut), Some(Code::TimedOut)),
        (sets("locked", json!(1)), Some(Code::BadMutation)),
    ] {
        let mut world = calling(&[("a", "act", "{}")]);
        world.end("a", outcome);
        assert_eq!((world.code("a"), times(&world, "a", HookPoint::After)), (code, 1));
        assert_eq!(log(&world), json!(["before a", "after a"]), "h3: {code:?}");
    }
}

#[test]
fn h1_a_call_that_is_held_back_has_no_hooks_and_one_that_is_supplied_those_after_it() {
    use tollgate_agent::gate::{GateVerdict, Verdict};
    let mut world = asked().with_gates(|question, _| match question.proposal.call_id().as_str() {
        "a" => vec![deny("list")],
        _ => vec![GateVerdict::new("list", Verdict::SetResult(Box::new(ToolResult::success("cached"))))],
    });
    world.reply(&[("a", "act", "{}"), ("b", "act", "{}"), ("c", "nothing", "{}")]);
    assert_eq!(
        (world.code("a"), world.code("b"), world.code("c")),
        (Some(Code::Denied), None, Some(Code::NotFound))
    );
    assert_eq!(log(&world), json!(["after b"]));
}

#[test]
fn h1_hooks_run_once_for_a_call_that_is_judged_again_for_a_conflict() {
    let mut world = calling(&[("a", "look", "{}"), ("b", "look", "{}")]);
    world.end("a", sets("city", json!("Bern")));
    world.end("b", sets("city", json!("Rome")));
    assert_eq!(world.execution("b").attempt, 2, "s5");
    world.end("b", sets("city", json!("Paris")));
    assert_eq!(log(&world), json!(["before a", "after a", "before b", "after b"]));
    assert_eq!(world.run.state().get("kit.city"), Some(&json!("Paris")));
}

#[test]
fn h1_a_call_that_goes_on_after_a_decision_is_not_hooked_again() {
    let ticket = Ticket { resume_mode: ResumeMode::PassDecisionToTool, ..Ticket::confirm("Sure?") };
    let mut world = calling(&[("a", "act", "{}")]);
    world.end("a", pends(ticket));
    assert_eq!(log(&world), json!(["before a"]), "what hooks wrote commits with the question");
    world.crash();
    world.resume("d", "a", json!({"n": 2}));
    world.end("a", done("done"));
    assert_eq!(log(&world), json!(["before a", "after a"]));
}

#[test]
fn h1_a_gate_that_asks_first_is_asked_before_the_hooks() {
    let mut world = asked().with_gates(|_, _| vec![suspend("careful")]);
    world.reply(&[("a", "act", "{}")]);
    assert_eq!((world.is_waiting(), log(&world)), (true, json!([])));
    world.resume("d", "a", json!(null));
    world.end("a", done("done"));
    assert_eq!(log(&world), json!(["before a", "after a"]));
}

#[test]
fn h1_the_tool_does_not_see_what_hooks_wrote() {
    let world = calling(&[("a", "look", "{}")]);
    let seen = world.execution("a").snapshot.get(world.catalog.keys(), "keeper.log");
    assert_eq!(seen, Some(&json!([])));
}

#[test]
fn h1_hooks_may_replace_the_result_and_the_record_keeps_both() {
    let mut world = asked();
    world.after = Some(Box::new(|_| HookAnswer {
        result: Some(Box::new(ToolResult::success("better"))),
        ..HookAnswer::new("keeper")
    }));
    world.reply(&[("a", "act", "{}"), ("b", "act", "{}")]);
    world.end("a", sets("city", json!("Bern")));
    world.end("b", faults(Code::Trapped));
    assert_eq!((world.answer("a").as_str(), world.answer("b").as_str()), ("better", "better"));
    let own = |call: &str| finished(&world, call).replaced.as_ref().unwrap().code();
    assert_eq!((own("a"), own("b")), (None, Some(Code::Trapped)));
    assert_eq!(world.run.state().get("kit.city"), Some(&json!("Bern")));
}

#[test]
fn h1_no_hook_makes_a_result_of_a_denial() {
    let mut world = asked().with_gates(|question, run| match run.state().revision() {
        0 => vec![crate::world::allow("list")],
        _ if question.proposal.call_id() == "b" => vec![deny("list")],
        _ => vec![crate::world::allow("list")],
    });
    world.after = Some(Box::new(|_| HookAnswer {
        result: Some(Box::new(ToolResult::success("better"))),
        ..HookAnswer::new("keeper")
    }));
    world.reply(&[("a", "look", "{}"), ("b", "look", "{}")]);
    world.end("a", sets("city", json!("Bern")));
    world.end("b", sets("city", json!("Rome")));
    assert_eq!(world.code("b"), Some(Code::Denied), "it was judged again, for the conflict");
    assert_eq!(times(&world, "b", HookPoint::After), 1, "it was let through once");
}

#[test]
fn h1_actions_and_events_of_hooks_are_recorded_and_done() {
    let mut world = asked();
    world.before = Box::new(|_| asks(Action::AddContext("Mind the gap.".to_owned())));
    world.after = Some(Box::new(|_| HookAnswer {
        events: vec![CustomEvent { name: "spent".to_owned(), data: json!(3) }],
        ..HookAnswer::new("keeper")
    }));
    world.reply(&[("a", "act", "{}")]);
    world.end("a", done("done"));
    let note = Message::Note("Note left by the plugin 'keeper':\nMind the gap.".to_owned());
    assert_eq!(world.run.messages().last(), Some(&note), "a10");
    let told = world.events.iter().any(|event| {
        matches!(event, Event::CallHooked { answers, .. } if answers.iter().any(|a| a.events.len() == 1))
    });
    assert!(told);
}

#[test]
fn h1_notes_come_in_the_turn_for_which_they_are_scheduled() {
    let mut world = asked();
    let later = |in_turns| asks(Action::ScheduleContext(ScheduledNote { note: "Now.".to_owned(), in_turns }));
    world.before = Box::new(move |_| later(2));
    world.after = Some(Box::new(|_| HookAnswer::new("keeper")));
    let notes = |world: &World| world.run.messages().iter().filter(|m| matches!(m, Message::Note(_))).count();
    world.reply(&[("a", "act", "{}")]);
    world.end("a", done("done"));
    world.before = Box::new(|_| HookAnswer::new("keeper"));
    assert_eq!(notes(&world), 0);
    world.crash();
    world.reply(&[("b", "act", "{}")]);
    world.end("b", done("done"));
    assert_eq!(notes(&world), 1);
}

#[test]
fn h1_a_filter_holds_for_the_next_turn() {
    let mut world = asked();
    world.after = Some(Box::new(|_| asks(Action::FilterTools(ToolFilter::only(["look"])))));
    world.reply(&[("a", "act", "{}")]);
    world.end("a", done("done"));
    let names = |world: &World| {
        world.run.tool_specs(&world.catalog).into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&world), ["look"]);
    world.crash();
    assert_eq!(names(&world), ["look"]);
    world.after = Some(Box::new(|_| HookAnswer::new("keeper")));
    world.reply(&[("b", "act", "{}"), ("c", "look", "{}")]);
    assert_eq!(world.code("b"), Some(Code::NotFound));
    world.end("c", done("seen"));
    assert!(names(&world).len() > 1, "it is over");
}

#[test]
fn h2_a_hidden_tool_that_is_called_anyway_is_not_found() {
    let mut world = asked();
    let hooked = ModelHooked { hidden: ["act".to_owned()].into(), ..ModelHooked::default() };
    let reply = reply("", &[("a", "act", "{}"), ("b", "look", "{}")], Finish::Stop);
    world.give(Input::Replied { ask: 1, reply, hooked: Some(Box::new(hooked)) });
    world.pass_gates();
    assert_eq!((world.code("a"), world.running()), (Some(Code::NotFound), vec!["b"]));
    world.end("b", done("seen"));
    assert!(!world.answer("a").contains("'act'?"), "it is not among the nearest names");
}

#[test]
fn h3_before_tool_and_after_commit_as_one_change_in_this_order() {
    let mut world = asked();
    world.before = Box::new(|_| writes("kit.city", json!("before")));
    world.after = Some(Box::new(|_| writes("kit.city", json!("after"))));
    world.reply(&[("a", "act", "{}")]);
    world.end("a", sets("city", json!("tool")));
    let change = finished(&world, "a").change.as_ref().unwrap();
    let written: Vec<_> =
        change.updates.iter().map(|update| update.value.as_deref().cloned().unwrap()).collect();
    assert_eq!(written, [json!("before"), json!("tool"), json!("after")]);
    assert_eq!((change.revision, world.run.state().revision()), (1, 1));
}

#[test]
fn h4_a_hook_that_fails_fails_its_call_and_not_the_run() {
    let mut world = asked();
    world.before = Box::new(|question| match question.proposal.call_id().as_str() {
        "a" => HookAnswer::failed("keeper", "on purpose"),
        _ => logs("b"),
    });
    world.after = Some(Box::new(|ended| match ended.call_id.as_str() {
        "b" => HookAnswer::failed("keeper", "on purpose"),
        call => logs(call),
    }));
    world.reply(&[("a", "act", "{}"), ("b", "act", "{}"), ("c", "act", "{}")]);
    assert_eq!(world.running(), ["b", "c"], "a did not run");
    world.end("c", done("done"));
    world.end("b", sets("city", json!("Bern")));
    assert_eq!(
        (world.code("a"), world.code("b"), world.code("c")),
        (Some(Code::HookFailed), Some(Code::HookFailed), None)
    );
    assert_eq!(world.run.state().get("kit.city"), None, "the tool's part is dropped");
    assert_eq!(log(&world), json!(["a", "b", "b", "c"]), "h3: the hooks' stays");
    assert!(matches!(finished(&world, "b").replaced.as_deref(), Some(CallEnd::Result(_))));
    assert!(world.is_asking());
}

#[test]
fn h4_a_hook_that_asks_for_too_much_fails() {
    let escalates = asks(Action::Escalate);
    let pending =
        HookAnswer { result: Some(Box::new(ToolResult::suspended("?"))), ..HookAnswer::new("keeper") };
    let event = CustomEvent { name: "x".to_owned(), data: json!("x".repeat(20_000)) };
    let large = HookAnswer { events: vec![event], ..HookAnswer::new("keeper") };
    for answer in [escalates, pending, large, writes("kit.count", json!(1)), writes("keeper.none", json!(1))]
    {
        let mut world = asked();
        world.after = Some(Box::new(move |_| answer.clone()));
        world.reply(&[("a", "act", "{}")]);
        world.end("a", sets("city", json!("Bern")));
        assert_eq!(world.code("a"), Some(Code::HookFailed));
        assert_eq!((log(&world), world.run.state().get("kit.city")), (json!(["before a"]), None));
    }
}

#[test]
fn h1_without_hooks_no_event_is_more() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    world.end("a", done("done"));
    let of_hooks = |event: &&Event| {
        matches!(
            event,
            Event::CallHooked { .. }
                | Event::CallEnding(_)
                | Event::ModelHooked { .. }
                | Event::TurnCut { .. }
        )
    };
    assert_eq!(world.events.iter().filter(of_hooks).count(), 0);
}
