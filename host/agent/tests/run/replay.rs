//! Tests of the replay of records.

use crate::world::{World, done, faults, sets, suspend};
use serde_json::json;
use std::sync::Arc;
use tollgate_agent::code::Code;
use tollgate_agent::gate::PERMISSIONS_ID;
use tollgate_agent::outcome::{Outcome, Usage};
use tollgate_agent::recorded_inputs::{Reading, RecordedInputs};
use tollgate_agent::run::replay::{Finding, RepeatedOutcome, Replay};
use tollgate_agent::run::{Event, Input, RunLimits, StoredEvent};
use tollgate_agent::state::{KeyUpdate, StateChange};

/// Replays the world's record with these outcomes for the attempts, in order.
fn replay(world: &World, mut outcomes: Vec<Outcome>) -> Vec<(String, Finding)> {
    outcomes.reverse();
    let mut replay = Replay::default();
    let mut found = Vec::new();
    for (number, event) in (1..).zip(&world.events) {
        let recorded = StoredEvent { run_id: Arc::from("r"), number, at_ms: 1_000, event: event.clone() };
        assert_eq!(replay.base_revision(event), None, "there was no other writer");
        if let Some(attempt) = replay.ended_by(event) {
            let finding = match replay.inputs(&attempt, event, &world.catalog) {
                Err(why) => Finding::NotReplayable { why },
                Ok((execution, taken)) => {
                    assert_eq!(execution.attempt, attempt.attempt);
                    let outcome = Arc::new(outcomes.pop().unwrap());
                    let usage = Usage { attempts: 1, wall_us: 77, ..Usage::default() };
                    let taken = Some(taken).filter(|taken| !taken.is_nothing());
                    replay.judge(
                        &attempt,
                        &recorded,
                        &world.catalog,
                        &RepeatedOutcome { outcome, usage, taken },
                    )
                }
            };
            found.push((attempt.call_id.to_string(), finding));
        }
        replay.pass(event).unwrap();
    }
    found
}

fn place(finding: &Finding) -> &str {
    match finding {
        Finding::Differs(difference) => &difference.place,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_outcomes_are_found_the_same_and_others_with_their_place() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "look", "{}")]);
    world.end("b", done("early"));
    world.end("a", sets("city", json!("Bern")));
    let same = replay(&world, vec![done("early"), sets("city", json!("Bern"))]);
    assert_eq!(same, [("b".to_owned(), Finding::Same), ("a".to_owned(), Finding::Same)]);

    let other = replay(&world, vec![done("late"), sets("city", json!("Rom"))]);
    assert_eq!(place(&other[0].1), "/outcome/returned/result/data");
    assert_eq!(place(&other[1].1), "/change/updates/0/update");
    let faulty = replay(&world, vec![done("early"), faults(Code::Trapped)]);
    assert_eq!(place(&faulty[1].1), "/end/result");
}

#[test]
fn what_time_or_a_person_ended_is_not_judged() {
    let mut world = World::calling(&[("a", "look", "{}")]);
    world.give(Input::Cancel { reason: "enough".to_owned() });
    let found = replay(&world, Vec::new());
    assert!(matches!(&found[0].1, Finding::NotReplayable { why } if why.contains("cancelled")), "{found:?}");
    let mut world = World::calling(&[("a", "look", "{}")]);
    world.end("a", done("seen"));
    let slow = replay(&world, vec![faults(Code::TimedOut)]);
    assert!(matches!(&slow[0].1, Finding::NotReplayable { .. }), "{slow:?}");
}

#[test]
fn what_an_attempt_took_is_given_to_it_again_or_refused() {
    for (taken, replayable) in [
        (RecordedInputs { readings: vec![(Reading::Wall(5), 2)], ..RecordedInputs::default() }, true),
        (RecordedInputs { lost_readings: 1, ..RecordedInputs::default() }, false),
        (RecordedInputs { powers: vec!["files".to_owned()], ..RecordedInputs::default() }, false),
    ] {
        let mut world = World::calling(&[("a", "look", "{}")]);
        world.end_after_taking("a", done("seen"), taken);
        assert!(world.events.iter().any(|event| matches!(event, Event::CallTook { .. })));
        let found = replay(&world, vec![done("seen")]);
        assert_eq!(found[0].1 == Finding::Same, replayable, "{found:?}");
    }
}

#[test]
fn changes_of_others_are_missed_and_taken_over() {
    let mut replay = Replay::default();
    let batch = Event::BatchStarted { call_ids: Vec::new(), revision: 2 };
    assert_eq!(replay.base_revision(&batch), Some(2));
    for revision in 1..=2 {
        let updates = [KeyUpdate::restored("kit.city", json!(revision))].into();
        replay.absorb(&StateChange { revision, updates });
    }
    assert_eq!(replay.base_revision(&batch), None);
    assert_eq!(replay.run().state().get("kit.city"), Some(&json!(2)));
}

#[test]
fn w4_what_is_remembered_of_an_answer_builds_on_what_others_wrote_before() {
    let mut world = World::asked(RunLimits::default()).with_gates(|_, _| vec![suspend(PERMISSIONS_ID)]);
    world.reply(&[("a", "look", "{}")]);
    let theirs =
        StateChange { revision: 1, updates: [KeyUpdate::restored("kit.city", json!("Rome"))].into() };
    world.absorb(&theirs);
    world.resume("1", "a", json!({"remember": "thread"}));
    let mut replay = Replay::default();
    for event in &world.events {
        if let Some(until) = replay.base_revision(event) {
            assert_eq!((until, matches!(event, Event::CallDecided { .. })), (1, true));
            replay.absorb(&theirs);
        }
        replay.pass(event).unwrap();
    }
    let state = replay.run().state();
    assert_eq!((state.revision(), state.get("kit.city")), (2, Some(&json!("Rome"))));
}
