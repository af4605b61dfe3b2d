//! The values of keys that do not persist, for stores that keep everything else outside of the process.

use super::KeyFilter;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tollgate_agent::state::{KeyScope, KeyUpdate, State, StateChange};

/// The maximum size of all threads' values together, in bytes as the limits of states count them. One thread
/// may have more, up to its own limit.
const MAX_BYTES: usize = 128 * 1024 * 1024;
/// The maximum number of threads with values.
const MAX_THREADS: usize = 10_000;

/// The values of threads' keys that do not persist. They live as long as the process; if there are too many,
/// those of the least recently used threads are dropped.
#[derive(Debug, Default)]
pub struct VolatileValues(Arc<Threads>);

#[derive(Debug, Default)]
struct Threads {
    values: Mutex<ThreadMap>,
    /// Announces that a commit is no longer pending.
    settled: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct ThreadMap {
    threads: HashMap<Arc<str>, ThreadValues>,
    /// The size of all values, in bytes.
    bytes: usize,
    /// The number of times that any thread's values were used.
    uses: u64,
}

#[derive(Debug, Default)]
struct ThreadValues {
    state: State,
    bytes: usize,
    /// The value of [`ThreadMap::uses`] when this thread was last used.
    last_use: u64,
    /// Whether a commit that changes these values is being stored.
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
    change: StateChange,
}

impl VolatileValues {
    /// Adds the wanted values to a state of the thread that was just read.
    pub async fn recall(&self, thread_id: &str, wanted: &KeyFilter, state: &mut State) {
        let recalled = self.retry_when_settled(|threads| {
            let Some(thread) = threads.get(thread_id) else { return Some(()) };
            if thread.is_pending {
                return None;
            }
            for key in thread.state.keys().filter(|key| wanted.matches(key)) {
                state.adopt_key(&thread.state, key);
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
        let locked = self.retry_when_settled(|threads| {
            let thread = threads.get_or_create(thread_id);
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
            threads.get_or_create(thread_id).is_pending = true;
        }
        updates.into_iter().map(|(thread_id, updates)| self.pending(thread_id, updates)).collect()
    }

    /// Returns the size of a thread's values, in bytes.
    #[must_use]
    pub fn bytes(&self, thread_id: &str) -> usize {
        self.0.lock().threads.get(thread_id).map_or(0, |thread| thread.bytes)
    }

    fn pending(&self, thread_id: &Arc<str>, updates: Vec<KeyUpdate>) -> PendingValues {
        let change = StateChange { revision: 0, updates: updates.into() };
        PendingValues { threads: Arc::clone(&self.0), thread_id: Arc::clone(thread_id), change }
    }

    /// Calls `attempt` until it returns a result: once now, and again whenever a commit is no longer pending.
    async fn retry_when_settled<T>(&self, mut attempt: impl FnMut(&mut ThreadMap) -> Option<T>) -> T {
        let mut settled = self.0.settled.subscribe();
        loop {
            let result = attempt(&mut self.0.lock());
            if let Some(result) = result {
                return result;
            }
            // The sender lives as long as `self`.
            let _ = settled.changed().await;
        }
    }
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, ThreadMap> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThreadMap {
    /// Returns the values of a thread that has some, and counts the use.
    fn get(&mut self, thread_id: &str) -> Option<&mut ThreadValues> {
        self.uses += 1;
        let thread = self.threads.get_mut(thread_id)?;
        thread.last_use = self.uses;
        Some(thread)
    }

    /// Returns the values of a thread, with an entry for one that has none, and counts the use.
    fn get_or_create(&mut self, thread_id: &Arc<str>) -> &mut ThreadValues {
        self.uses += 1;
        let thread = self.threads.entry(Arc::clone(thread_id)).or_default();
        thread.last_use = self.uses;
        thread
    }

    /// If there are too many values, removes those of the least recently used threads, and some more, so that
    /// this is seldom done. Those of a thread whose commit is being stored stay. Returns the removed values, so
    /// that the caller can drop them without the lock.
    fn evict(&mut self) -> Vec<ThreadValues> {
        let mut removed = Vec::new();
        if self.bytes <= MAX_BYTES && self.threads.len() <= MAX_THREADS {
            return removed;
        }
        let removable = self.threads.iter().filter(|(_, thread)| !thread.is_pending);
        let mut oldest: Vec<_> = removable.map(|(id, thread)| (thread.last_use, Arc::clone(id))).collect();
        oldest.sort_unstable();
        for (_, thread_id) in oldest {
            if self.bytes <= MAX_BYTES / 8 * 7 && self.threads.len() <= MAX_THREADS / 8 * 7 {
                break;
            }
            if let Some(thread) = self.threads.remove(&thread_id) {
                self.bytes -= thread.bytes;
                removed.push(thread);
            }
        }
        removed
    }
}

impl PendingValues {
    /// Sets the values, because the commit was stored.
    pub fn set(self) {
        // The values may be long. Others do not look at them until the commit is no longer pending.
        let mut state = std::mem::take(&mut self.threads.lock().get_or_create(&self.thread_id).state);
        state.apply(&self.change);
        // Fold the updates into the values now, so that all readers share the results.
        for update in &*self.change.updates {
            let _ = state.shared(&update.key);
        }
        let bytes = state.bytes();
        let mut threads = self.threads.lock();
        let thread = threads.get_or_create(&self.thread_id);
        let before = std::mem::replace(&mut thread.bytes, bytes);
        thread.state = state;
        threads.bytes = threads.bytes - before + bytes;
        let evicted = threads.evict();
        drop(threads);
        drop(evicted);
    }
}

impl Drop for PendingValues {
    fn drop(&mut self) {
        let mut threads = self.threads.lock();
        if let Some(thread) = threads.threads.get_mut(&self.thread_id) {
            thread.is_pending = false;
            if thread.state.keys().next().is_none() {
                threads.threads.remove(&self.thread_id);
            }
        }
        drop(threads);
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

    #[tokio::test]
    async fn z3_the_values_of_the_least_recently_used_threads_are_dropped() {
        let values = VolatileValues::default();
        let text = Arc::new(Value::from("x".repeat(20 << 20)));
        let set = async |thread: &str| {
            let (thread_id, value) = (Arc::from(thread), Some(Arc::clone(&text)));
            let (key, scope) = (Arc::from("k"), KeyScope::Thread);
            let update =
                KeyUpdate { key, scope, persistent: false, update: value.clone(), value, fold: None };
            values.lock(&thread_id, vec![update]).await.unwrap().set();
        };
        let has = async |thread: &str| {
            let mut state = State::default();
            values.recall(thread, &KeyFilter::All, &mut state).await;
            state.get("k").is_some()
        };
        for thread in ["a", "b", "c", "d", "e", "f"] {
            set(thread).await;
        }
        assert!(has("a").await, "six fit");
        set("g").await;
        for thread in ["b", "c"] {
            assert!(!has(thread).await, "{thread} was least recently used");
        }
        for thread in ["a", "d", "e", "f", "g"] {
            assert!(has(thread).await, "{thread}");
        }
    }
}
