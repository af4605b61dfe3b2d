//! The values of keys that do not persist, for stores that keep everything else outside of the process.

use super::KeyFilter;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tollgate_agent::state::{KeyScope, KeyUpdate, State, StateChange};

/// The values of threads' keys that do not persist. They live as long as the process.
#[derive(Debug, Default)]
pub struct VolatileValues(Arc<Threads>);

#[derive(Debug, Default)]
struct Threads {
    values: Mutex<HashMap<Arc<str>, ThreadValues>>,
    /// Announces that a commit is no longer pending.
    settled: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct ThreadValues {
    values: BTreeMap<Arc<str>, Arc<serde_json::Value>>,
    /// Whether a commit that changes them is being stored.
    is_pending: bool,
}

/// One thread's values while a commit that changes them is stored. Readers wait for it: otherwise they
/// could see the commit together with the values before it. They own nothing while they wait, so a reader
/// that is not polled delays no commit.
#[derive(Debug)]
#[must_use]
pub struct PendingValues {
    threads: Arc<Threads>,
    thread_id: Arc<str>,
    updates: Vec<KeyUpdate>,
}

impl VolatileValues {
    /// Adds the wanted values to a state of the thread that was just read.
    pub async fn recall(&self, thread_id: &str, wanted: &KeyFilter, state: &mut State) {
        let recalled = self.settled(|threads| {
            let Some(thread) = threads.get(thread_id) else { return Some(()) };
            if thread.is_pending {
                return None;
            }
            for (key, value) in thread.values.iter().filter(|(key, _)| wanted.matches(key)) {
                state.set(key, Arc::clone(value));
            }
            Some(())
        });
        recalled.await;
    }

    /// Keeps others from reading the values that these updates set. Waits for another commit to the same
    /// thread's values. `None` if there are no updates.
    pub async fn lock(&self, thread_id: &Arc<str>, updates: Vec<KeyUpdate>) -> Option<PendingValues> {
        if updates.is_empty() {
            return None;
        }
        let locked = self.settled(|threads| {
            let thread = threads.entry(Arc::clone(thread_id)).or_default();
            (!std::mem::replace(&mut thread.is_pending, true)).then_some(())
        });
        locked.await;
        Some(self.pending(thread_id, updates))
    }

    /// Like [`lock`](Self::lock), for several threads and without waiting: for a store whose commits
    /// follow each other.
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
        let mut threads = self.0.lock();
        for thread_id in updates.keys() {
            threads.entry(Arc::clone(thread_id)).or_default().is_pending = true;
        }
        updates.into_iter().map(|(thread_id, updates)| self.pending(thread_id, updates)).collect()
    }

    fn pending(&self, thread_id: &Arc<str>, updates: Vec<KeyUpdate>) -> PendingValues {
        PendingValues { threads: Arc::clone(&self.0), thread_id: Arc::clone(thread_id), updates }
    }

    /// Tries until there is a result, whenever a commit is no longer pending.
    async fn settled<T>(
        &self,
        mut attempt: impl FnMut(&mut HashMap<Arc<str>, ThreadValues>) -> Option<T>,
    ) -> T {
        let mut settled = self.0.settled.subscribe();
        loop {
            let attempted = attempt(&mut self.0.lock());
            if let Some(done) = attempted {
                return done;
            }
            // The sender lives as long as `self`.
            let _ = settled.changed().await;
        }
    }
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, ThreadValues>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingValues {
    /// Sets the values, because the commit was stored.
    pub fn set(mut self) {
        let mut threads = self.threads.lock();
        let values = &mut threads.entry(Arc::clone(&self.thread_id)).or_default().values;
        for update in std::mem::take(&mut self.updates) {
            if let Some(value) = update.folded(values.remove(&update.key)) {
                values.insert(Arc::clone(&update.key), value);
            }
        }
    }
}

impl Drop for PendingValues {
    fn drop(&mut self) {
        if let Some(thread) = self.threads.lock().get_mut(&self.thread_id) {
            thread.is_pending = false;
        }
        self.threads.settled.send_replace(());
    }
}

/// Returns the updates of a thread's keys that do not persist, which no record contains.
pub fn volatile_updates<'a>(changes: impl Iterator<Item = &'a StateChange>) -> Vec<KeyUpdate> {
    let is_volatile = |update: &&KeyUpdate| !update.persistent && update.scope == KeyScope::Thread;
    changes.flat_map(|change| change.updates.iter()).filter(is_volatile).cloned().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::Value;
    use std::pin::Pin;
    use std::task::Poll;

    async fn is_ready<F: Future>(mut future: Pin<&mut F>) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn a_waiting_reader_that_is_not_polled_delays_no_commit() {
        let (values, thread_id) = (VolatileValues::default(), Arc::<str>::from("t"));
        let updates = || {
            let value = Some(Arc::new(Value::from(1)));
            let key = Arc::from("k");
            let scope = KeyScope::Thread;
            vec![KeyUpdate { key, scope, persistent: false, update: value.clone(), value, fold: None }]
        };
        let first = values.lock(&thread_id, updates()).await.unwrap();
        let mut state = State::default();
        {
            let mut reader = std::pin::pin!(values.recall("t", &KeyFilter::All, &mut state));
            assert!(!is_ready(reader.as_mut()).await, "the reader waits");
            drop(first);
            let second = values.lock(&thread_id, updates()).await.unwrap();
            assert!(!is_ready(reader.as_mut()).await, "the reader waits for the second commit");
            second.set();
            assert!(is_ready(reader).await, "the reader goes on");
        }
        assert_eq!(state.get("k"), Some(&Value::from(1)));
    }
}
