//! Storage of events, and of what is derived from them.
//!
//! A [`Store`] is the sum of five traits:
//!
//! | trait | what it keeps |
//! |---|---|
//! | [`RunStore`] | the record of each run: its events, appended by [`Commit`]s |
//! | [`StateStore`] | the state and the conversation of each thread |
//! | [`AuditStore`] | audit records, and the health of tools |
//! | [`ComponentStore`] | the components that runs called |
//! | [`CoordinationStore`] | which process drives which run, and commands to runs |
//!
//! A commit is atomic: it is stored as a whole or not at all. Clients receive only what was
//! committed before. A commit is `Durable` or `Deferred`; see [`Durability`]. Errors have a
//! [kind](StoreErrorKind).
//!
//! The keys of requests that start a run at most once have a trait of their own: see
//! [`RequestKeyStore`].
//!
//! A [`MemoryStore`] ends with the process. A custom store may keep everything elsewhere, or wrap
//! another store and add to it. [`rules`] has what all stores share.

mod audit;
mod charges;
mod checksum;
mod commands;
mod commit;
mod commit_rows;
mod component;
mod coordination_store;
mod error;
mod joined_change;
mod limits;
pub mod memory;
mod rebase;
mod request_keys;
pub mod rules;
mod run_store;
mod runs;
mod state_store;
mod upkeep;
mod volatile;

pub use audit::{AuditFilter, AuditKind, AuditRecord, AuditStore, ToolHealth};
pub use commands::{ClaimedRun, Hint, HintSender, Hints, ReadAtClaim, RunCommand, SentCommand};
pub use commit::{Commit, CommitReceipt, Durability};
pub use component::{ComponentFile, ComponentSource, ComponentStore};
pub use coordination_store::{CoordinationStore, QueueTurn};
pub use error::{CommitError, Remedy, StoreError, StoreErrorKind};
pub use limits::StoreLimits;
pub use memory::MemoryStore;
pub use request_keys::{KEEP_KEYS_MS, KEYS_REMOVED_AT_ONCE, RequestKey, RequestKeyStore, ReservedKey};
pub use run_store::{EventPage, PageLimit, RecordReader, RunStore, list_threads};
pub use runs::{
    MAX_THREAD_RUNS, Record, RunFilter, RunOwner, RunSummary, SHORT_ID_CHARS, ThreadFilter, ThreadSummary,
    short_id,
};
pub use state_store::{
    KeyFilter, MAX_CHANGES_BYTES, StateRead, StateStore, ThreadRead, ThreadSize, restore_state, whole_state,
};
pub use upkeep::{BlockingRun, CopySource, DamagedRun, PruneOptions, PruneReport, VerifyReport};
pub use volatile::{PendingValues, VolatileValues, volatile_updates};

use std::time::{SystemTime, UNIX_EPOCH};

/// A store of everything that a host records. Every type that implements the five traits is one.
///
/// Before a commit returns, its effects do not start and no client receives its events.
pub trait Store: RunStore + StateStore + AuditStore + ComponentStore + CoordinationStore {}

impl<T> Store for T where T: RunStore + StateStore + AuditStore + ComponentStore + CoordinationStore + ?Sized {}

/// Returns the time of records, in milliseconds since the Unix epoch.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
