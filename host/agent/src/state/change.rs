//! From mutations to one change: all of them, or none.

use super::size::json_bytes;
use super::{Access, KeyDefinition, KeyScope, KeySet, Snapshot};
use crate::code::Code;
use crate::json;
use crate::outcome::{Fault, Mutation};
use crate::schema::MAX_STEPS;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The most mutations that one call may return.
pub const MAX_MUTATIONS: usize = 64;
/// The most bytes of one mutation's update.
pub const MAX_MUTATION_BYTES: usize = 256 * 1024;
/// The most bytes of all updates of one call.
pub const MAX_MUTATIONS_BYTES: usize = 1024 * 1024;
/// The most bytes of one key's value.
pub const MAX_VALUE_BYTES: usize = 16 * 1024 * 1024;
/// The most bytes of all values that the mutations of one call lead to, of hooks around it
/// too. Each is in the record: small updates to a large value would come to 64 such values.
pub const MAX_VALUES_BYTES: usize = 4 * MAX_VALUE_BYTES;

/// One event's worth of change to the state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    /// The state's revision once this is applied.
    pub revision: u64,
    /// Each update with the value that it led to, in the order of the mutations.
    pub updates: Arc<[KeyUpdate]>,
}

/// One key's update. Of keys that do not persist a record holds the name alone, and of
/// keys that are not visible whoever listens is told no more.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct KeyUpdate {
    /// The key.
    pub key: Arc<str>,
    /// Whether the key ends with the run or lives with the thread.
    pub scope: KeyScope,
    /// Whether update and value go into the record.
    pub persistent: bool,
    /// What was asked for.
    #[serde(default, deserialize_with = "present")]
    pub update: Option<Arc<Value>>,
    /// What the key's value became.
    #[serde(default, deserialize_with = "present")]
    pub value: Option<Arc<Value>>,
}

impl KeyUpdate {
    /// A thread's persistent key that is set to a value from outside.
    #[must_use]
    pub fn restored(key: &str, value: Value) -> Self {
        let value = Some(Arc::new(value));
        Self { key: Arc::from(key), scope: KeyScope::Thread, persistent: true, update: value.clone(), value }
    }
}

/// A field that is there has a value, and `null` is one.
fn present<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Option<Arc<Value>>, D::Error> {
    Value::deserialize(reader).map(|value| Some(Arc::new(value)))
}

impl Serialize for KeyUpdate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let recorded = [("update", &self.update), ("value", &self.value)];
        let recorded = recorded.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let recorded: Vec<_> = recorded.filter(|_| self.persistent).collect();
        let mut record = serializer.serialize_struct("KeyUpdate", 3 + recorded.len())?;
        record.serialize_field("key", &self.key)?;
        record.serialize_field("scope", &self.scope)?;
        record.serialize_field("persistent", &self.persistent)?;
        for (name, value) in recorded {
            record.serialize_field(name, value)?;
        }
        record.end()
    }
}

/// Checks the mutations of one call against what it may write and what the keys are, and
/// joins them onto the state as it stands now. None where there are no mutations.
///
/// # Errors
/// `bad_mutation`, with a sentence that names the key: then nothing of the call
/// may be applied.
pub fn propose(
    keys: &KeySet,
    access: &Access,
    now: &Snapshot,
    mutations: &[Mutation],
) -> Result<Option<StateChange>, Fault> {
    let mut joining = Joining::on(keys, now);
    joining.add(access, mutations)?;
    Ok(joining.into_change())
}

/// Mutations of several parts, such as a tool's and those of the hooks around it,
/// joined one part after the other. One change comes of them.
pub struct Joining<'a> {
    keys: &'a KeySet,
    now: &'a Snapshot,
    updates: Vec<KeyUpdate>,
    /// How many bytes the values have that they lead to.
    led_to: usize,
    /// The steps that are left for checking those values against their schemas.
    steps_left: u64,
}

impl<'a> Joining<'a> {
    /// Nothing yet, on the state as it stands.
    #[must_use]
    pub fn on(keys: &'a KeySet, now: &'a Snapshot) -> Self {
        Self { keys, now, updates: Vec::new(), led_to: 0, steps_left: MAX_STEPS }
    }

    /// Joins one part, all of it or nothing.
    ///
    /// # Errors
    /// As [`propose`]; what was joined before stays.
    pub fn add(&mut self, access: &Access, mutations: &[Mutation]) -> Result<(), Fault> {
        if mutations.is_empty() {
            return Ok(());
        }
        check_sizes(mutations)?;
        // So few that they are looked through for what a key came to last.
        let mut updates: Vec<KeyUpdate> = Vec::with_capacity(mutations.len());
        let mut led_to = self.led_to;
        for (at, mutation) in mutations.iter().enumerate() {
            let key = mutation.key.as_str();
            let definition = self
                .keys
                .get(key)
                .filter(|_| access.may_write(key))
                .ok_or_else(|| bad(key, "it was not declared writable by this component"))?;
            let known = last_of(key, &updates).or_else(|| last_of(key, &self.updates));
            let value = known.or_else(|| self.now.get(self.keys, key)).unwrap_or(&definition.initial);
            let next = joined_value(definition, value, &mutation.update, &mut self.steps_left)?;
            let bytes = json_bytes(&next);
            led_to = led_to.saturating_add(bytes);
            if led_to > MAX_VALUES_BYTES {
                let all =
                    format!("the values of its call would have more than {MAX_VALUES_BYTES} bytes in all");
                return Err(bad(key, &all));
            }
            // Only what a key comes to is kept, so only that has to be small enough.
            if mutations[at + 1..].iter().all(|later| later.key != mutation.key) {
                check_value(key, &next, bytes)?;
            }
            updates.push(KeyUpdate {
                key: Arc::clone(&definition.name),
                scope: definition.scope,
                persistent: definition.persistent,
                update: Some(Arc::new(mutation.update.clone())),
                value: Some(Arc::new(next)),
            });
        }
        if self.updates.is_empty() {
            std::mem::swap(&mut self.updates, &mut updates);
        }
        self.updates.append(&mut updates);
        self.led_to = led_to;
        Ok(())
    }

    /// What comes of it; none where nothing was joined.
    #[must_use]
    pub fn into_change(self) -> Option<StateChange> {
        let revision = self.now.revision() + 1;
        (!self.updates.is_empty()).then_some(StateChange { revision, updates: self.updates.into() })
    }
}

/// What the key came to with these updates; none where none is of it.
fn last_of<'a>(key: &str, updates: &'a [KeyUpdate]) -> Option<&'a Value> {
    updates.iter().rfind(|update| *update.key == *key)?.value.as_deref()
}

fn joined_value(
    definition: &KeyDefinition,
    value: &Value,
    update: &Value,
    steps_left: &mut u64,
) -> Result<Value, Fault> {
    let key = &*definition.name;
    let next = definition.reducer.join(value, update).map_err(|why| {
        bad(key, &format!("its reducer {} cannot apply the update: {why}", definition.reducer.as_str()))
    })?;
    let schema = definition.schema.as_ref();
    match schema.and_then(|schema| schema.violations_within(&next, steps_left).into_iter().next()) {
        None => Ok(next),
        Some(violation) => Err(bad(
            key,
            &format!("the value would break its schema at \"{}\": {}", violation.pointer, violation.problem),
        )),
    }
}

fn check_value(key: &str, value: &Value, bytes: usize) -> Result<(), Fault> {
    if bytes > MAX_VALUE_BYTES {
        return Err(bad(key, &format!("its value would be larger than {MAX_VALUE_BYTES} bytes")));
    }
    // An element that is appended stands one level deeper than it was sent.
    if json::depth(value) > json::MAX_DEPTH {
        return Err(bad(key, &format!("its value would nest deeper than {} levels", json::MAX_DEPTH)));
    }
    Ok(())
}

/// Whether mutations meant for an older snapshot may still be applied after a
/// change: the first key for which they may not.
#[must_use]
pub fn conflict<'a>(keys: &KeySet, since: &[&StateChange], mutations: &'a [Mutation]) -> Option<&'a str> {
    mutations.iter().map(|m| (m.key.as_str(), &m.update)).find_map(|(key, update)| {
        let reducer = &keys.get(key)?.reducer;
        since
            .iter()
            .flat_map(|change| change.updates.iter())
            .filter(|earlier| *earlier.key == *key)
            .any(|earlier| match &earlier.update {
                Some(earlier) => reducer.conflicts(earlier, update),
                None => !reducer.commutes(),
            })
            .then_some(key)
    })
}

/// Whether so many mutations, and so large ones, are taken from one tool or hook.
pub(crate) fn check_sizes(mutations: &[Mutation]) -> Result<(), Fault> {
    if mutations.len() > MAX_MUTATIONS {
        return Err(Fault::new(
            Code::BadMutation,
            format!(
                "It returned {} mutations; at most {MAX_MUTATIONS} are taken from one call.",
                mutations.len()
            ),
        ));
    }
    let mut total = 0;
    for mutation in mutations {
        let bytes = json_bytes(&mutation.update);
        total += bytes;
        if bytes > MAX_MUTATION_BYTES {
            return Err(bad(
                &mutation.key,
                &format!("its update has {bytes} bytes, the limit is {MAX_MUTATION_BYTES}"),
            ));
        }
    }
    if total > MAX_MUTATIONS_BYTES {
        return Err(Fault::new(
            Code::BadMutation,
            format!("Its mutations have {total} bytes in all; the limit is {MAX_MUTATIONS_BYTES}."),
        ));
    }
    Ok(())
}

fn bad(key: &str, why: &str) -> Fault {
    let key = crate::text::clean(key, 140);
    Fault::new(Code::BadMutation, format!("The mutation of the state key \"{key}\" was refused: {why}."))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{KeyDefinition, Reducer, State};
    use super::*;
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
                KeyDefinition::new(name, initial, schema, reducer, KeyScope::Thread, name != "t.city")
                    .unwrap(),
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
        let change = propose(
            &keys,
            &access,
            &now,
            &[mutation("t.city", json!("Bern")), mutation("t.count", json!(1))],
        )
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
        let change = propose(
            &keys,
            &access,
            &now,
            &[mutation("t.city", json!("Bern")), mutation("t.count", json!(1))],
        )
        .unwrap()
        .unwrap();
        assert_eq!(conflict(&keys, &[&change], &[mutation("t.count", json!(2))]), None);
        assert_eq!(conflict(&keys, &[&change], &[mutation("t.city", json!("Rom"))]), Some("t.city"));
    }
}
