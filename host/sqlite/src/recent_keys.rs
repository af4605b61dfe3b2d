//! The keys that the latest commits wrote. With them, most commits that were built on an older state
//! can be rebased without reading the changes that they missed from the database.

use std::collections::{HashMap, VecDeque};
use tollgate_agent::state::StateChange;
use tollgate_store::rules::WrittenKeys;

/// The maximum number of changes remembered per thread.
const MAX_CHANGES: usize = 1_024;
/// The maximum number of threads whose changes are remembered.
const MAX_THREADS: usize = 64;

/// The keys written by the latest changes of threads, by the thread's row.
#[derive(Default)]
pub(crate) struct RecentKeys {
    /// SQLite's data version when they were remembered.
    data_version: i64,
    threads: HashMap<i64, VecDeque<WrittenKeys>>,
}

impl RecentKeys {
    /// Forgets everything if the data version differs, since another process has committed then.
    pub(crate) fn check_version(&mut self, data_version: i64) {
        if data_version != self.data_version {
            self.data_version = data_version;
            self.threads.clear();
        }
    }

    /// Forgets everything, because the latest changes were not committed.
    pub(crate) fn clear(&mut self) {
        self.threads.clear();
    }

    /// Remembers the keys of a thread's newest change.
    pub(crate) fn push(&mut self, thread: i64, change: &StateChange) {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&thread) {
            self.threads.clear();
        }
        let changes = self.threads.entry(thread).or_default();
        if changes.back().is_some_and(|last| last.revision() + 1 != change.revision) {
            changes.clear();
        }
        if changes.len() >= MAX_CHANGES {
            changes.pop_front();
        }
        changes.push_back(WrittenKeys::of(change));
    }

    /// Returns the changes of a thread after one revision up to another, if all are remembered.
    pub(crate) fn between(
        &self,
        thread: i64,
        after: u64,
        until: u64,
    ) -> Option<impl Iterator<Item = &WrittenKeys>> {
        let changes = self.threads.get(&thread)?;
        let reaches = changes.front()?.revision() <= after + 1 && changes.back()?.revision() == until;
        reaches.then(|| changes.iter().filter(move |change| change.revision() > after))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use tollgate_agent::state::KeyUpdate;

    fn set(key: &str) -> StateChange {
        StateChange { revision: 1, updates: [KeyUpdate::restored(key, json!(1))].into() }
    }

    #[test]
    fn what_is_remembered_reaches_back_without_a_gap_or_not_at_all() {
        let mut recent = RecentKeys::default();
        let change = |revision| StateChange { revision, ..set("k.a") };
        (3..=5).for_each(|revision| recent.push(7, &change(revision)));
        assert_eq!(recent.between(7, 2, 5).unwrap().count(), 3);
        assert_eq!(recent.between(7, 4, 5).unwrap().count(), 1);
        assert!(recent.between(7, 1, 5).is_none() && recent.between(7, 2, 6).is_none());
        recent.push(7, &change(9));
        assert!(recent.between(7, 4, 9).is_none());
        recent.check_version(1);
        assert!(recent.between(7, 8, 9).is_none());
    }
}
