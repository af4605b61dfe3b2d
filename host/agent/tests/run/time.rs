//! Tests of attempts, retries and the limit on concurrent calls.

use crate::world::{World, done, faults, sets, stopped};
use serde_json::json;
use tollgate_agent::code::Code;
use tollgate_agent::outcome::Usage;
use tollgate_agent::run::event::FinishedCall;
use tollgate_agent::run::{CallEnd, Event, Input, RunLimits, Task};

fn finished(world: &World) -> &FinishedCall {
    let ends = world.events.iter().rev().find_map(|event| match event {
        Event::CallFinished(finished) => Some(finished.as_ref()),
        _ => None,
    });
    ends.unwrap()
}

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
fn t1_all_attempts_of_a_call_and_their_pauses_stay_within_the_ceiling() {
    let limits = RunLimits { timeout_ms: 10_000, timeout_ceiling_ms: 15_000, ..RunLimits::default() };
    let mut world = World::asked(limits);
    world.reply(&[("a", "look", "{}")]);
    let until_ms = world.now_ms + 15_000;
    assert_eq!(world.execution("a").until_ms, until_ms);
    world.now_ms += 10_000;
    world.end("a", faults(Code::TimedOut));
    let again = world.execution("a");
    assert_eq!((again.attempt, again.until_ms), (2, until_ms), "the second has what is left");
    world.now_ms += 4_600;
    world.end("a", faults(Code::TimedOut));
    assert_eq!((world.code("a"), finished(&world).usage.attempts), (Some(Code::TimedOut), 2));
    let CallEnd::Fault(fault) = &finished(&world).end else { panic!() };
    let detail = fault.detail.as_deref().unwrap();
    assert!(detail.contains("timeout_ceiling_ms = 15000"), "{detail}");
}

#[test]
fn t1_reruns_for_a_conflict_and_after_a_decision_have_the_time_that_the_call_has() {
    let limits = RunLimits { timeout_ceiling_ms: 20_000, ..RunLimits::default() };
    let mut world = World::asked(limits);
    world.reply(&[("a", "act", "{}"), ("b", "look", "{}")]);
    let until_ms = world.execution("b").until_ms;
    world.now_ms += 5_000;
    world.end("a", sets("city", json!("here")));
    world.end("b", sets("city", json!("there")));
    world.pass_gates();
    assert_eq!((world.execution("b").attempt, world.execution("b").until_ms), (2, until_ms));
    world.now_ms += 20_000;
    world.crash();
    assert!(world.execution("b").until_ms > world.now_ms, "time in which no host runs does not count");
}

#[test]
fn t1_a_direct_call_times_out_at_its_agents_wall_time() {
    let limits = RunLimits { wall_ms: 1_500, ..RunLimits::default() };
    let mut world = World::new();
    world.start(limits, Task::Call { tool_name: "look".into(), arguments: "{}".into() });
    world.pass_gates();
    let used = Usage { fuel: 7, wall_us: 9, attempts: 1, ..Usage::default() };
    let call_id = world.executions()[0].permit.call_id().clone();
    world.give(Input::CutShort { reason: None, stopped: vec![(call_id, used)] });
    assert_eq!(world.status(), &stopped("wall_ms"));
    let FinishedCall { end: CallEnd::Fault(fault), usage, .. } = finished(&world) else { panic!() };
    assert_eq!(fault.code, Code::TimedOut);
    assert!(fault.message.contains("wall_ms = 1500"), "{}", fault.message);
    assert_eq!(*usage, Usage { at_least: true, ..used });
}

#[test]
fn t8_what_a_call_used_is_the_sum_over_its_attempts() {
    let mut world = World::calling(&[("a", "look", "{}")]);
    world.end("a", faults(Code::TimedOut));
    world.end("a", faults(Code::TimedOut));
    world.end("a", done("third"));
    let finished = finished(&world);
    assert_eq!((finished.usage.attempts, finished.earlier.attempts), (3, 2));
    assert_eq!(finished.last_attempt().attempts, 1);
    assert_eq!(world.run.usage().tools.attempts, 3);
    // Records of earlier versions hold the usage of the last attempt alone.
    let old =
        json!({"call_id": "a", "tool_name": "look", "end": finished.end, "usage": finished.last_attempt()});
    let old: FinishedCall = serde_json::from_value(old).unwrap();
    assert_eq!(old.last_attempt().attempts, 1);
}

#[test]
fn z21_usage_of_a_call_that_was_cut_is_marked_as_the_least_that_it_can_be() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    world.give(Input::Cancel { reason: "the user left".to_owned() });
    let usage = finished(&world).usage;
    assert_eq!((usage.attempts, usage.at_least), (1, true));
    assert!(world.run.usage().tools.at_least, "the sum of the run is marked, too");
    let text = serde_json::to_string(&usage).unwrap();
    assert!(text.contains("\"at_least\":true"), "{text}");
    let old: Usage = serde_json::from_str(r#"{"fuel":1,"wall_us":2,"memory_bytes":3,"attempts":1}"#).unwrap();
    assert!(!old.at_least && !serde_json::to_string(&old).unwrap().contains("at_least"));
    let mut whole = World::calling(&[("a", "act", "{}")]);
    whole.end("a", done("all of it"));
    assert!(!finished(&whole).usage.at_least);
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
