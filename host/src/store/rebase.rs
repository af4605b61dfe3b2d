//! Rebasing commits: a commit built on an older state of its thread may still fit the newer one.
//!
//! Calls on one thread run concurrently, and most of their changes are independent: they write
//! different keys, or fold updates into a key with a commutative reducer. Such a commit is moved
//! behind the changes it missed. Nothing is decided again, and the cost does not grow with the
//! number of waiting calls.

use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tollgate_agent::run::StoredEvent;
use tollgate_agent::state::change::MAX_VALUE_BYTES;
use tollgate_agent::state::key::owner_of;
use tollgate_agent::state::{KeyScope, KeyUpdate, StateChange};

/// The maximum number of changes remembered per thread, and of threads.
const MAX_CHANGES: usize = 1_024;
const MAX_THREADS: usize = 64;

/// Returns the events of a commit, moved behind this many changes of others. Events before the
/// commit's first change happened on the older state and keep their revision.
#[must_use]
pub fn moved(events: &Arc<[StoredEvent]>, revisions: u64) -> Arc<[StoredEvent]> {
    let first = events.iter().position(|event| event.event.change().is_some());
    let Some(first) = first.filter(|_| revisions > 0) else { return Arc::clone(events) };
    let mut events = events.to_vec();
    events[first..].iter_mut().for_each(|event| event.event.move_by(revisions));
    events.into()
}

/// The thread's keys that a change wrote, and whether each was folded.
#[derive(Debug, Clone)]
pub struct WrittenKeys {
    revision: u64,
    keys: SmallVec<[(Arc<str>, bool); 2]>,
}

impl WrittenKeys {
    /// Returns the keys that this change wrote.
    #[must_use]
    pub fn of(change: &StateChange) -> Self {
        let keys = of_thread(change).map(|update| (Arc::clone(&update.key), update.fold.is_some()));
        Self { revision: change.revision, keys: keys.collect() }
    }

    /// Returns whether a change that did not see this one is still correct after it.
    #[must_use]
    pub fn lets_by(&self, change: &StateChange) -> bool {
        of_thread(change).all(|update| {
            let is_free = update.fold.as_ref().is_some_and(|fold| fold.is_free);
            self.keys.iter().all(|(key, folded)| *key != update.key || (is_free && *folded))
        })
    }
}

/// Returns whether the values stay within their limits after what others added meanwhile: each
/// value, and the total of each owner in the thread. `stored` returns upper bounds of the sizes
/// of an owner's values, by key. A commit that does not fit is decided again on the current state.
///
/// # Errors
/// Those of `stored`.
pub fn sizes_fit<'c, E>(
    changes: impl Iterator<Item = &'c StateChange>,
    thread_state_bytes: Option<usize>,
    mut stored: impl FnMut(&'c str) -> Result<HashMap<String, usize>, E>,
) -> Result<bool, E> {
    let mut owners: HashMap<&str, (usize, HashMap<String, usize>)> = HashMap::new();
    for update in changes.flat_map(of_thread) {
        let owner = owner_of(&update.key);
        let (_, sizes) = match owners.entry(owner) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let sizes = stored(owner)?;
                new.insert((sizes.values().sum(), sizes))
            }
        };
        let size = sizes.entry(update.key.to_string()).or_default();
        if update.fold.is_some() {
            *size += update.bytes();
            if *size >= MAX_VALUE_BYTES {
                return Ok(false);
            }
        } else {
            *size = update.bytes();
        }
    }
    let limit = thread_state_bytes.unwrap_or(usize::MAX);
    Ok(owners.values().all(|(before, sizes)| {
        let after: usize = sizes.values().sum();
        after <= *before || after <= limit
    }))
}

fn of_thread(change: &StateChange) -> impl Iterator<Item = &KeyUpdate> {
    change.updates.iter().filter(|update| update.scope == KeyScope::Thread)
}

/// The keys written by the latest changes of threads, by the thread's row.
#[derive(Default)]
pub(super) struct Recent {
    version: i64,
    threads: HashMap<i64, VecDeque<WrittenKeys>>,
}

impl Recent {
    /// Forgets everything if another process has committed since.
    pub(super) fn see(&mut self, version: i64) {
        if version != self.version {
            self.version = version;
            self.threads.clear();
        }
    }

    /// Forgets everything, because the latest changes were not committed.
    pub(super) fn clear(&mut self) {
        self.threads.clear();
    }

    pub(super) fn note(&mut self, thread: i64, change: &StateChange) {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&thread) {
            self.threads.clear();
        }
        let changes = self.threads.entry(thread).or_default();
        if changes.back().is_some_and(|last| last.revision + 1 != change.revision) {
            changes.clear();
        }
        if changes.len() >= MAX_CHANGES {
            changes.pop_front();
        }
        changes.push_back(WrittenKeys::of(change));
    }

    /// Returns the changes of a thread after one revision up to another, if all are remembered.
    pub(super) fn between(
        &self,
        thread: i64,
        after: u64,
        until: u64,
    ) -> Option<impl Iterator<Item = &WrittenKeys>> {
        let changes = self.threads.get(&thread)?;
        let reaches = changes.front()?.revision <= after + 1 && changes.back()?.revision == until;
        reaches.then(|| changes.iter().filter(move |change| change.revision > after))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use tollgate_agent::state::{Fold, Reducer};

    fn appended(key: &str, is_free: bool) -> StateChange {
        let fold = Some(Fold { reducer: Reducer::Append, initial: None, is_free });
        let update = KeyUpdate { value: None, fold, ..KeyUpdate::restored(key, json!(1)) };
        StateChange { revision: 1, updates: [update].into() }
    }

    fn set(key: &str) -> StateChange {
        StateChange { revision: 1, updates: [KeyUpdate::restored(key, json!(1))].into() }
    }

    #[test]
    fn s5_only_what_others_did_not_touch_or_what_commutes_is_moved() {
        let lets_by = |earlier: &StateChange, later: &StateChange| WrittenKeys::of(earlier).lets_by(later);
        assert!(lets_by(&appended("k.a", true), &appended("k.a", true)));
        assert!(lets_by(&set("k.a"), &set("k.b")));
        assert!(!lets_by(&set("k.a"), &appended("k.a", true)));
        assert!(!lets_by(&appended("k.a", true), &set("k.a")));
        assert!(!lets_by(&appended("k.a", false), &appended("k.a", false)));
    }

    #[test]
    fn what_is_remembered_reaches_back_without_a_gap_or_not_at_all() {
        let mut recent = Recent::default();
        let change = |revision| StateChange { revision, ..set("k.a") };
        (3..=5).for_each(|revision| recent.note(7, &change(revision)));
        assert_eq!(recent.between(7, 2, 5).unwrap().count(), 3);
        assert_eq!(recent.between(7, 4, 5).unwrap().count(), 1);
        assert!(recent.between(7, 1, 5).is_none() && recent.between(7, 2, 6).is_none());
        recent.note(7, &change(9));
        assert!(recent.between(7, 4, 9).is_none());
        recent.see(1);
        assert!(recent.between(7, 8, 9).is_none());
    }
}
