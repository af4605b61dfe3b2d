//! Turns mutations into one change: all of them or none.

use super::stored_value::size_of_value;
use super::{Access, KeyDefinition, KeyReducer, KeySet, KeyUpdate, Reducer, Snapshot, State};
use crate::code::Code;
use crate::json;
use crate::json::written_bytes;
use crate::limit_places::LimitScope;
use crate::outcome::{Fault, Mutation};
use crate::schema::MAX_STEPS;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most mutations that one call may return.
pub const MAX_MUTATIONS: usize = 64;
/// The most bytes of a single update.
pub const MAX_MUTATION_BYTES: usize = 256 * 1024;
/// The most bytes of all updates of one call together.
pub const MAX_MUTATIONS_BYTES: usize = 1024 * 1024;
/// The most bytes of one key's value: of its JSON, or a quarter of the memory that it takes once
/// parsed, if that is more.
pub const MAX_VALUE_BYTES: usize = 16 * 1024 * 1024;
/// The most bytes of all values that result from the mutations of one call and the hooks around it.
/// Without this limit, small updates to a large value could produce 64 such values.
pub const MAX_VALUES_BYTES: usize = 4 * MAX_VALUE_BYTES;

/// The state updates of one event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    /// The state's revision after the change is applied.
    pub revision: u64,
    /// The updates, in the order of the mutations.
    pub updates: Arc<[KeyUpdate]>,
}

impl StateChange {
    /// Returns the change with every value that follows from it on this state, for display. Records
    /// omit these values.
    #[must_use]
    pub fn resolved(&self, state: &State) -> Self {
        if self.updates.iter().all(|update| update.fold.is_none()) {
            return self.clone();
        }
        let mut known: BTreeMap<Arc<str>, Arc<Value>> = BTreeMap::new();
        let resolved = |update: &KeyUpdate| {
            let before = known.remove(&update.key).or_else(|| state.shared(&update.key).cloned());
            let value = update.folded(before);
            known.extend(value.clone().map(|value| (Arc::clone(&update.key), value)));
            let is_kept = update.update.is_some();
            KeyUpdate { value: value.filter(|_| is_kept), fold: None, ..update.clone() }
        };
        Self { revision: self.revision, updates: self.updates.iter().map(resolved).collect() }
    }

    /// Returns the part of the change that a run needs beside the current state: what decides
    /// whether a later update conflicts, and values that do not persist.
    #[must_use]
    pub fn outlined(&self) -> Self {
        Self { revision: self.revision, updates: self.updates.iter().map(KeyUpdate::outlined).collect() }
    }

    /// Returns the change with the values of a later state.
    #[must_use]
    pub fn with_values_of(&self, state: &State) -> Self {
        let standing = |(at, update): (usize, &KeyUpdate)| {
            let is_last = self.updates[at + 1..].iter().all(|later| later.key != update.key);
            let value = state.shared(&update.key).filter(|_| is_last && update.update.is_some()).cloned();
            let value = if update.fold.is_some() { value } else { update.value.clone() };
            KeyUpdate { value, fold: None, ..update.clone() }
        };
        Self { revision: self.revision, updates: self.updates.iter().enumerate().map(standing).collect() }
    }
}

/// Checks the mutations of one call against its access and the keys' definitions, and joins them
/// onto the current state. Returns `None` if there are no mutations.
///
/// # Errors
/// `bad_mutation` with a sentence that names the key. Nothing of the call may be applied then.
pub fn propose(
    keys: &KeySet,
    access: &Access,
    now: &Snapshot,
    mutations: &[Mutation],
) -> Result<Option<StateChange>, Fault> {
    let mut joining = MutationJoiner::on(keys, now);
    joining.add(access, mutations)?;
    Ok(joining.into_change())
}

/// Joins the mutations of several parts, such as a tool and the hooks around it, one part after the
/// other, into one change.
pub struct MutationJoiner<'a> {
    keys: &'a KeySet,
    now: &'a Snapshot,
    updates: Vec<KeyUpdate>,
    /// The resulting value of each written key, unless its updates need none.
    values: BTreeMap<Arc<str>, Arc<Value>>,
    /// The total bytes of the resulting values.
    led_to: usize,
    /// The steps left for checking the resulting values against their schemas.
    steps_left: u64,
    /// The resulting size of each written key, in bytes.
    sizes: BTreeMap<Arc<str>, usize>,
}

impl<'a> MutationJoiner<'a> {
    /// Starts with no updates on the current state.
    #[must_use]
    pub fn on(keys: &'a KeySet, now: &'a Snapshot) -> Self {
        let (values, sizes, steps_left) = (BTreeMap::new(), BTreeMap::new(), MAX_STEPS);
        Self { keys, now, updates: Vec::new(), values, led_to: 0, steps_left, sizes }
    }

    /// Joins one part, all of it or nothing.
    ///
    /// # Errors
    /// Same as [`propose`]; parts that were joined before are kept.
    pub fn add(&mut self, access: &Access, mutations: &[Mutation]) -> Result<(), Fault> {
        if mutations.is_empty() {
            return Ok(());
        }
        check_sizes(mutations)?;
        let mut values = self.values.clone();
        let mut updates: Vec<KeyUpdate> = Vec::with_capacity(mutations.len());
        let mut led_to = self.led_to;
        let mut sizes = self.sizes.clone();
        for (at, mutation) in mutations.iter().enumerate() {
            let key = mutation.key.as_str();
            let definition = self
                .keys
                .get(key)
                .filter(|_| access.may_write(key))
                .ok_or_else(|| bad(key, "it was not declared writable by this component"))?;
            let (update, bytes) = match self.grown(definition, &mutation.update, &sizes)? {
                Some((update, bytes)) => (update, bytes),
                None => {
                    // Moved out so that it changes in place, unless an update holds it.
                    let known = values.remove(key).or_else(|| self.now.shared(key).cloned());
                    let mut value = known.unwrap_or_else(|| Arc::clone(&definition.initial));
                    let joined = Arc::make_mut(&mut value);
                    join(definition, joined, &mutation.update, &mut self.steps_left)?;
                    let bytes = size_of_value(joined);
                    // Only a key's final value is kept, so only that must be within the limit.
                    if mutations[at + 1..].iter().all(|later| later.key != mutation.key) {
                        check_value(key, joined, bytes)?;
                    }
                    let update = match definition.reducer.folds() {
                        true => KeyUpdate::unfolded(definition, Arc::new(mutation.update.clone())),
                        false => {
                            KeyUpdate::set(definition, Arc::new(mutation.update.clone()), Arc::clone(&value))
                        }
                    };
                    values.insert(Arc::clone(&definition.name), value);
                    (update, bytes)
                }
            };
            sizes.insert(Arc::clone(&definition.name), bytes);
            led_to = led_to.saturating_add(bytes);
            if led_to > MAX_VALUES_BYTES {
                let all =
                    format!("the values of its call would have more than {MAX_VALUES_BYTES} bytes in all");
                return Err(bad(key, &all));
            }
            updates.push(update);
        }
        check_owners(self.keys, self.now, &sizes)?;
        (self.sizes, self.values) = (sizes, values);
        if self.updates.is_empty() {
            std::mem::swap(&mut self.updates, &mut updates);
        }
        self.updates.append(&mut updates);
        self.led_to = led_to;
        Ok(())
    }

    /// Returns an update that adds elements to a list, with the list's resulting size in bytes, if
    /// the schema constrains only the list's elements. The cost does not depend on the list's
    /// length. Returns `None` for any other update.
    fn grown(
        &mut self,
        definition: &KeyDefinition,
        update: &Value,
        sizes: &BTreeMap<Arc<str>, usize>,
    ) -> Result<Option<(KeyUpdate, usize)>, Fault> {
        let key = &*definition.name;
        let is_list = !self.now.has(key) || self.now.is_list(key);
        let elements = match &definition.reducer {
            KeyReducer::Standard(Reducer::Append) => Value::Array(vec![update.clone()]),
            KeyReducer::Standard(Reducer::Union) if update.is_array() => update.clone(),
            _ => return Ok(None),
        };
        if !definition.folds_freely || !is_list {
            return Ok(None);
        }
        if let Some(schema) = &definition.schema
            && let Some(violation) =
                schema.violations_within(&elements, &mut self.steps_left).into_iter().next()
        {
            return Err(breaks(key, &violation.pointer, &violation.problem));
        }
        let before = sizes.get(key).copied();
        let before = before.or_else(|| self.now.has(key).then(|| self.now.bytes(key)));
        let bytes = before.unwrap_or_else(|| size_of_value(&definition.initial)) + 1 + size_of_value(update);
        check_value(key, &elements, bytes)?;
        Ok(Some((KeyUpdate::unfolded(definition, Arc::new(update.clone())), bytes)))
    }

    /// Returns the change, or `None` if there are no updates.
    #[must_use]
    pub fn into_change(self) -> Option<StateChange> {
        let revision = self.now.revision() + 1;
        let mut seen: Vec<Arc<str>> = Vec::with_capacity(self.updates.len());
        let reduced = |update: KeyUpdate| {
            let is_first = !self.now.has(&update.key) && !seen.contains(&update.key);
            seen.push(Arc::clone(&update.key));
            match self.keys.get(&update.key) {
                Some(definition) => update.reduced(definition, is_first),
                None => update,
            }
        };
        let updates: Arc<[KeyUpdate]> = self.updates.into_iter().map(reduced).collect();
        (!updates.is_empty()).then_some(StateChange { revision, updates })
    }
}

/// Checks that no component whose keys are written exceeds its state limit in the thread. A change
/// that does not enlarge the state is accepted even above the limit.
fn check_owners(keys: &KeySet, now: &Snapshot, sizes: &BTreeMap<Arc<str>, usize>) -> Result<(), Fault> {
    let limit = keys.thread_state_bytes();
    for key in sizes.keys() {
        let owner = key.split_once('.').map_or(&**key, |(owner, _)| owner);
        let is_of = |key: &str| key.split_once('.').is_some_and(|(of, _)| of == owner);
        let written = || sizes.iter().filter(|(key, _)| is_of(key));
        let after: usize = written().map(|(_, bytes)| bytes).sum();
        let before: usize = written().map(|(key, _)| now.bytes(key)).sum();
        let rest = now.bytes_of(owner, |key| sizes.contains_key(key));
        if after > before && after + rest > limit {
            let bytes = after + rest;
            return Err(bad(
                key,
                &format!(
                    "the state of {owner} in this thread would have {bytes} bytes; the limit is thread_state_bytes = {limit}{}",
                    keys.limit_places().of(LimitScope::Store)
                ),
            ));
        }
    }
    Ok(())
}

/// Joins an update into a key's value, and checks the result against the key's schema.
fn join(
    definition: &KeyDefinition,
    value: &mut Value,
    update: &Value,
    steps_left: &mut u64,
) -> Result<(), Fault> {
    let key = &*definition.name;
    definition.reducer.join_in_place(value, update).map_err(|why| {
        bad(key, &format!("its reducer {} cannot apply the update: {why}", definition.reducer.as_str()))
    })?;
    let schema = definition.schema.as_ref();
    match schema.and_then(|schema| schema.violations_within(value, steps_left).into_iter().next()) {
        None => Ok(()),
        Some(violation) => Err(breaks(key, &violation.pointer, &violation.problem)),
    }
}

fn breaks(key: &str, pointer: &str, problem: &str) -> Fault {
    bad(key, &format!("the value would violate its schema at \"{pointer}\": {problem}"))
}

fn check_value(key: &str, value: &Value, bytes: usize) -> Result<(), Fault> {
    if bytes > MAX_VALUE_BYTES {
        return Err(bad(key, &format!("its value would be larger than {MAX_VALUE_BYTES} bytes")));
    }
    // An appended element is nested one level deeper than it was sent.
    if json::depth(value) > json::MAX_DEPTH {
        return Err(bad(key, &format!("its value would nest deeper than {} levels", json::MAX_DEPTH)));
    }
    Ok(())
}

/// Returns the first key for which mutations of an older snapshot conflict with the changes made
/// since, or `None` if they may still be applied.
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

/// Checks the number and the sizes of the mutations from one tool or hook.
pub(crate) fn check_sizes(mutations: &[Mutation]) -> Result<(), Fault> {
    if mutations.len() > MAX_MUTATIONS {
        return Err(Fault::new(
            Code::BadMutation,
            format!(
                "It returned {} mutations; at most {MAX_MUTATIONS} are accepted from one call.",
                mutations.len()
            ),
        ));
    }
    let mut total = 0;
    for mutation in mutations {
        let bytes = written_bytes(&mutation.update);
        total += bytes;
        if bytes > MAX_MUTATION_BYTES {
            return Err(bad(
                &mutation.key,
                &format!("its update has {bytes} bytes; the limit is {MAX_MUTATION_BYTES}"),
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
mod tests;
