//! The state that tools share: typed keys, immutable snapshots, and mutations that commit together
//! or not at all.
//!
//! A tool never accesses the state directly. It reads a [`Snapshot`] and returns
//! [`Mutation`](crate::outcome::Mutation)s. [`change::propose`] checks all of them against the
//! keys' definitions and returns one [`StateChange`], which an event records and [`State::apply`]
//! folds in. Folding needs neither tools nor definitions: the change holds each key's resulting
//! value, or names the built-in reducer that derives the value from the update.

pub mod change;
pub mod key;
pub mod native;
pub mod pending;
pub mod reducer;
pub mod set_aside;
mod stored_value;
pub mod update;

pub use change::StateChange;
pub use key::{Access, KeyDefinition, KeyScope, KeySet};
pub use native::{KeyReducer, NativeReducer};
pub use pending::PendingMutation;
pub use reducer::{Reducer, UpdateError};
pub use update::{Fold, KeyUpdate};

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use stored_value::StoredValue;

/// Values by key.
type Values = BTreeMap<Arc<str>, StoredValue>;

/// The values of a thread's or run's keys, and their revision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    revision: u64,
    values: Arc<Values>,
}

impl State {
    /// Returns the number of changes that were applied.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the value of a key that was set.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).map(|held| held.value().as_ref())
    }

    /// Returns the shared value of a key that was set.
    #[must_use]
    pub fn shared(&self, key: &str) -> Option<&Arc<Value>> {
        self.values.get(key).map(StoredValue::value)
    }

    /// Returns every key that was set, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(AsRef::as_ref)
    }

    /// Returns every key that was set, sorted, with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, held)| (key.as_ref(), held.value().as_ref()))
    }

    /// Returns an owner's keys that were set, with an upper bound of each value's size in bytes.
    pub fn sizes_of<'a>(&'a self, owner_id: &'a str) -> impl Iterator<Item = (&'a str, usize)> {
        let values = self.values.iter().filter(move |(key, _)| key::owner_of(key) == owner_id);
        values.map(|(key, held)| (key.as_ref(), held.bytes()))
    }

    /// Returns an upper bound of the size of a key's value, in bytes.
    #[must_use]
    pub fn bytes_of(&self, key: &str) -> usize {
        self.values.get(key).map_or(0, StoredValue::bytes)
    }

    /// Returns an upper bound of the size of all values, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.values.values().map(StoredValue::bytes).sum()
    }

    /// Folds in a change and takes over its revision. Updates whose value is unknown change nothing.
    pub fn apply(&mut self, change: &StateChange) {
        self.fold(change, |_| true);
    }

    /// Folds in a change's updates to keys of one scope. The revision becomes the change's in any
    /// case.
    pub fn apply_scope(&mut self, change: &StateChange, scope: KeyScope) {
        self.fold(change, |update| update.scope == scope);
    }

    fn fold(&mut self, change: &StateChange, wanted: impl Fn(&KeyUpdate) -> bool) {
        self.revision = change.revision;
        let values = Arc::make_mut(&mut self.values);
        for update in change.updates.iter().filter(|update| update.is_known() && wanted(update)) {
            // The value is moved out so that a list without other owners grows in place.
            if let Some(held) = StoredValue::after(values.remove(&update.key), update) {
                values.insert(Arc::clone(&update.key), held);
            }
        }
    }

    /// Takes over the values and the revision of another state.
    pub fn adopt(&mut self, other: &State) {
        self.revision = other.revision;
        let values = Arc::make_mut(&mut self.values);
        for (key, held) in other.values.iter() {
            values.insert(Arc::clone(key), held.clone());
        }
    }

    /// Takes over the value of one key of another state, if it has one.
    pub fn adopt_key(&mut self, other: &State, key: &str) {
        if let Some((key, held)) = other.values.get_key_value(key) {
            Arc::make_mut(&mut self.values).insert(Arc::clone(key), held.clone());
        }
    }

    /// Removes the values of all other keys.
    pub fn keep_only(&mut self, wanted: impl Fn(&str) -> bool) {
        if !self.values.keys().all(|key| wanted(key)) {
            Arc::make_mut(&mut self.values).retain(|key, _| wanted(key));
        }
    }

    /// Removes the value of a key.
    pub fn remove(&mut self, key: &str) {
        Arc::make_mut(&mut self.values).remove(key);
    }

    /// Restores a state from a store.
    #[must_use]
    pub fn restored(revision: u64, values: impl IntoIterator<Item = (String, Value)>) -> Self {
        let values =
            values.into_iter().map(|(key, value)| (Arc::from(key), StoredValue::new(Arc::new(value))));
        Self { revision, values: Arc::new(values.collect()) }
    }

    /// Sets a key without a change, for seeds and restored values.
    pub fn set(&mut self, key: &str, value: impl Into<Arc<Value>>) {
        Arc::make_mut(&mut self.values).insert(Arc::from(key), StoredValue::new(value.into()));
    }

    /// Removes the keys of this scope, as at the end of a run.
    pub fn forget(&mut self, keys: &KeySet, scope: KeyScope) {
        Arc::make_mut(&mut self.values)
            .retain(|key, _| keys.get(key).is_none_or(|definition| definition.scope != scope));
    }

    /// Returns a snapshot of the current values. It is cheap and later changes do not affect it.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { revision: self.revision, values: Arc::clone(&self.values) }
    }
}

/// The state at one moment. Cloning is cheap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    revision: u64,
    values: Arc<Values>,
}

impl Snapshot {
    /// Returns the state's revision at that moment.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns whether the key was set.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Returns the key's value, or its initial value if it was never set.
    #[must_use]
    pub fn get<'a>(&'a self, keys: &'a KeySet, key: &str) -> Option<&'a Value> {
        self.values
            .get(key)
            .map(|held| held.value().as_ref())
            .or_else(|| keys.get(key).map(|definition| definition.initial.as_ref()))
    }

    /// Returns the key's shared value if it was set.
    pub(crate) fn shared(&self, key: &str) -> Option<&Arc<Value>> {
        self.values.get(key).map(StoredValue::value)
    }

    /// Returns an upper bound of the bytes that an owner's values have, except those of the keys
    /// for which `without` returns true.
    pub(crate) fn bytes_of(&self, owner_id: &str, without: impl Fn(&str) -> bool) -> usize {
        let is_of = |key: &str| key.split_once('.').is_some_and(|(owner, _)| owner == owner_id);
        let counted = self.values.iter().filter(|(key, _)| is_of(key) && !without(key));
        counted.map(|(_, held)| held.bytes()).sum()
    }

    /// Returns whether the key was set and its value is a list.
    pub(crate) fn is_list(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(StoredValue::is_list)
    }

    /// Returns an upper bound of the bytes that a key's value has.
    #[must_use]
    pub fn bytes(&self, key: &str) -> usize {
        self.values.get(key).map_or(0, StoredValue::bytes)
    }

    /// Returns the keys that a reader with this access may read, with their values.
    pub fn visible<'a>(
        &'a self,
        keys: &'a KeySet,
        access: &'a Access,
    ) -> impl Iterator<Item = (&'a str, &'a Value)> {
        access.reads().filter_map(|key| Some((key, self.get(keys, key)?)))
    }
}
