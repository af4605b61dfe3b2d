//! Rebasing commits: a commit built on an older state of its thread may still fit the newer one.
//!
//! Calls on one thread run concurrently, and most of their changes are independent: they write
//! different keys, or fold updates into a key with a commutative reducer. Such a commit is moved
//! behind the changes it missed. Nothing is decided again, and the cost does not grow with the
//! number of waiting calls.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tollgate_agent::run::StoredEvent;
use tollgate_agent::state::change::MAX_VALUE_BYTES;
use tollgate_agent::state::key::owner_of;
use tollgate_agent::state::{KeyScope, KeyUpdate, StateChange};

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
    keys: Vec<(Arc<str>, bool)>,
}

impl WrittenKeys {
    /// Returns the keys that this change wrote.
    #[must_use]
    pub fn of(change: &StateChange) -> Self {
        let keys = of_thread(change).map(|update| (Arc::clone(&update.key), update.fold.is_some()));
        Self { revision: change.revision, keys: keys.collect() }
    }

    /// Reads what [`text`](Self::text) wrote. `None` if it is something else.
    #[must_use]
    pub fn parse(revision: u64, text: &str) -> Option<Self> {
        let keys: Vec<(String, bool)> = serde_json::from_str(text).ok()?;
        Some(Self {
            revision,
            keys: keys.into_iter().map(|(key, folded)| (Arc::from(key), folded)).collect(),
        })
    }

    /// Returns the keys as a store keeps them beside the change, which may be long.
    #[must_use]
    pub fn text(&self) -> String {
        let keys: Vec<(&str, bool)> = self.keys.iter().map(|(key, folded)| (&**key, *folded)).collect();
        serde_json::to_string(&keys).unwrap_or_default()
    }

    /// Returns the revision of the change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns whether a change that did not see this one is still correct after it.
    #[must_use]
    pub fn permits(&self, change: &StateChange) -> bool {
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
        let permits = |earlier: &StateChange, later: &StateChange| WrittenKeys::of(earlier).permits(later);
        assert!(permits(&appended("k.a", true), &appended("k.a", true)));
        assert!(permits(&set("k.a"), &set("k.b")));
        assert!(!permits(&set("k.a"), &appended("k.a", true)));
        assert!(!permits(&appended("k.a", true), &set("k.a")));
        assert!(!permits(&appended("k.a", false), &appended("k.a", false)));
        for change in [appended("k.a", true), set("k.\"b")] {
            let keys = WrittenKeys::of(&change);
            assert_eq!(WrittenKeys::parse(1, &keys.text()).unwrap().keys, keys.keys);
        }
        assert!(WrittenKeys::parse(1, "{}").is_none());
    }
}
