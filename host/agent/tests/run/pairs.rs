//! Tests of combined scenarios: suspension with conflicts, cancellation with retries, a block after
//! earlier commits, a waiting child with a failing sibling.

use crate::world::{World, allow, block, done, faults, sets, suspend, writes};
use serde_json::json;
use tollgate_agent::code::Code;
use tollgate_agent::outcome::ToolResult;
use tollgate_agent::run::{CallStatus, Input, RunLimits, RunStatus};

fn city(world: &World) -> Option<&serde_json::Value> {
    world.run.state().get("kit.city")
}

fn asks_and_sets(value: &str) -> impl Into<tollgate_agent::outcome::Outcome> {
    writes(ToolResult::suspended("Sure?"), &[("city", json!(value))])
}

#[test]
fn s5_w6_what_a_suspended_call_committed_is_what_its_siblings_conflict_with() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "look", "{}"), ("c", "act", "{}")]);
    world.end("c", sets("city", json!("Oslo")));
    world.end("b", sets("city", json!("Rome")));
    world.end("a", asks_and_sets("Bern"));
    assert_eq!(city(&world), Some(&json!("Bern")), "l4: a pending result commits");
    assert_eq!(world.code("c"), Some(Code::StateConflict), "it may not run twice");
    let again = world.execution("b");
    assert_eq!((again.attempt, again.snapshot.revision()), (2, 1), "b runs again while a waits");
    assert!(!world.is_waiting(), "what can run runs");
    world.end("b", sets("city", json!("Rome")));
    assert!(world.is_waiting());
    world.resume("1", "a", json!(true));
    assert_eq!(world.execution("a").snapshot.get(world.catalog.keys(), "kit.city"), Some(&json!("Rome")));
    world.end("a", sets("city", json!("Bern at last")));
    assert_eq!((world.answers().len(), city(&world)), (3, Some(&json!("Bern at last"))));
}

#[test]
fn s5_w1_a_question_that_conflicts_is_not_asked_before_its_call_ran_on_the_new_state() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "look", "{}"), ("c", "act", "{}")]);
    world.end("b", asks_and_sets("Rome"));
    world.end("c", asks_and_sets("Oslo"));
    world.end("a", sets("city", json!("Bern")));
    assert!(world.call("b").question().is_none(), "nobody is asked about a state that is gone");
    assert_eq!((world.execution("b").attempt, world.code("c")), (2, Some(Code::StateConflict)));
    world.end("b", asks_and_sets("Rome"));
    assert!(world.is_waiting());
    assert_eq!(world.call("b").question().unwrap().suspension_id, "b/1");
    assert_eq!(city(&world), Some(&json!("Rome")));
}

#[test]
fn s5_w4_two_calls_that_are_resumed_together_conflict_like_any_two() {
    let mut world = World::asked(RunLimits::default()).with_gates(|_, _| vec![suspend("x")]);
    world.reply(&[("a", "act", "{}"), ("b", "look", "{}")]);
    world.resume("1", "b", json!(true));
    world.end("b", sets("city", json!("Rome")));
    world.resume("2", "a", json!(true));
    assert_eq!(world.execution("a").snapshot.revision(), 1, "it goes on with what the other left");
    world.end("a", sets("city", json!("Bern")));
    assert_eq!((world.code("a"), city(&world)), (None, Some(&json!("Bern"))));
}

#[test]
fn x3_t4_a_run_that_is_cancelled_between_two_attempts_answers_and_keeps_its_siblings() {
    let mut world = World::calling(&[("a", "look", "{}"), ("b", "act", "{}")]);
    world.end("b", sets("city", json!("Bern")));
    world.end("a", faults(Code::TimedOut));
    assert!(world.execution("a").not_before_ms > 0, "it waits for its second attempt");
    world.give(Input::Cancel { reason: "enough".to_owned() });
    assert!(world.under_way.is_empty(), "and does not begin it");
    assert_eq!((world.code("a"), world.answers().len()), (Some(Code::Cancelled), 2));
    assert!(matches!(world.status(), RunStatus::Cancelled { .. }));
}

#[test]
fn x3_s5_a_run_that_is_cancelled_between_a_conflict_and_the_rerun_changes_nothing_more() {
    let mut world = World::calling(&[("a", "look", "{}"), ("b", "look", "{}")]);
    world.end("a", sets("city", json!("Bern")));
    world.end("b", sets("city", json!("Rome")));
    assert_eq!(world.call("b").status(), CallStatus::Running);
    world.give(Input::Cancel { reason: "enough".to_owned() });
    assert_eq!((world.code("a"), world.code("b")), (None, Some(Code::Cancelled)));
    assert_eq!(city(&world), Some(&json!("Bern")));
}

#[test]
fn g4_s4_what_was_committed_before_a_block_stays() {
    let mut world = World::asked(RunLimits::default()).with_gates(|question, run| {
        match (question.proposal.call_id().as_str(), run.state().revision()) {
            ("b", 0) => vec![suspend("x")],
            ("c", 1..) => vec![block("x")],
            _ => vec![allow("x")],
        }
    });
    world.reply(&[("a", "act", "{}"), ("b", "act", "{}"), ("c", "act", "{}"), ("d", "act", "{}")]);
    world.end("a", sets("city", json!("Bern")));
    assert_eq!(world.running(), ["b"], "it is let through now, and c is not reached before it has ended");
    world.end("b", done("B"));
    assert_eq!(world.status(), &RunStatus::Blocked { reason: "stop".to_owned() });
    assert_eq!(
        (world.code("a"), world.code("b"), world.code("c"), world.code("d")),
        (None, None, Some(Code::Blocked), Some(Code::NotRun))
    );
    assert_eq!((city(&world), world.answers().len()), (Some(&json!("Bern")), 4));
    assert!(world.under_way.is_empty());
}
