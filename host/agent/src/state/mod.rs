//! The state that tools share: typed keys, frozen snapshots, and mutations that
//! commit together or not at all.
//!
//! A tool never touches state. It reads a [`Snapshot`] and returns
//! [`Mutation`](crate::outcome::Mutation)s; [`change::propose`] checks all of them
//! against the keys' definitions and answers one [`StateChange`], which an event
//! records and [`State::apply`] folds in. Folding needs no tool and no definition:
//! the change holds each key's resulting value.

pub mod aside;
pub mod change;
pub mod key;
pub mod native;
pub mod pending;
pub mod reducer;
mod size;

pub use change::{KeyUpdate, StateChange};
pub use key::{Access, KeyDefinition, KeyScope, KeySet};
pub use native::{KeyReducer, NativeReducer};
pub use pending::PendingMutation;
pub use reducer::Reducer;

use litemap::LiteMap;
use serde_json::Value;
use std::sync::Arc;

/// Values by their keys: few, so that a sorted list is smaller and faster than a tree.
type Values = LiteMap<Arc<str>, Arc<Value>>;

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
        self.values.get(key).map(AsRef::as_ref)
    }

    /// Every key that was ever set, sorted, with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_ref(), value.as_ref()))
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
            if let Some(value) = &update.value {
                values.insert(Arc::clone(&update.key), Arc::clone(value));
            }
        }
    }

    /// Takes over the values of another state, and its revision.
    pub fn adopt(&mut self, other: &State) {
        self.revision = other.revision;
        let values = Arc::make_mut(&mut self.values);
        for (key, value) in other.values.iter() {
            values.insert(Arc::clone(key), Arc::clone(value));
        }
    }

    /// A state as a store kept it.
    #[must_use]
    pub fn restored(revision: u64, values: impl IntoIterator<Item = (String, Value)>) -> Self {
        let values = values.into_iter().map(|(key, value)| (Arc::from(key), Arc::new(value)));
        Self { revision, values: Arc::new(values.collect()) }
    }

    /// Sets a key without a change of its own: seeds and restored values.
    pub fn set(&mut self, key: &str, value: Value) {
        Arc::make_mut(&mut self.values).insert(Arc::from(key), Arc::new(value));
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

    /// The key's value, or its initial one where it was never set.
    #[must_use]
    pub fn get<'a>(&'a self, keys: &'a KeySet, key: &str) -> Option<&'a Value> {
        self.values
            .get(key)
            .map(AsRef::as_ref)
            .or_else(|| keys.get(key).map(|definition| &definition.initial))
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
