//! Tests of mutations that become one change or are refused.
#![allow(clippy::unwrap_used)]
use super::super::{KeyDefinition, KeyScope, Reducer, State};
use super::*;
use crate::limit_places::LimitPlaces;
use serde_json::json;

fn keys() -> (KeySet, Access) {
    let mut keys = KeySet::default();
    let mut access = Access::default();
    for (name, initial, schema, reducer) in [
        ("t.count", json!(0), Some(json!({"maximum": 10})), Reducer::Add),
        ("t.items", json!([]), None, Reducer::Append),
        ("t.city", json!(""), Some(json!({"type": "string"})), Reducer::Replace),
        ("other.key", json!(0), None, Reducer::Replace),
    ] {
        keys.insert(
            KeyDefinition::new(name, initial, schema, reducer, KeyScope::Thread, name != "t.city").unwrap(),
        )
        .unwrap();
        access.allow(name, true, name.starts_with("t."));
    }
    (keys, access)
}

fn mutation(key: &str, update: Value) -> Mutation {
    Mutation { key: key.to_owned(), update }
}

#[test]
fn s2_all_commit_or_none() {
    let (keys, access) = keys();
    let mut state = State::default();
    let good =
        [mutation("t.count", json!(3)), mutation("t.count", json!(4)), mutation("t.items", json!("a"))];
    let change = propose(&keys, &access, &state.snapshot(), &good).unwrap().unwrap();
    state.apply(&change);
    assert_eq!(
        (state.revision(), state.get("t.count"), state.get("t.items")),
        (1, Some(&json!(7)), Some(&json!(["a"])))
    );

    for bad in [
        mutation("t.count", json!(4)),
        mutation("t.count", json!("x")),
        mutation("t.city", json!(5)),
        mutation("other.key", json!(5)),
        mutation("host.anything", json!(5)),
        mutation("t.unknown", json!(5)),
        mutation("t.items", json!("x".repeat(MAX_MUTATION_BYTES))),
    ] {
        let fault =
            propose(&keys, &access, &state.snapshot(), &[mutation("t.items", json!("b")), bad.clone()])
                .unwrap_err();
        assert_eq!(fault.code, Code::BadMutation, "{bad:?}");
    }
    let many: Vec<Mutation> = (0..=MAX_MUTATIONS).map(|_| mutation("t.items", json!(1))).collect();
    assert!(propose(&keys, &access, &state.snapshot(), &many).is_err());
    let heavy: Vec<Mutation> =
        (0..5).map(|_| mutation("t.items", json!("x".repeat(MAX_MUTATION_BYTES - 10)))).collect();
    assert!(propose(&keys, &access, &state.snapshot(), &heavy).is_err());
    assert_eq!(state.revision(), 1);
}

#[test]
fn s2_small_updates_do_not_lead_to_many_large_values() {
    let (keys, access) = keys();
    let state = State::restored(1, [("t.items".to_owned(), json!(["x".repeat(15 << 20)]))]);
    let appended = |count: usize| {
        let mutations: Vec<Mutation> = (0..count).map(|_| mutation("t.items", json!(1))).collect();
        propose(&keys, &access, &state.snapshot(), &mutations)
    };
    assert_eq!(appended(4).unwrap().unwrap().updates.len(), 4);
    let fault = appended(5).unwrap_err();
    assert_eq!(fault.code, Code::BadMutation);
    assert!(fault.message.contains("67108864 bytes in all"), "{}", fault.message);
}

#[test]
fn s1_a_snapshot_is_frozen() {
    let (keys, access) = keys();
    let mut state = State::default();
    let before = state.snapshot();
    let change = propose(&keys, &access, &before, &[mutation("t.city", json!("Bern"))]).unwrap().unwrap();
    state.apply(&change);
    assert_eq!(before.get(&keys, "t.city"), Some(&json!("")));
    assert_eq!(state.snapshot().get(&keys, "t.city"), Some(&json!("Bern")));
    assert_eq!(before.visible(&keys, &access).count(), 4);
}

#[test]
fn s6_a_record_holds_only_the_names_of_keys_that_do_not_persist() {
    let (keys, access) = keys();
    let now = State::default().snapshot();
    let change =
        propose(&keys, &access, &now, &[mutation("t.city", json!("Bern")), mutation("t.count", json!(1))])
            .unwrap()
            .unwrap();
    let record = serde_json::to_string(&change).unwrap();
    assert!(!record.contains("Bern") && record.contains("t.city"), "{record}");
    let mut state = State::default();
    state.apply(&serde_json::from_str(&record).unwrap());
    assert_eq!((state.revision(), state.get("t.city"), state.get("t.count")), (1, None, Some(&json!(1))));
}

#[test]
fn s5_commuting_updates_do_not_conflict() {
    let (keys, access) = keys();
    let now = State::default().snapshot();
    let change =
        propose(&keys, &access, &now, &[mutation("t.city", json!("Bern")), mutation("t.count", json!(1))])
            .unwrap()
            .unwrap();
    assert_eq!(conflict(&keys, &[&change], &[mutation("t.count", json!(2))]), None);
    assert_eq!(conflict(&keys, &[&change], &[mutation("t.city", json!("Rom"))]), Some("t.city"));
}

#[test]
fn z8_the_state_of_one_component_in_one_thread_is_bounded() {
    let mut keys = KeySet::default();
    let mut access = Access::default();
    for name in ["t.one", "t.two", "other.one"] {
        let reducer = if name == "t.one" { Reducer::Append } else { Reducer::Replace };
        let initial = if name == "t.one" { json!([]) } else { json!("") };
        keys.insert(KeyDefinition::new(name, initial, None, reducer, KeyScope::Thread, true).unwrap())
            .unwrap();
        access.allow(name, true, true);
    }
    keys.set_thread_state_bytes(10_000);
    static PLACES: LimitPlaces = LimitPlaces { store: "the settings", ..LimitPlaces::NONE };
    keys.set_limit_places(&PLACES);
    let mut state = State::default();
    let mut write = |mutations: &[Mutation]| {
        let change = propose(&keys, &access, &state.snapshot(), mutations)?.unwrap();
        state.apply(&change);
        Ok::<_, Fault>(())
    };
    let text = |bytes: usize| json!("x".repeat(bytes));
    write(&[mutation("t.two", text(6_000))]).unwrap();
    for _ in 0..3 {
        write(&[mutation("t.one", text(1_000))]).unwrap();
    }
    let fault = write(&[mutation("t.one", text(1_000))]).unwrap_err();
    assert_eq!(fault.code, Code::BadMutation);
    assert!(fault.message.contains("thread_state_bytes = 10000 in the settings"), "{}", fault.message);
    // Another component has a limit of its own, and a change that frees space is accepted.
    write(&[mutation("other.one", text(9_000))]).unwrap();
    write(&[mutation("t.two", text(100))]).unwrap();
    write(&[mutation("t.one", text(1_000)), mutation("t.one", text(1_000))]).unwrap();
    assert!(
        write(&[mutation("t.one", text(3_000)), mutation("t.two", text(5_000))]).is_err(),
        "all of one call"
    );
}

/// Lists of tiny objects take a hundred times the memory of their text.
#[test]
fn s10_a_value_counts_by_its_memory() {
    let (keys, access) = keys();
    let mut state = State::default();
    let fat = Value::Array(vec![json!({"": 0}); 30_000]);
    let text = json::written_bytes(&fat);
    assert!(text < MAX_MUTATION_BYTES);
    let appended = (0..100).find_map(|_| {
        let change = propose(&keys, &access, &state.snapshot(), &[mutation("t.items", fat.clone())]);
        match change {
            Ok(change) => {
                state.apply(&change.unwrap());
                None
            }
            Err(fault) => Some(fault),
        }
    });
    let fault = appended.unwrap();
    assert!(fault.message.contains(&MAX_VALUE_BYTES.to_string()), "{}", fault.message);
    let parsed = json::Measure::of(state.get("t.items").unwrap()).parsed_bytes;
    assert!(parsed <= 4 * MAX_VALUE_BYTES as u64 + 30_000_000, "{parsed}");
    assert_eq!(json::Measure::of(&fat), json::measure(fat.to_string().as_bytes()));
}

#[test]
fn s3_a_union_of_many_updates_is_that_of_each() {
    let updates: Vec<Value> = (0..9).map(|n| json!([n % 4, format!("{n}"), {"b": n, "a": 1}])).collect();
    let (mut once, mut each) = (json!(["z"]), json!(["z"]));
    Reducer::Union.join_all(&mut once, &updates).unwrap();
    for update in &updates {
        each = Reducer::Union.join(&each, update).unwrap();
    }
    assert_eq!(once, each);
}
