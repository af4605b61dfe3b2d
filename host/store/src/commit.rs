//! Commits: what is stored as one unit, and when it is durable.

use super::{AuditRecord, ComponentFile};
use std::any::Any;
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::message::Message;
use tollgate_agent::run::{Event, StoredEvent};

/// When a commit is answered, and so what a crash may lose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The commit is answered once it is stored. No crash loses it.
    #[default]
    Durable,
    /// The commit may be answered before it is stored. It is stored with the next group of
    /// commits, within 50 ms, or when the store is closed. If the process or the machine crashes
    /// before that, it is lost. In the process that made it, readers of runs and of the audit
    /// wait until it is stored; if it cannot be stored, [`flush`](super::RunStore::flush) reports
    /// that.
    ///
    /// The host uses it for a whole direct call of an idempotent tool that changed nothing, and
    /// for nothing else. A store without a benefit from it may treat it as
    /// [`Durable`](Self::Durable), as the stores in memory and in PostgreSQL do.
    Deferred,
}

/// The data that is stored as one unit.
#[derive(Debug, Default)]
pub struct Commit {
    pub(super) run_id: Arc<str>,
    /// The run's thread.
    pub thread_id: Arc<str>,
    /// Whether the run waits for a host that claims it, and its caller does not drive it. Only
    /// for the first commit of a run.
    pub queued: bool,
    /// The epoch in which the caller drives the run: 1 for the driver that began it, what
    /// [`acquire`](super::CoordinationStore::acquire) or [`claim`](super::CoordinationStore::claim) returned, or 0 for a queued run, which has no driver.
    pub epoch: u64,
    pub(super) after: u64,
    pub(super) at_ms: u64,
    pub(super) events: Arc<[StoredEvent]>,
    /// Messages to append to the thread's conversation.
    pub messages: Vec<Message>,
    /// The component that causes each of the events, if any; may be shorter than the events.
    pub charged: Vec<Option<SmolStr>>,
    /// The audit records of the commit. Those of a run are charged to the thread, and to their components.
    pub audit: Vec<AuditRecord>,
    /// The components that the events refer to, for a store that keeps them.
    pub components: Vec<ComponentFile>,
    /// The ids of the commands that the commit carries out, which are removed with it. A commit
    /// that ends a run removes all of its commands.
    pub carries_out: Vec<Arc<str>>,
    /// The maximum total size of one owner's values in the thread. The events were decided within
    /// it; a store that moves them behind changes of others checks it again.
    pub thread_state_bytes: Option<usize>,
    /// Whether the commit is stored before it is answered.
    pub durability: Durability,
    /// The reservations of its memory, if it is large. A store drops them with the commit, so they
    /// cover a deferred commit until it is stored.
    pub memory: Option<Arc<dyn Any + Send + Sync>>,
}

impl Commit {
    /// Creates a commit of these events only. They happened in a run of this thread after the
    /// first `after` events, which the caller knows, at this time in milliseconds since the Unix
    /// epoch.
    #[must_use]
    pub fn new(
        run_id: Arc<str>,
        thread_id: Arc<str>,
        after: u64,
        at_ms: u64,
        events: impl IntoIterator<Item = Event>,
    ) -> Self {
        let events = StoredEvent::list(&run_id, after, at_ms, events);
        Self { run_id, thread_id, epoch: 1, after, at_ms, events, ..Self::default() }
    }

    /// Returns the run of the events.
    #[must_use]
    pub fn run_id(&self) -> &Arc<str> {
        &self.run_id
    }

    /// Returns the number of the run's events that the caller knows.
    #[must_use]
    pub fn after(&self) -> u64 {
        self.after
    }

    /// Returns the time in milliseconds since the Unix epoch.
    #[must_use]
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Returns the events, numbered from `after`. The changes in them count on from the thread's
    /// revision.
    #[must_use]
    pub fn events(&self) -> &Arc<[StoredEvent]> {
        &self.events
    }
}

/// The result of a commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommitReceipt {
    /// The number of other commits' changes that this commit's changes were moved behind.
    pub moved: u64,
}
