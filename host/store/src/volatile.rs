//! The values of keys that do not persist, for stores that keep everything else outside of the process.

use super::KeyFilter;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tollgate_agent::state::{KeyScope, KeyUpdate, State, StateChange};

type Values = BTreeMap<Arc<str>, Arc<serde_json::Value>>;

/// The values of threads' keys that do not persist. They live as long as the process.
#[derive(Debug, Default)]
pub struct VolatileValues(Mutex<HashMap<Arc<str>, Arc<AsyncMutex<Values>>>>);

/// One thread's values while a commit that changes them is stored. Readers wait for it: otherwise they
/// could see the commit together with the values before it.
#[derive(Debug)]
#[must_use]
pub struct PendingValues {
    values: OwnedMutexGuard<Values>,
    updates: Vec<KeyUpdate>,
}

impl VolatileValues {
    /// Adds the wanted values to a state of the thread that was just read.
    pub async fn recall(&self, thread_id: &str, wanted: &KeyFilter, state: &mut State) {
        let values = self.threads().get(thread_id).cloned();
        let Some(values) = values else { return };
        for (key, value) in values.lock().await.iter().filter(|(key, _)| wanted.matches(key)) {
            state.set(key, Arc::clone(value));
        }
    }

    /// Keeps others from reading the values that these changes set. `None` if they set none.
    pub async fn lock(&self, thread_id: &Arc<str>, updates: Vec<KeyUpdate>) -> Option<PendingValues> {
        if updates.is_empty() {
            return None;
        }
        let values = self.of(thread_id).lock_owned().await;
        Some(PendingValues { values, updates })
    }

    /// Like [`lock`](Self::lock), for several threads and outside of a runtime.
    pub fn lock_all<'a>(
        &self,
        changes: impl Iterator<Item = (&'a Arc<str>, &'a StateChange)>,
    ) -> Vec<PendingValues> {
        let mut updates: BTreeMap<&Arc<str>, Vec<KeyUpdate>> = BTreeMap::new();
        for (thread_id, change) in changes {
            let volatile = volatile_updates(std::iter::once(change));
            if !volatile.is_empty() {
                updates.entry(thread_id).or_default().extend(volatile);
            }
        }
        let lock = |(thread_id, updates)| PendingValues {
            values: self.of(thread_id).blocking_lock_owned(),
            updates,
        };
        updates.into_iter().map(lock).collect()
    }

    fn of(&self, thread_id: &Arc<str>) -> Arc<AsyncMutex<Values>> {
        Arc::clone(self.threads().entry(Arc::clone(thread_id)).or_default())
    }

    fn threads(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<AsyncMutex<Values>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingValues {
    /// Sets the values, because the commit was stored.
    pub fn set(mut self) {
        for update in &self.updates {
            if let Some(value) = update.folded(self.values.remove(&update.key)) {
                self.values.insert(Arc::clone(&update.key), value);
            }
        }
    }
}

/// Returns the updates of a thread's keys that do not persist, which no record contains.
pub fn volatile_updates<'a>(changes: impl Iterator<Item = &'a StateChange>) -> Vec<KeyUpdate> {
    let is_volatile = |update: &&KeyUpdate| !update.persistent && update.scope == KeyScope::Thread;
    changes.flat_map(|change| change.updates.iter()).filter(is_volatile).cloned().collect()
}
