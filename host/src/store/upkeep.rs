//! What is found wrong with a store, and what is removed from it.

use serde::Serialize;
use std::sync::Arc;
use tollgate_agent::run::StoredEvent;

/// The record of a run, as far as it can be read.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// Its events, in order.
    pub events: Vec<Arc<StoredEvent>>,
    /// The first thing that is wrong with it. `None` if nothing was found.
    pub damage: Option<String>,
    /// How many events an earlier version wrote without a checksum.
    pub without_checksum: u64,
}

/// What a check of the whole store found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verified {
    /// The runs that were checked.
    pub runs: u64,
    /// Their events.
    pub events: u64,
    /// Events that an earlier version wrote without a checksum.
    pub without_checksum: u64,
    /// Runs whose record is damaged.
    pub damaged: Vec<DamagedRun>,
    /// What is wrong with the file itself.
    pub database: Vec<String>,
}

impl Verified {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.database.is_empty()
    }
}

/// A run whose record is damaged.
#[derive(Debug, Clone, Serialize)]
pub struct DamagedRun {
    /// The run.
    pub run_id: String,
    /// What is wrong first.
    pub problem: String,
}

/// What is to be removed from a store.
#[derive(Debug, Clone, Copy)]
pub struct Pruning {
    /// Completed runs and audit records older than this moment, in milliseconds since the
    /// Unix epoch.
    pub before_ms: u64,
    /// Only count them.
    pub dry_run: bool,
    /// Give their room back to the file system. Others wait to write meanwhile; without it,
    /// the room is used for later records.
    pub give_back: bool,
}

/// What was removed from a store, or would be.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Pruned {
    /// Whether it was only counted.
    pub dry_run: bool,
    /// Runs and direct calls.
    pub runs: u64,
    /// Their events.
    pub events: u64,
    /// Audit records.
    pub audit: u64,
    /// Components that runs still refer to.
    pub components_left: u64,
    /// Files of processes that are gone.
    pub processes: usize,
    /// Open runs that keep old ones of their thread, as they may need their changes. The first 20 of them.
    pub held_back: Vec<HoldsBack>,
    /// Whether another process uses the store, so that the room was kept for later records.
    pub is_in_use: bool,
    /// Bytes that the file system got back.
    pub freed_bytes: u64,
}

/// An open run that keeps others from being removed.
#[derive(Debug, Clone, Serialize)]
pub struct HoldsBack {
    /// The open run.
    pub run_id: String,
    /// `running` or `waiting`.
    pub status: String,
    /// How many old runs of its thread it keeps.
    pub runs: u64,
}
