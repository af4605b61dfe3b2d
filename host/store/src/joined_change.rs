//! Several changes of a thread's state as one.

use std::collections::BTreeMap;
use std::sync::Arc;
use tollgate_agent::state::{KeyScope, KeyUpdate, State, StateChange};

/// The sum of a thread's first changes, from its initial state on.
#[derive(Debug, Default)]
pub struct JoinedChange {
    state: State,
    /// The last updates of keys that do not persist: their values are not recorded.
    unknown: BTreeMap<Arc<str>, KeyUpdate>,
}

impl JoinedChange {
    /// Adds the next change.
    pub fn add(&mut self, change: &StateChange) {
        self.state.apply_scope(change, KeyScope::Thread);
        for update in change.updates.iter().filter(|update| update.scope == KeyScope::Thread) {
            match update.persistent {
                true => drop(self.unknown.remove(&update.key)),
                false => drop(self.unknown.insert(Arc::clone(&update.key), update.clone())),
            }
        }
    }

    /// Returns the change that leads to the same state as all that were added. It has the revision of the last one,
    /// which it replaces, and sets the values of all keys that they wrote.
    #[must_use]
    pub fn finish(self, revision: u64) -> StateChange {
        let known = self.state.iter().filter(|(key, _)| !self.unknown.contains_key(*key));
        let known = known.map(|(key, value)| KeyUpdate::restored(key, value.clone()));
        StateChange { revision, updates: known.chain(self.unknown.values().cloned()).collect() }
    }
}
