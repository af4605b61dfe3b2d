//! The latest changes of a thread for whose keys calls contend, without the values that they led to.
//!
//! Such calls commit one after another, and each has to know the changes that it missed. A record
//! holds whole values, so if each waiting call read the records, the work would grow with the square
//! of the number of calls. They share the changes instead, and read the values once: the current
//! ones.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use tollgate_agent::state::{KeyUpdate, StateChange};

/// The most memory for the changes of one thread, in bytes. Older ones are read from the store.
const MAX_BYTES: usize = 1024 * 1024;

/// The size of an update beside its content, in bytes.
const UPDATE_BYTES: usize = 128;

/// The latest changes of a thread, as [outlines](StateChange::outlined), by revision.
#[derive(Debug, Default)]
pub(crate) struct RecentChanges {
    changes: BTreeMap<u64, StateChange>,
    bytes: usize,
}

impl RecentChanges {
    /// Adds a change that was committed, and drops the oldest ones if all are too large together.
    pub(crate) fn push(&mut self, change: &StateChange) {
        let change = change.outlined();
        self.bytes += bytes(&change);
        let replaced = self.changes.insert(change.revision, change);
        self.bytes -= replaced.map_or(0, |replaced| bytes(&replaced));
        while self.bytes > MAX_BYTES
            && let Some((_, oldest)) = self.changes.pop_first()
        {
            self.bytes -= bytes(&oldest);
        }
    }

    /// Returns the changes that follow a revision without a gap.
    pub(super) fn following(&self, revision: u64) -> Vec<StateChange> {
        let following = self.changes.range(revision + 1..).zip(revision + 1..);
        following.map_while(|((at, change), next)| (*at == next).then(|| change.clone())).collect()
    }

    /// Returns the number of changes after a revision that are missing before the next known one;
    /// `None` if no later one is known.
    pub(super) fn gap_after(&self, revision: u64) -> Option<u64> {
        let (next, _) = self.changes.range((Excluded(revision), Unbounded)).next()?;
        Some(next - revision - 1)
    }
}

fn bytes(change: &StateChange) -> usize {
    change.updates.iter().map(|update| UPDATE_BYTES + update.key.len() + KeyUpdate::bytes(update)).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn change(revision: u64, value: serde_json::Value) -> StateChange {
        StateChange { revision, updates: [KeyUpdate::restored("k.a", value)].into() }
    }

    fn revisions(changes: &[StateChange]) -> Vec<u64> {
        changes.iter().map(|change| change.revision).collect()
    }

    #[test]
    fn changes_follow_a_revision_up_to_the_first_gap() {
        let mut recent = RecentChanges::default();
        for revision in [5, 3, 4, 8] {
            recent.push(&change(revision, json!({"a": "x".repeat(1_000)})));
        }
        assert_eq!(revisions(&recent.following(2)), [3, 4, 5]);
        assert_eq!((recent.following(1).len(), recent.gap_after(1)), (0, Some(1)));
        assert_eq!((recent.following(5).len(), recent.gap_after(5)), (0, Some(2)));
        assert_eq!((recent.following(8).len(), recent.gap_after(8)), (0, None));
        assert!(recent.bytes < 1_000, "{} bytes for outlines", recent.bytes);
    }

    #[test]
    fn the_oldest_changes_are_dropped_first() {
        let mut recent = RecentChanges::default();
        let members: serde_json::Map<_, _> = (0..20_000).map(|n| (n.to_string(), json!(1))).collect();
        for revision in 1..=20 {
            recent.push(&change(revision, json!(members)));
        }
        assert!(recent.bytes <= MAX_BYTES && recent.following(0).is_empty());
        assert_eq!(recent.following(19).len(), 1);
    }
}
