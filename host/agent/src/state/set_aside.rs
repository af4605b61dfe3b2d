//! Sets aside values that do not fit their key's current definition, and resets the key.
//!
//! A component's new version may define a key with another shape than the value that an older
//! version left. Nothing is lost then: the value moves to a key of the host, whose name contains
//! the last revision that had it.

use super::stored_value::StoredValue;
use super::{KeyDefinition, KeySet, KeyUpdate, State, StateChange};
use crate::schema::{SHORT_STEPS, parts};
use serde_json::Value;
use std::sync::Arc;

/// The prefix of the keys under which values are set aside. No tool can read or write them.
pub const SET_ASIDE: &str = "host.set-aside/";

/// A value that does not fit its key.
#[derive(Debug, Clone, PartialEq)]
pub struct MisfitValue<'a> {
    /// The key.
    pub key: &'a str,
    /// The value.
    pub value: &'a Value,
    /// The reason why it does not fit.
    pub why: String,
    /// The initial value to which the key is reset.
    pub initial: &'a Value,
}

/// Returns the values of a state that do not fit their keys, sorted by key. A value without a
/// definition is kept as it is, because its component is not loaded.
#[must_use]
pub fn misfits<'a>(keys: &'a KeySet, state: &'a State) -> Vec<MisfitValue<'a>> {
    let misfit = |(key, held): (&'a Arc<str>, &'a StoredValue)| {
        let definition = keys.shared(key)?;
        // This runs for each call, and a value that only grew by fitting elements still fits.
        if held.is_known_to_fit(definition) {
            return None;
        }
        let value = held.value();
        let Some(why) = definition.refusal(value) else {
            held.note_fit(definition);
            return None;
        };
        Some(MisfitValue { key, value, why, initial: &definition.initial })
    };
    state.values.iter().filter_map(misfit).collect()
}

/// Returns whether finding the misfits of a state could take more than a few milliseconds.
#[must_use]
pub fn takes_long(keys: &KeySet, state: &State) -> bool {
    let mut left = SHORT_STEPS;
    let fits = state.values.iter().try_for_each(|(key, held)| {
        let Some(definition) = keys.shared(key).filter(|definition| !held.is_known_to_fit(definition)) else {
            return Some(());
        };
        let Some(schema) = &definition.schema else { return Some(()) };
        left = left.checked_sub(schema.most_steps(parts(held.value())))?;
        Some(())
    });
    fits.is_none()
}

/// Returns the change that sets the misfits aside, or `None` if there are none.
#[must_use]
pub fn set_aside(misfits: &[MisfitValue<'_>], revision: u64) -> Option<StateChange> {
    let updates = misfits.iter().flat_map(|misfit| {
        let aside = format!("{SET_ASIDE}{}@{revision}", misfit.key);
        [
            KeyUpdate::restored(&aside, misfit.value.clone()),
            KeyUpdate::restored(misfit.key, misfit.initial.clone()),
        ]
    });
    let change = StateChange { revision: revision + 1, updates: updates.collect() };
    (!change.updates.is_empty()).then_some(change)
}

impl KeyDefinition {
    /// Returns the reason why the key does not accept a value, or `None` if it does.
    #[must_use]
    pub fn refusal(&self, value: &Value) -> Option<String> {
        let violations = self.schema.as_ref().map(|schema| schema.violations(value)).unwrap_or_default();
        if let Some(first) = violations.first() {
            return Some(format!("{} at \"{}\"", first.problem, first.pointer));
        }
        let reducer = &self.reducer;
        (!reducer.accepts(value))
            .then(|| format!("its reducer {} does not accept the value", reducer.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{KeyScope, Reducer};
    use serde_json::json;

    fn keys() -> KeySet {
        let mut keys = KeySet::default();
        let list = Some(json!({"type": "array", "items": {"type": "string"}}));
        for (name, initial, schema, reducer) in
            [("notes.items", json!([]), list, Reducer::Append), ("notes.count", json!(0), None, Reducer::Add)]
        {
            keys.insert(KeyDefinition::new(name, initial, schema, reducer, KeyScope::Thread, true).unwrap())
                .unwrap();
        }
        keys
    }

    fn state(values: &[(&str, Value)]) -> State {
        State::restored(7, values.iter().map(|(key, value)| ((*key).to_owned(), value.clone())))
    }

    #[test]
    fn s7_a_value_that_no_longer_fits_is_kept_aside_and_the_key_starts_anew() {
        let (keys, mut state) =
            (keys(), state(&[("notes.items", json!({"old": "shape"})), ("notes.count", json!("three"))]));
        let misfits = misfits(&keys, &state);
        assert_eq!(misfits.iter().map(|m| m.key).collect::<Vec<_>>(), ["notes.count", "notes.items"]);
        assert!(misfits[0].why.contains("add"), "{}", misfits[0].why);
        let change = set_aside(&misfits, state.revision()).unwrap();
        state.apply(&change);
        assert_eq!((state.get("notes.items"), state.get("notes.count")), (Some(&json!([])), Some(&json!(0))));
        assert_eq!(state.get("host.set-aside/notes.items@7"), Some(&json!({"old": "shape"})));
        assert_eq!(state.revision(), 8);
        assert!(super::misfits(&keys, &state).is_empty(), "it is done once");
    }

    #[test]
    fn s7_what_fits_and_what_nobody_defines_stays_as_it_is() {
        let (keys, state) = (keys(), state(&[("notes.items", json!(["a"])), ("gone.thing", json!(1))]));
        assert!(misfits(&keys, &state).is_empty());
        assert_eq!(set_aside(&[], 7), None);
    }
}
