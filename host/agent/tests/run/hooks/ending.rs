//! Tests of calls whose end is known while their hooks are still running.

use super::{asked, log, logs, writes};
use crate::world::{World, pends, sets};
use serde_json::json;
use tollgate_agent::code::Code;
use tollgate_agent::message::Message;
use tollgate_agent::outcome::Ticket;
use tollgate_agent::run::{DecisionAnswer, Effect, EffectKey, EndedCall, Input, RunStatus};
use tollgate_agent::state::{KeyUpdate, StateChange};

/// Creates a run in which the hooks after calls do not answer at once.
fn with_slow_hooks(calls: &[(&str, &str, &str)]) -> World {
    let mut world = asked();
    world.after = None;
    world.reply(calls);
    world
}

fn hooked(world: &mut World, call_id: &str) {
    let key = EffectKey::After(call_id.into());
    let Some(Effect::After(EndedCall { call_id, .. })) = world.under_way.remove(&key) else {
        panic!("no hook after {call_id} is asked")
    };
    let answers = vec![logs(&format!("after {call_id}"))];
    world.give(Input::Hooked { call_id, answers });
    world.pass_gates();
}

#[test]
fn h3_what_a_call_returned_is_recorded_before_hooks_and_survives_a_crash() {
    let mut world = with_slow_hooks(&[("a", "act", "{}"), ("b", "act", "{}")]);
    world.end("b", sets("count", json!(1)));
    world.end("a", sets("count", json!(2)));
    assert_eq!(world.run.state().revision(), 0, "nothing commits before the hooks");
    world.crash();
    assert!(world.running().is_empty(), "neither runs again");
    hooked(&mut world, "a");
    world.crash();
    hooked(&mut world, "b");
    assert_eq!((world.code("a"), world.code("b")), (None, None));
    assert_eq!(world.run.state().get("kit.count"), Some(&json!(3)));
    assert_eq!(
        log(&world),
        json!(["before a", "after a", "before b", "after b"]),
        "s5: in the order of the calls"
    );
}

#[test]
fn h3_what_does_not_persist_is_in_no_record() {
    let mut world = asked();
    world.before = Box::new(|_| writes("keeper.fleeting", json!("secret")));
    world.after = None;
    world.reply(&[("a", "act", "{}")]);
    world.end("a", sets("fleeting", json!("secret")));
    let recorded = serde_json::to_string(&world.events).unwrap();
    assert!(!recorded.contains("secret"), "s6: {recorded}");
    world.crash();
    hooked(&mut world, "a");
    assert_eq!((world.code("a"), log(&world)), (None, json!(["after a"])));
}

#[test]
fn h3_a_change_of_others_while_hooks_are_asked_is_a_conflict() {
    let mut world = with_slow_hooks(&[("a", "look", "{}")]);
    world.end("a", sets("city", json!("Bern")));
    let updates = [KeyUpdate::restored("kit.city", json!("Rome"))].into();
    world.absorb(&StateChange { revision: 1, updates });
    hooked(&mut world, "a");
    assert_eq!(world.code("a"), Some(Code::StateConflict), "the hooks saw its end: it does not run again");
    assert_eq!(
        (log(&world), world.run.state().get("kit.city")),
        (json!(["before a", "after a"]), Some(&json!("Rome")))
    );
}

#[test]
fn h1_a_cancelled_run_ends_when_the_hooks_after_its_calls_have_answered() {
    let mut world = with_slow_hooks(&[("a", "act", "{}"), ("b", "act", "{}")]);
    world.end("a", sets("city", json!("Bern")));
    world.give(Input::Cancel { reason: "enough".to_owned() });
    assert!(world.run.is_cut_short() && world.running().is_empty());
    world.give(Input::Cancel { reason: "once more".to_owned() });
    world.crash();
    hooked(&mut world, "b");
    assert!(!world.run.is_finished());
    hooked(&mut world, "a");
    assert_eq!(world.status(), &RunStatus::Cancelled { reason: "enough".to_owned() });
    assert_eq!((world.code("a"), world.code("b")), (None, Some(Code::Cancelled)), "a had returned");
    assert_eq!(log(&world), json!(["before b", "after b", "before a", "after a"]));
}

#[test]
fn h1_a_call_that_waits_and_is_ended_has_its_hooks() {
    let waiting = || {
        let mut world = with_slow_hooks(&[("a", "act", "{}")]);
        world.end("a", pends(Ticket::confirm("Sure?")));
        world
    };
    let mut cancelled = waiting();
    cancelled.decide("d", "a", DecisionAnswer::Cancel).unwrap();
    assert!(cancelled.decide("e", "a", DecisionAnswer::Resume(json!(1))).is_err(), "w5");
    hooked(&mut cancelled, "a");
    assert_eq!((cancelled.code("a"), cancelled.is_asking()), (Some(Code::Cancelled), true));

    let mut superseded = waiting();
    superseded.give(Input::Message("Never mind.".to_owned()));
    assert!(superseded.try_give(Input::Message("Hello?".to_owned())).is_err());
    hooked(&mut superseded, "a");
    assert_eq!((superseded.code("a"), superseded.is_asking()), (Some(Code::Superseded), true));
    let last = superseded.run.messages().last().cloned();
    assert_eq!(last, Some(Message::User("Never mind.".to_owned())), "after the turn that it ended");
}
