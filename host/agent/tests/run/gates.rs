//! Tests of how gates' answers are joined.

use crate::world::{World, allow, block, deny, done, pends, sets, suspend};
use serde_json::json;
use tollgate_agent::code::Code;
use tollgate_agent::gate::{GateVerdict, Verdict};
use tollgate_agent::outcome::{Ticket, ToolResult};
use tollgate_agent::run::{Event, Question, Run, RunLimits, RunStatus};

fn id(question: &Question) -> &str {
    question.proposal.call_id()
}

fn three(gates: impl Fn(&Question, &Run) -> Vec<GateVerdict> + 'static) -> World {
    let mut world = World::asked(RunLimits::default()).with_gates(gates);
    world.reply(&[("a", "act", "{}"), ("b", "act", "{}"), ("c", "act", "{}")]);
    world
}

#[test]
fn g1_every_call_that_was_checked_is_asked_about() {
    let world = World::calling(&[("a", "look", "{}"), ("b", "typed", "{}"), ("c", "act", "{}")]);
    let gated = world.events.iter().filter_map(|event| match event {
        Event::CallGated { call_id, .. } => Some(call_id.as_str()),
        _ => None,
    });
    assert_eq!(gated.collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn g2_all_answers_are_recorded_and_the_severest_stands() {
    let world =
        three(|q, _| if id(q) == "a" { vec![allow("x"), deny("y"), suspend("z")] } else { vec![allow("x")] });
    let recorded = world.events.iter().find_map(|event| match event {
        Event::CallGated { call_id, verdicts } if call_id == "a" => Some(verdicts.len()),
        _ => None,
    });
    assert_eq!((recorded, world.code("a")), (Some(3), Some(Code::Denied)));
    assert_eq!(world.running(), ["b", "c"]);
}

#[test]
fn g3_no_gate_at_all_means_deny() {
    let world = three(|_, _| Vec::new());
    for call in ["a", "b", "c"] {
        assert_eq!(world.code(call), Some(Code::Denied));
    }
}

#[test]
fn g4_block_ends_the_run_and_answers_what_is_after_and_what_is_parked() {
    let mut world = three(|q, _| match id(q) {
        "a" => vec![suspend("x")],
        "b" => vec![block("x")],
        _ => vec![allow("x")],
    });
    assert_eq!(world.status(), &RunStatus::Blocked { reason: "stop".to_owned() });
    let codes = ["a", "b", "c"].map(|call| world.code(call));
    assert_eq!(codes, [Some(Code::NotRun), Some(Code::Blocked), Some(Code::NotRun)]);
    assert_eq!(world.answers().len(), 3);
    assert!(world.under_way.is_empty());
    assert!(world.decide("d", "a", tollgate_agent::run::DecisionAnswer::Cancel).is_err());
}

#[test]
fn g4_deny_answers_suspend_parks_set_result_answers_and_others_go_on() {
    let mut world = World::asked(RunLimits::default()).with_gates(|q, _| match id(q) {
        "a" => vec![deny("x")],
        "b" => vec![suspend("x")],
        "c" => vec![GateVerdict::new("x", Verdict::SetResult(Box::new(ToolResult::success("cached"))))],
        _ => vec![allow("x")],
    });
    world.reply(&[("a", "act", "{}"), ("b", "act", "{}"), ("c", "act", "{}"), ("d", "act", "{}")]);
    assert_eq!(world.running(), ["d"]);
    assert_eq!((world.code("a"), world.code("c")), (Some(Code::Denied), None));
    world.end("d", done("D"));
    assert!(world.is_waiting());
    world.resume("1", "b", json!(true));
    world.end("b", done("B"));
    assert_eq!(world.answer("c"), "cached");
    assert!(world.answer("a").contains("denied: no"));
}

fn guarded(question: &Question, run: &Run) -> Vec<GateVerdict> {
    let unlocked = run.state().get("kit.city") == Some(&json!("open"));
    if id(question) == "guarded" && !unlocked { vec![deny("lock")] } else { vec![allow("lock")] }
}

#[test]
fn g5_unlock_then_guarded_works_in_one_turn_and_the_other_way_round_does_not() {
    let mut world = World::asked(RunLimits::default()).with_gates(guarded);
    world.reply(&[("unlock", "act", "{}"), ("guarded", "act", "{}")]);
    assert_eq!(world.running(), ["unlock"]);
    world.end("unlock", sets("city", json!("open")));
    assert_eq!(world.running(), ["guarded"]);
    assert_eq!(world.execution("guarded").snapshot.revision(), 1);

    let mut world = World::asked(RunLimits::default()).with_gates(guarded);
    world.reply(&[("guarded", "act", "{}"), ("unlock", "act", "{}")]);
    assert_eq!((world.running(), world.code("guarded")), (vec!["unlock"], Some(Code::Denied)));
}

#[test]
fn g5_a_call_that_was_allowed_can_become_blocked() {
    let mut world = three(|q, run| match id(q) {
        "b" if run.state().revision() == 0 => vec![deny("x")],
        "c" if run.state().revision() > 0 => vec![block("x")],
        _ => vec![allow("x")],
    });
    world.end("a", sets("city", json!("Bern")));
    assert_eq!(world.running(), ["b"], "c is held back now, so b is a batch");
    world.end("b", done("B"));
    assert_eq!(world.code("c"), Some(Code::Blocked));
}

#[test]
fn g5_with_a_concurrency_of_one_every_call_is_a_batch() {
    let limits = RunLimits { concurrency: 1, ..RunLimits::default() };
    let mut world = World::asked(limits).with_gates(guarded);
    world.reply(&[("x", "look", "{}"), ("y", "look", "{}"), ("guarded", "act", "{}")]);
    assert_eq!(world.running(), ["x"]);
    world.end("x", sets("count", json!(1)));
    assert_eq!((world.running(), world.execution("y").snapshot.revision()), (vec!["y"], 1));
    world.end("y", sets("city", json!("open")));
    world.end("guarded", done("in"));
    assert_eq!(world.code("guarded"), None);
}

#[test]
fn g6_a_gate_that_failed_denies_its_call_alone() {
    let mut world =
        three(|q, _| if id(q) == "b" { vec![allow("a"), deny("broken")] } else { vec![allow("a")] });
    world.end("a", done("A"));
    world.end("c", done("C"));
    assert_eq!(world.code("b"), Some(Code::Denied));
    assert!(world.is_asking());
}

#[test]
fn g8_what_goes_on_is_gated_again_and_gates_see_the_decision() {
    let mut world = World::asked(RunLimits::default()).with_gates(|q, _| match &q.resumption {
        Some(decided) if decided.value == json!("forbidden") => vec![suspend("ask"), deny("other")],
        _ => vec![suspend("ask"), allow("other")],
    });
    world.reply(&[("a", "act", "{}"), ("b", "act", "{}")]);
    world.resume("1", "a", json!("fine"));
    assert_eq!(world.running(), ["a"], "the question that was answered counts as allowed");
    world.resume("2", "b", json!("forbidden"));
    world.end("a", done("A"));
    assert_eq!(world.code("b"), Some(Code::Denied), "every other verdict stands");
}

#[test]
fn g8_the_questions_of_two_gates_are_each_asked_once() {
    let mut world =
        three(|q, _| if id(q) == "a" { vec![suspend("x"), suspend("y")] } else { vec![deny("x")] });
    world.resume("1", "a", json!(1));
    assert!(world.is_waiting(), "the second gate asks");
    assert_eq!(world.call("a").question().unwrap().gate.as_deref(), Some("y"));
    world.resume("2", "a", json!(2));
    assert_eq!(world.running(), ["a"]);
}

#[test]
fn g8_a_gates_question_is_not_repeated_after_the_tools_own() {
    let mut world = three(|q, _| if id(q) == "a" { vec![suspend("x")] } else { vec![deny("x")] });
    world.resume("1", "a", json!("by the gate"));
    assert_eq!(world.execution("a").resume, None, "the tool has asked nothing yet");
    world.end("a", pends(Ticket::confirm("Overwrite?")));
    assert!(world.is_waiting());
    world.resume("2", "a", json!("by the tool"));
    let shown = world.execution("a").resume.clone().unwrap();
    assert_eq!((&shown.message, &shown.value), (&"Overwrite?".to_owned(), &json!("by the tool")));
}

#[test]
fn g8_a_tool_keeps_the_answer_to_its_own_question() {
    let mut world = World::asked(RunLimits::default()).with_gates(|q, run| {
        if run.state().revision() == 0 || q.resumption.is_none() {
            vec![allow("x")]
        } else {
            vec![suspend("x")]
        }
    });
    world.reply(&[("a", "act", "{}")]);
    let asks = crate::world::writes(ToolResult::suspended("Overwrite?"), &[("city", json!("Bern"))]);
    world.end("a", asks);
    world.resume("1", "a", json!("yes"));
    assert!(world.is_waiting(), "the gate asks on the new state");
    world.resume("2", "a", json!("granted"));
    assert_eq!(world.execution("a").resume.as_ref().unwrap().value, json!("yes"));
}

#[test]
fn g8_a_supplied_result_that_waits_is_asked_once() {
    let pending = || Verdict::SetResult(Box::new(ToolResult::suspended("Really?")));
    let mut world =
        three(
            move |q, _| if id(q) == "a" { vec![GateVerdict::new("x", pending())] } else { vec![deny("x")] },
        );
    assert_eq!(world.call("a").question().unwrap().ticket.message, "Really?");
    world.resume("1", "a", json!(null));
    assert_eq!(world.running(), ["a"]);
}
