//! Checking a store, pruning it, and copying it into another.

use super::{AuditStore, ComponentStore, RunStore, SentCommand, StateStore, StoreError};
use async_trait::async_trait;
use serde::Serialize;

/// The result of checking the whole store.
#[derive(Debug, Clone, Default, Serialize)]
pub struct VerifyReport {
    /// The number of runs that were checked.
    pub runs: u64,
    /// The number of their events.
    pub events: u64,
    /// The number of events that an earlier version wrote without a checksum.
    pub without_checksum: u64,
    /// Runs whose record is damaged.
    pub damaged: Vec<DamagedRun>,
    /// Problems in the file itself.
    pub database: Vec<String>,
}

impl VerifyReport {
    /// Returns whether no problem was found.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.database.is_empty()
    }
}

/// A run whose record is damaged.
#[derive(Debug, Clone, Serialize)]
pub struct DamagedRun {
    /// The run's id.
    pub run_id: String,
    /// The first problem.
    pub problem: String,
}

/// A store whose whole content can be listed, so that another store can copy it.
#[async_trait]
pub trait CopySource: RunStore + StateStore + AuditStore + ComponentStore {
    /// Returns the store's place, by which an interrupted copy recognizes its source.
    fn place(&self) -> String;

    /// Returns the ids of all threads.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn thread_ids(&self) -> Result<Vec<String>, StoreError>;

    /// Returns the runs and the digests of the components that they called.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn run_components(&self) -> Result<Vec<(String, String)>, StoreError>;

    /// Returns the commands to a run that were not carried out, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn pending_commands(&self, run_id: &str) -> Result<Vec<SentCommand>, StoreError>;
}

/// The parameters of pruning.
#[derive(Debug, Clone, Copy)]
pub struct PruneOptions {
    /// Remove completed runs and audit records older than this time, in milliseconds since the
    /// Unix epoch.
    pub before_ms: u64,
    /// Only count them.
    pub dry_run: bool,
    /// Return the freed space to the file system. Other writers wait meanwhile; otherwise the
    /// space is used for later records.
    pub give_back: bool,
}

/// The result of pruning, or of a dry run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PruneReport {
    /// Whether they were only counted.
    pub dry_run: bool,
    /// The number of runs and direct calls.
    pub runs: u64,
    /// The number of their events.
    pub events: u64,
    /// The number of audit records.
    pub audit: u64,
    /// The number of components that runs still refer to.
    pub components_left: u64,
    /// The number of files of processes that are gone.
    pub processes: usize,
    /// Open runs that keep old runs of their thread, because they may need those runs' changes.
    /// Lists the first 20.
    pub held_back: Vec<BlockingRun>,
    /// Whether another process uses the store, so that the freed space was kept for later
    /// records.
    pub is_in_use: bool,
    /// Whether the freed space was kept for later records, because the disk has no room to return it. A
    /// store made by an earlier version needs as much room as its remaining records.
    pub lacks_room: bool,
    /// The number of bytes returned to the file system.
    pub freed_bytes: u64,
}

/// An open run that keeps others from being removed.
#[derive(Debug, Clone, Serialize)]
pub struct BlockingRun {
    /// The open run's id.
    pub run_id: String,
    /// `running` or `waiting`.
    pub status: String,
    /// The number of old runs of its thread that it keeps.
    pub runs: u64,
}
