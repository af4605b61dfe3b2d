//! Tests of runs that are ended from outside.

use crate::world::{World, done, faults, stopped, suspend};
use std::sync::Arc;
use tollgate_agent::code::Code;
use tollgate_agent::run::{EffectKey, Input, RunLimits, RunStatus};

fn cancel() -> Input {
    Input::Cancel { reason: "the user left".to_owned() }
}

#[test]
fn x3_cancelled_calls_are_answered_and_late_answers_are_dropped() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "look", "{}"), ("c", "look", "{}")]);
    world.end("b", done("B"));
    world.end("a", done("A"));
    world.give(cancel());
    assert_eq!(world.status(), &RunStatus::Cancelled { reason: "the user left".to_owned() });
    assert_eq!((world.code("a"), world.code("b"), world.code("c")), (None, None, Some(Code::Cancelled)));
    assert_eq!(world.answers().len(), 3);
    let late = Input::Attempted {
        call_id: "c".into(),
        attempt: 1,
        outcome: Arc::new(done("late")),
        usage: Default::default(),
        taken: None,
    };
    assert_eq!(world.give(late).len(), 0);
    assert!(world.under_way.is_empty());
}

#[test]
fn x3_a_run_may_be_cancelled_wherever_it_stands() {
    let mut asking = World::asked(RunLimits::default());
    asking.give(cancel());
    asking.status();
    let mut waiting = World::asked(RunLimits::default()).with_gates(|_, _| vec![suspend("x")]);
    waiting.reply(&[("a", "act", "{}")]);
    waiting.give(cancel());
    assert_eq!(waiting.code("a"), Some(Code::Cancelled));
    let mut retrying = World::calling(&[("a", "look", "{}")]);
    retrying.end("a", faults(Code::TimedOut));
    retrying.give(cancel());
    assert_eq!(retrying.code("a"), Some(Code::Cancelled));
}

#[test]
fn a2_wall_time_ends_the_run_as_stopped() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    world.give(Input::WallTimeUp);
    assert_eq!(world.status(), &stopped("wall_ms"));
    assert_eq!(world.answers().len(), 1);
}

#[test]
fn e3_every_path_has_one_end() {
    let mut failed = World::asked(RunLimits::default());
    let Some(EffectKey::Model(ask)) = failed.under_way.keys().next().cloned() else { panic!() };
    failed.give(Input::ModelFailed { ask, error: "401 Unauthorized".to_owned() });
    assert_eq!(failed.status(), &RunStatus::Failed { error: "401 Unauthorized".to_owned() });
    for input in
        [cancel(), Input::WallTimeUp, Input::Restarted, Input::ModelFailed { ask, error: String::new() }]
    {
        assert_eq!(failed.give(input).len(), 0);
    }
    assert!(failed.try_give(Input::Message("Hello?".to_owned())).is_err());
}

#[test]
fn e3_a_waiting_run_is_not_finished() {
    let mut world = World::asked(RunLimits::default()).with_gates(|_, _| vec![suspend("x")]);
    world.reply(&[("a", "act", "{}")]);
    assert!(world.is_waiting() && !world.run.is_finished());
}

#[test]
fn e1_events_are_numbered_without_gaps() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    world.end("a", done("A"));
    world.say("Done.");
    assert_eq!(world.run.events(), world.events.len() as u64);
}
