//! The owners of waiting calls and tasks, none of which may push out those of others.

use std::cmp::Reverse;
use std::collections::HashMap;

/// Returns the owner in a stored thread's id: the principal of a mounted server, else the session.
pub(super) fn owner_of(thread_id: &str) -> &str {
    thread_id.split_once('/').map_or(thread_id, |(owner, _)| owner)
}

/// Returns the place of the oldest entry of the owner whose entries are largest together, so that
/// no owner can push out the entries of others.
pub(super) fn oldest_of_largest_owner<'a>(entries: impl Iterator<Item = (&'a str, usize)>) -> usize {
    let mut owners: HashMap<&str, (usize, usize)> = HashMap::new();
    for (at, (owner, size)) in entries.enumerate() {
        owners.entry(owner).or_insert((0, at)).0 += size;
    }
    owners.into_values().max_by_key(|&(size, first)| (size, Reverse(first))).map_or(0, |(_, first)| first)
}
