//! A process that ends, and one that takes up its record.

use crate::world::{World, done, faults, reply, sets};
use serde_json::json;
use tollgate_agent::code::Code;
use tollgate_agent::message::Finish;
use tollgate_agent::run::RunLimits;

#[test]
fn l5_what_may_have_run_is_interrupted_and_the_idempotent_runs_again() {
    let limits = RunLimits { concurrency: 2, ..RunLimits::default() };
    let mut world = World::asked(limits);
    world.reply(&[("a", "look", "{}"), ("b", "act", "{}"), ("c", "act", "{}")]);
    world.crash();
    assert_eq!(world.execution("a").attempt, 2);
    assert_eq!(world.execution("c").attempt, 1, "what had not begun begins");
    world.end("a", done("A"));
    assert_eq!(world.code("b"), Some(Code::Interrupted));
    world.end("c", done("C"));
    assert_eq!(world.code("c"), None);
}

#[test]
fn t4_a_rerun_after_a_restart_counts_as_an_attempt() {
    let mut world = World::calling(&[("a", "look", "{}")]);
    for attempt in 2..=4 {
        world.crash();
        assert_eq!(world.execution("a").attempt, attempt);
    }
    world.crash();
    assert_eq!(world.code("a"), Some(Code::Interrupted));
}

#[test]
fn s4_what_was_returned_before_the_restart_is_applied_after_it() {
    let mut world = World::calling(&[("a", "look", "{}"), ("b", "act", "{}")]);
    world.end("b", sets("city", json!("Bern")));
    world.crash();
    assert_eq!(world.running(), ["a"]);
    world.end("a", done("A"));
    assert_eq!((world.code("b"), world.run.state().get("kit.city")), (None, Some(&json!("Bern"))));
}

#[test]
fn s5_a_rerun_for_a_conflict_meets_the_gate_after_a_restart_too() {
    let mut world = World::calling(&[("a", "look", "{}"), ("b", "look", "{}"), ("c", "act", "{}")]);
    world.end("a", sets("city", json!("Bern")));
    world.end("b", sets("city", json!("Rome")));
    let events = world.crash();
    assert_eq!(world.running(), Vec::<&str>::new(), "b waits for its judgement: {events:?}");
    world.pass_gates();
    assert_eq!((world.running(), world.code("c")), (vec!["b"], Some(Code::Interrupted)));
}

#[test]
fn l8_ids_stay_unique_over_a_restart() {
    let mut world = World::calling(&[("x", "look", "{}")]);
    world.end("x", done("X"));
    world.crash();
    world.reply(&[("x", "look", "{}")]);
    assert_ne!(world.run.calls()[0].id, "x");
}

#[test]
fn e1_a_restart_between_any_two_steps_asks_for_the_same() {
    let mut world = World::asked(RunLimits::default());
    assert_eq!(world.crash().len(), 0);
    assert!(world.is_asking());
    world.reply_as(reply("", &[("a", "checks", "{}"), ("b", "act", "{}")], Finish::Stop));
    world.crash();
    world.pass_gates();
    assert_eq!(world.running(), ["a", "b"]);
    world.end("a", faults(Code::Trapped));
    world.end("b", done("B"));
    world.crash();
    world.say("Done.");
    assert_eq!(world.final_text(), "Done.");
}
