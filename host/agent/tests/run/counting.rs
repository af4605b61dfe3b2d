//! Tests of the number of earlier calls that gates receive.

use crate::world::{World, allow, deny, done, pends};
use tollgate_agent::code::Code;
use tollgate_agent::outcome::Ticket;
use tollgate_agent::run::RunLimits;

/// Allows at most two calls of each tool.
fn budget() -> World {
    World::asked(RunLimits::default()).with_gates(|question, _| {
        vec![if question.calls_before.of_tool < 2 { allow("budget") } else { deny("budget") }]
    })
}

#[test]
fn g1_calls_of_one_batch_count_for_those_after_them() {
    let mut world = budget();
    world.reply(&[("a", "act", "{}"), ("b", "act", "{}"), ("c", "act", "{}"), ("d", "look", "{}")]);
    assert_eq!(world.running(), ["a", "b"]);
    world.end("a", done("ok"));
    world.end("b", done("ok"));
    assert_eq!(world.code("c"), Some(Code::Denied));
    assert_eq!(world.running(), ["d"]);
}

#[test]
fn g1_calls_of_earlier_turns_count_and_denied_ones_do_not() {
    let mut world = budget();
    world.reply(&[("a", "act", "{}")]);
    world.end("a", done("ok"));
    world.reply(&[("b", "act", "{}"), ("c", "act", "{}")]);
    world.end("b", done("ok"));
    assert_eq!(world.code("c"), Some(Code::Denied));
    world.reply(&[("d", "look", "{}")]);
    assert_eq!(world.running(), ["d"]);
}

#[test]
fn g1_a_call_does_not_count_for_itself() {
    let mut world = World::asked(RunLimits::default()).with_gates(|question, _| {
        vec![if question.calls_before.in_run < 1 { allow("once") } else { deny("once") }]
    });
    world.reply(&[("a", "act", "{}")]);
    world.end("a", pends(Ticket::confirm("Go on?")));
    world.resume("d1", "a", serde_json::json!(true));
    assert_eq!(world.running(), ["a"], "it was let through once, and is asked about again");
}
