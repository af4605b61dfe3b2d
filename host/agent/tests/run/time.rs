//! Attempts, retries, and how much runs at once.

use crate::world::{World, done, faults};
use tollgate_agent::code::Code;
use tollgate_agent::run::{Event, RunLimits};

#[test]
fn t1_an_attempt_has_the_runs_time_under_the_ceiling() {
    let limits = RunLimits { timeout_ms: 70_000, timeout_ceiling_ms: 60_000, ..RunLimits::default() };
    let mut world = World::asked(limits);
    world.reply(&[("a", "look", "{}")]);
    assert_eq!(world.execution("a").timeout_ms, 60_000);
}

#[test]
fn t4_a_timeout_of_an_idempotent_tool_is_tried_again_half_a_second_later() {
    let mut world = World::calling(&[("a", "look", "{}")]);
    let first = world.execution("a").snapshot.clone();
    for attempt in 2..=4 {
        world.now_ms += 10_000;
        world.end("a", faults(Code::TimedOut));
        let again = world.execution("a");
        assert_eq!((again.attempt, again.not_before_ms), (attempt, world.now_ms + 500));
        assert_eq!(again.snapshot, first, "on the same snapshot");
    }
    world.end("a", faults(Code::TimedOut));
    assert_eq!(world.code("a"), Some(Code::TimedOut));
    let retried = world.events.iter().filter(|e| matches!(e, Event::CallRetried { .. })).count();
    assert_eq!((retried, world.run.usage().tools.attempts), (3, 4));
}

#[test]
fn t4_other_failures_and_other_tools_are_not_tried_again() {
    for (tool, code) in [
        ("look", Code::Trapped),
        ("look", Code::ToolFailed),
        ("act", Code::TimedOut),
        ("once", Code::TimedOut),
    ] {
        let mut world = World::calling(&[("a", tool, "{}")]);
        world.end("a", faults(code));
        assert_eq!(world.code("a"), Some(code), "{tool}");
    }
}

#[test]
fn t4_a_late_answer_of_an_attempt_that_was_replaced_is_dropped() {
    let mut world = World::calling(&[("a", "look", "{}")]);
    let first = tollgate_agent::run::Input::Attempted {
        call_id: "a".into(),
        attempt: 1,
        outcome: std::sync::Arc::new(done("late")),
        usage: Default::default(),
        taken: None,
    };
    world.end("a", faults(Code::TimedOut));
    assert_eq!(world.give(first).len(), 0);
    world.end("a", done("second"));
    assert_eq!(world.answer("a"), "second");
}

#[test]
fn t5_at_most_so_many_run_at_once_and_a_slow_first_delays_nobody() {
    let limits = RunLimits { concurrency: 2, ..RunLimits::default() };
    let mut world = World::asked(limits);
    world.reply(&[("a", "act", "{}"), ("b", "act", "{}"), ("c", "act", "{}"), ("d", "act", "{}")]);
    assert_eq!(world.running(), ["a", "b"]);
    world.end("b", done("B"));
    assert_eq!(world.running(), ["a", "c"]);
    world.end("c", done("C"));
    assert_eq!(world.running(), ["a", "d"]);
    world.end("d", done("D"));
    let events = world.end("a", done("A"));
    let ended: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            Event::CallFinished(f) => Some(f.call_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(ended, ["a", "b", "c", "d"]);
}

#[test]
fn t5_five_run_at_once_where_nothing_is_said() {
    let calls: Vec<String> = (0..8).map(|n| format!("c{n}")).collect();
    let calls: Vec<_> = calls.iter().map(|id| (id.as_str(), "look", "{}")).collect();
    assert_eq!(World::calling(&calls).running().len(), 5);
}
