//! Tests of state: snapshots, commits in the order of the calls, conflicts.

use crate::world::{World, allow, deny, done, faults, sets, writes};
use serde_json::{Value, json};
use tollgate_agent::code::Code;
use tollgate_agent::outcome::{Mutation, ToolResult};
use tollgate_agent::run::{Event, RunLimits};
use tollgate_agent::state::change::{MAX_VALUE_BYTES, propose};
use tollgate_agent::state::{Access, KeyDefinition, KeyScope, KeySet, Reducer, State};

fn value(world: &World, key: &str) -> Option<Value> {
    world.run.state().get(&format!("kit.{key}")).cloned()
}

#[test]
fn s1_the_calls_of_a_batch_see_the_state_as_it_was_when_the_batch_began() {
    let limits = RunLimits { concurrency: 2, ..RunLimits::default() };
    let mut world = World::asked(limits);
    world.reply(&[("a", "act", "{}"), ("b", "act", "{}"), ("c", "act", "{}")]);
    world.end("a", sets("city", json!("Bern")));
    assert_eq!(world.run.state().revision(), 1);
    let late = &world.execution("c").snapshot;
    assert_eq!((late.revision(), late.get(world.catalog.keys(), "kit.city")), (0, Some(&json!(""))));
}

#[test]
fn s2_a_refused_mutation_fails_the_call_and_none_commits() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "act", "{}"), ("c", "act", "{}")]);
    let good = ("city", json!("Bern"));
    world.end("a", writes(ToolResult::success("x"), &[good.clone(), ("locked", json!(1))]));
    world.end("b", writes(ToolResult::success("x"), &[good.clone(), ("count", json!("many"))]));
    world.end("c", writes(ToolResult::success("x"), &[good, ("unknown", json!(1))]));
    for call in ["a", "b", "c"] {
        assert_eq!(world.code(call), Some(Code::BadMutation));
    }
    assert_eq!((value(&world, "city"), world.run.state().revision()), (None, 0));
}

#[test]
fn s4_what_returned_early_is_recorded_at_once_and_applied_with_its_result() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "act", "{}")]);
    let events = world.end("b", sets("city", json!("Bern")));
    assert!(matches!(&events[..], [Event::CallReturned { call_id, .. }] if call_id == "b"));
    assert_eq!(world.run.state().revision(), 0);
    let events = world.end("a", sets("count", json!(2)));
    let finished = events.iter().filter_map(|event| match event {
        Event::CallFinished(f) => Some((f.call_id.as_str(), f.change.as_ref().unwrap().revision)),
        _ => None,
    });
    assert_eq!(finished.collect::<Vec<_>>(), [("a", 1), ("b", 2)]);
}

#[test]
fn s4_null_is_a_value_and_survives_the_record() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    world.end("a", sets("city", json!("Bern")));
    world.reply(&[("b", "act", "{}")]);
    world.end("b", sets("city", Value::Null));
    world.crash();
    assert_eq!(value(&world, "city"), Some(Value::Null));
}

#[test]
fn s5_calls_are_applied_in_their_order_whatever_order_they_end_in() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "act", "{}"), ("c", "act", "{}")]);
    for call in ["c", "a", "b"] {
        world.end(call, sets("items", json!(call)));
    }
    assert_eq!(value(&world, "items"), Some(json!(["a", "b", "c"])));
}

#[test]
fn s5_commuting_updates_and_disjoint_patches_never_conflict() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "act", "{}")]);
    let patch = |member: &str| {
        let both = [("doc", json!({ member: 1 })), ("count", json!(2)), ("tally", json!(1))];
        writes(ToolResult::success("x"), &both)
    };
    world.end("a", patch("a"));
    world.end("b", patch("b"));
    assert_eq!(
        (value(&world, "doc"), value(&world, "count")),
        (Some(json!({"a": 1, "b": 1})), Some(json!(4)))
    );
}

#[test]
fn s5_commuting_updates_do_not_conflict_after_a_restart_either() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "look", "{}")]);
    world.end("a", sets("tally", json!(1)));
    world.crash();
    world.end("b", sets("tally", json!(1)));
    assert_eq!(world.code("b"), None);
    assert_eq!(world.answers().len(), 2, "b did not run a third time");
}

#[test]
fn s5_on_a_conflict_an_idempotent_call_is_gated_and_run_again() {
    let mut world = World::calling(&[("a", "look", "{}"), ("b", "look", "{}"), ("c", "look", "{}")]);
    world.end("a", sets("city", json!("Bern")));
    world.end("b", sets("city", json!("Rome")));
    world.end("c", sets("count", json!(1)));
    let again = world.execution("b");
    assert_eq!((again.attempt, again.snapshot.revision()), (2, 2), "b runs again on the new state");
    let gated =
        world.events.iter().filter(|e| matches!(e, Event::CallGated { call_id, .. } if call_id == "b"));
    assert_eq!(gated.count(), 2);
    world.end("b", sets("city", json!("Rome")));
    assert_eq!(value(&world, "city"), Some(json!("Rome")));
}

#[test]
fn s5_a_rerun_may_be_held_back() {
    let mut world = World::asked(RunLimits::default()).with_gates(|q, run| {
        if q.proposal.call_id() == "b" && run.state().revision() > 0 {
            vec![deny("x")]
        } else {
            vec![allow("x")]
        }
    });
    world.reply(&[("a", "look", "{}"), ("b", "look", "{}")]);
    world.end("b", sets("city", json!("Rome")));
    world.end("a", sets("city", json!("Bern")));
    assert_eq!((world.code("b"), value(&world, "city")), (Some(Code::Denied), Some(json!("Bern"))));
}

#[test]
fn s5_a_call_that_may_not_run_twice_fails_as_state_conflict() {
    let conflict = |tool| {
        let mut world = World::calling(&[("a", "act", "{}"), ("b", tool, "{}")]);
        world.end("a", sets("city", json!("Bern")));
        world.end("b", sets("city", json!("Rome")));
        assert_eq!(value(&world, "city"), Some(json!("Bern")));
        world
    };
    assert_eq!(conflict("act").code("b"), Some(Code::StateConflict));
    assert_eq!(
        conflict("once").execution("b").attempt,
        2,
        "a tool without retries is idempotent all the same"
    );
}

#[test]
fn s5_others_who_write_the_thread_conflict_by_key() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "act", "{}")]);
    let mut other = World::calling(&[("x", "act", "{}")]);
    let events = other.end("x", sets("city", json!("Oslo")));
    let change = events.iter().find_map(Event::change).unwrap();
    world.absorb(change);
    world.end("a", sets("city", json!("Bern")));
    world.end("b", sets("count", json!(1)));
    assert_eq!((world.code("a"), world.code("b")), (Some(Code::StateConflict), None));
    assert_eq!(world.run.state().revision(), 2);
}

#[test]
fn s6_after_a_restart_keys_that_do_not_persist_are_at_their_initial_value() {
    let mut world = World::calling(&[("a", "act", "{}")]);
    world.end("a", writes(ToolResult::success("x"), &[("fleeting", json!(7)), ("city", json!("Bern"))]));
    assert_eq!(value(&world, "fleeting"), Some(json!(7)));
    world.crash();
    assert_eq!((value(&world, "fleeting"), value(&world, "city")), (None, Some(json!("Bern"))));
}

#[test]
fn s6_what_an_early_call_proposes_to_keys_that_do_not_persist_is_in_no_record() {
    let both = || writes(ToolResult::success("x"), &[("fleeting", json!("secret")), ("city", json!("Bern"))]);
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "act", "{}")]);
    let told = world.end("b", both());
    let line = serde_json::to_string(&told).unwrap();
    assert!(line.contains("Bern") && !line.contains("secret"), "{line}");
    world.end("a", done("A"));
    assert_eq!(
        (value(&world, "fleeting"), value(&world, "city")),
        (Some(json!("secret")), Some(json!("Bern")))
    );
}

#[test]
fn t6_one_calls_failure_leaves_its_siblings_alone() {
    let mut world = World::calling(&[("a", "act", "{}"), ("b", "act", "{}"), ("c", "act", "{}")]);
    world.end("a", faults(Code::Trapped));
    world.end("c", sets("count", json!(1)));
    world.end("b", done("B"));
    assert_eq!((world.code("b"), world.code("c"), value(&world, "count")), (None, None, Some(json!(1))));
}

#[test]
fn s2_only_what_a_key_comes_to_has_to_be_small_enough() {
    let (mut keys, mut access) = (KeySet::default(), Access::default());
    let key = KeyDefinition::new("t.doc", json!({}), None, Reducer::MergePatch, KeyScope::Thread, true);
    keys.insert(key.unwrap()).unwrap();
    access.allow("t.doc", true, true);
    let nearly_full = json!({"old": "x".repeat(MAX_VALUE_BYTES - 100)});
    let state = State::restored(1, [("t.doc".to_owned(), nearly_full)]);
    let update = |update: Value| Mutation { key: "t.doc".to_owned(), update };
    let (grows, shrinks) = (update(json!({"new": "y".repeat(200)})), update(json!({"old": null})));
    let proposed = |mutations: &[Mutation]| propose(&keys, &access, &state.snapshot(), mutations);
    assert!(proposed(&[grows.clone(), shrinks]).is_ok());
    assert_eq!(proposed(&[grows]).unwrap_err().code, Code::BadMutation);
}
