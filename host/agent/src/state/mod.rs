//! The state that tools share: typed keys, frozen snapshots, and mutations that
//! commit together or not at all.
//!
//! A tool never touches state. It reads a [`Snapshot`] and returns
//! [`Mutation`](crate::outcome::Mutation)s; [`change::propose`] checks all of them
//! against the keys' definitions and answers one [`StateChange`], which an event
//! records and [`State::apply`] folds in. Folding needs no tool and no definition:
//! the change holds each key's resulting value, or names the built-in reducer by which
//! the value follows from the update.

pub mod change;
pub mod key;
pub mod native;
pub mod pending;
pub mod reducer;
pub mod set_aside;
mod size;
mod stored_value;
pub mod update;

pub use change::StateChange;
pub use key::{Access, KeyDefinition, KeyScope, KeySet};
pub use native::{KeyReducer, NativeReducer};
pub use pending::PendingMutation;
pub use reducer::Reducer;
pub use update::{Fold, KeyUpdate};

use litemap::LiteMap;
use serde_json::Value;
use std::sync::Arc;
use stored_value::Held;

/// Values by their keys: few, so that a sorted list is smaller and faster than a tree.
type Values = LiteMap<Arc<str>, Held>;

/// The values of a thread's keys, or of a run's, and how often they changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    revision: u64,
    values: Arc<Values>,
}

impl State {
    /// How many changes were applied.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The value of a key that was ever set.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).map(|held| held.value().as_ref())
    }

    /// The value of a key that was ever set, to be shared.
    #[must_use]
    pub fn shared(&self, key: &str) -> Option<&Arc<Value>> {
        self.values.get(key).map(Held::value)
    }

    /// Every key that was ever set, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|(key, _)| key.as_ref())
    }

    /// Every key that was ever set, sorted, with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, held)| (key.as_ref(), held.value().as_ref()))
    }

    /// The keys of an owner that were ever set, and how many bytes the value of each has, at
    /// most.
    pub fn sizes_of<'a>(&'a self, owner_id: &'a str) -> impl Iterator<Item = (&'a str, usize)> {
        let values = self.values.iter().filter(move |(key, _)| key::owner_of(key) == owner_id);
        values.map(|(key, held)| (key.as_ref(), held.bytes()))
    }

    /// Folds in one change; the revision becomes the change's.
    pub fn apply(&mut self, change: &StateChange) {
        self.fold(change, |_| true);
    }

    /// Folds in what a change does to keys of one scope; the revision becomes the
    /// change's all the same.
    pub fn apply_scope(&mut self, change: &StateChange, scope: KeyScope) {
        self.fold(change, |update| update.scope == scope);
    }

    fn fold(&mut self, change: &StateChange, wanted: impl Fn(&KeyUpdate) -> bool) {
        self.revision = change.revision;
        let values = Arc::make_mut(&mut self.values);
        for update in change.updates.iter().filter(|update| wanted(update)) {
            // The value is taken out, so that a list that nobody else holds grows in place.
            if let Some(held) = Held::after(values.remove(&update.key), update) {
                values.insert(Arc::clone(&update.key), held);
            }
        }
    }

    /// Takes over the values of another state, and its revision.
    pub fn adopt(&mut self, other: &State) {
        self.revision = other.revision;
        let values = Arc::make_mut(&mut self.values);
        for (key, held) in other.values.iter() {
            values.insert(Arc::clone(key), held.clone());
        }
    }

    /// A state as a store kept it.
    #[must_use]
    pub fn restored(revision: u64, values: impl IntoIterator<Item = (String, Value)>) -> Self {
        let values = values.into_iter().map(|(key, value)| (Arc::from(key), Held::new(Arc::new(value))));
        Self { revision, values: Arc::new(values.collect()) }
    }

    /// Sets a key without a change of its own: seeds and restored values.
    pub fn set(&mut self, key: &str, value: Value) {
        Arc::make_mut(&mut self.values).insert(Arc::from(key), Held::new(Arc::new(value)));
    }

    /// Forgets the keys of this scope, as at the end of a run.
    pub fn forget(&mut self, keys: &KeySet, scope: KeyScope) {
        Arc::make_mut(&mut self.values)
            .retain(|key, _| keys.get(key).is_none_or(|definition| definition.scope != scope));
    }

    /// The values as they stand now; cheap, and later changes do not reach it.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { revision: self.revision, values: Arc::clone(&self.values) }
    }
}

/// The state as it stood at one moment. Cloning is cheap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    revision: u64,
    values: Arc<Values>,
}

impl Snapshot {
    /// The state's revision at that moment.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether the key was ever set.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// The key's value, or its initial one where it was never set.
    #[must_use]
    pub fn get<'a>(&'a self, keys: &'a KeySet, key: &str) -> Option<&'a Value> {
        self.values
            .get(key)
            .map(|held| held.value().as_ref())
            .or_else(|| keys.get(key).map(|definition| &definition.initial))
    }

    /// How many bytes the values of an owner's keys have, at most, without these.
    pub(crate) fn bytes_of(&self, owner_id: &str, without: impl Fn(&str) -> bool) -> usize {
        let is_of = |key: &str| key.split_once('.').is_some_and(|(owner, _)| owner == owner_id);
        let counted = self.values.iter().filter(|(key, _)| is_of(key) && !without(key));
        counted.map(|(_, held)| held.bytes()).sum()
    }

    /// Whether the value of a key that was ever set is a list.
    pub(crate) fn is_list(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(Held::is_list)
    }

    /// How many bytes the value of a key has, at most.
    pub(crate) fn bytes(&self, key: &str) -> usize {
        self.values.get(key).map_or(0, Held::bytes)
    }

    /// What one reader may see: the keys that it may read and that have a value.
    pub fn visible<'a>(
        &'a self,
        keys: &'a KeySet,
        access: &'a Access,
    ) -> impl Iterator<Item = (&'a str, &'a Value)> {
        access.reads().filter_map(|key| Some((key, self.get(keys, key)?)))
    }
}
