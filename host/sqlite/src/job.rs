//! Write jobs: what the writer thread is asked to write, and how it answers.

use super::process::Process;
use super::sizes::Bytes;
use rusqlite::Connection;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::oneshot;
use tollgate_agent::health::HealthSign;
use tollgate_agent::run::{Event, RunSpec};
use tollgate_agent::state::{KeyScope, KeyUpdate, StateChange};
use tollgate_store::rules::{CHECKSUM_BYTES, CommitRows, MovedRows, checksum, serialize};
use tollgate_store::{AuditRecord, Commit, CommitError, CommitReceipt, StoreError};

/// The channel of a job's answer.
pub(super) type Reply<T> = oneshot::Sender<T>;

/// A write job and its reply channel.
pub(super) enum Job {
    Commit(Box<PreparedCommit>, Reply<JobResult>),
    /// A deferred commit: no caller waits for it.
    Deferred(Box<PreparedCommit>),
    /// Waits until all earlier deferred commits are written.
    Flush(Reply<()>),
    Note(Vec<AuditRecord>, Reply<Result<(), StoreError>>),
    Change(Box<PreparedChange>, Reply<JobResult>),
    /// Other statements of the same transaction.
    Other(Statements, Reply<Result<(), StoreError>>),
}

/// The statements of a job. They may run again if the transaction failed.
pub(super) type Statements = Box<dyn Fn(&Connection, &Process) -> rusqlite::Result<()> + Send>;

/// The result of a job.
pub(super) type JobResult = Result<CommitReceipt, CommitError>;

/// A checksum of an event.
type Sum = [u8; CHECKSUM_BYTES];

/// A commit with everything that is written for it. The caller prepares it, instead of the thread that
/// writes for all.
pub(super) struct PreparedCommit {
    pub(super) commit: Commit,
    pub(super) rows: CommitRows,
    /// The JSON that its changes write; see [`written_values`].
    pub(super) values: Vec<String>,
    /// The size of the values in memory that it changes, which are folded when it is written, in bytes.
    pub(super) volatile_bytes: usize,
    /// The number of [releases](Process::releases) before it.
    pub(super) releases: u64,
    /// The bytes of components that the store did not have when the commit was prepared, by their digest.
    pub(super) components: Vec<(Arc<str>, Vec<u8>)>,
    /// The checksum of the event before the commit, as it was read, and the checksums that follow from it.
    sums: Option<(Option<Vec<u8>>, Vec<Sum>)>,
}

impl PreparedCommit {
    pub(super) fn new(commit: Commit, rows: CommitRows) -> Self {
        let changes = commit.events().iter().filter_map(|numbered| numbered.event.change());
        let values = changes.flat_map(written_values).collect();
        let volatile_bytes = rows.volatile_bytes;
        Self { commit, rows, values, volatile_bytes, releases: 0, components: Vec::new(), sums: None }
    }

    /// Prepares a large commit, whose checksums take long, too. `before` is the checksum of the event before it.
    pub(super) fn large(commit: Commit, before: Option<Vec<u8>>) -> Result<Self, StoreError> {
        let rows = CommitRows::of(&commit)?;
        let sums = sums_of(&commit, &rows.events, before.as_deref());
        Ok(Self { sums: Some((before, sums)), ..Self::new(commit, rows) })
    }

    /// Returns the spec of the run, if these are its first events.
    pub(super) fn begins(&self) -> Option<&RunSpec> {
        match &self.commit.events().first()?.event {
            Event::RunStarted { spec } if self.commit.after() == 0 => Some(spec),
            _ => None,
        }
    }

    /// Returns the changes of the thread's state among the events, in order.
    pub(super) fn changes(&self) -> impl Iterator<Item = &StateChange> {
        self.commit.events().iter().filter_map(|numbered| numbered.event.change())
    }

    /// Returns the events moved behind this many changes of others, and their rows.
    pub(super) fn moved(&self, revisions: u64) -> Result<MovedRows<'_>, StoreError> {
        self.rows.moved(self.commit.events(), revisions)
    }

    /// Returns the checksums of the rows of the events, which are moved behind this many changes of others and
    /// follow an event with this checksum.
    pub(super) fn sums(&self, rows: &[String], moved: u64, before: Option<&[u8]>) -> Cow<'_, [Sum]> {
        match &self.sums {
            Some((known, sums)) if moved == 0 && known.as_deref() == before => Cow::Borrowed(sums.as_slice()),
            _ => Cow::Owned(sums_of(&self.commit, rows, before)),
        }
    }

    /// Returns the size of the commit's records and the components that caused them.
    pub(super) fn sizes(&self, events: &[String]) -> Bytes {
        let mut bytes = Bytes::default();
        let charged = self.commit.charged.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        events.iter().zip(charged).for_each(|(body, component)| bytes.add(body.len(), component));
        self.rows.messages.iter().for_each(|body| bytes.add(body.len(), None));
        for record in &self.commit.audit {
            if let Some(length) = record.charged_bytes() {
                bytes.add(length, record.component_id.as_ref());
            }
        }
        bytes
    }

    /// Returns how much is written or folded for it, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let components = self.components.iter().map(|(_, bytes)| bytes.len());
        self.rows.bytes() + self.volatile_bytes + components.sum::<usize>()
    }
}

fn sums_of(commit: &Commit, rows: &[String], before: Option<&[u8]>) -> Vec<Sum> {
    let mut before = before.map(<[u8]>::to_vec);
    let numbered = commit.events().iter().zip(rows);
    let sums = numbered.map(|(event, body)| {
        let sum = checksum(before.as_deref(), event.number, commit.at_ms(), body);
        before = Some(sum.to_vec());
        sum
    });
    sums.collect()
}

/// A change that belongs to no run, with everything that is written for it.
pub(super) struct PreparedChange {
    pub(super) thread_id: Arc<str>,
    pub(super) change: StateChange,
    /// The change as JSON.
    pub(super) body: String,
    /// The JSON that it writes; see [`written_values`].
    pub(super) values: Vec<String>,
}

impl PreparedChange {
    pub(super) fn new(thread_id: Arc<str>, change: StateChange) -> Result<Self, StoreError> {
        let (body, values) = (serialize(&change)?, written_values(&change).collect());
        Ok(Self { thread_id, change, body, values })
    }
}

/// Returns a change's updates of the thread's persistent keys.
pub(super) fn kept_updates(change: &StateChange) -> impl Iterator<Item = &KeyUpdate> {
    change.updates.iter().filter(|update| update.persistent && update.scope == KeyScope::Thread)
}

/// Returns the value of each of the [`kept_updates`] as JSON, or the update itself if the value follows from it.
fn written_values(change: &StateChange) -> impl Iterator<Item = String> {
    kept_updates(change).map(|update| {
        let written = update.value.as_ref().or(update.update.as_ref());
        written.map(|value| value.to_string()).unwrap_or_default()
    })
}

impl Job {
    /// Returns how much is written or folded for it, in bytes. The other jobs are short.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Commit(prepared, _) | Self::Deferred(prepared) => prepared.bytes(),
            Self::Change(prepared, _) => prepared.body.len(),
            Self::Flush(_) | Self::Note(..) | Self::Other(..) => 0,
        }
    }

    /// Returns whether earlier deferred commits are written before it: its caller waits for them, or the health of a
    /// tool depends on the order.
    pub(super) fn follows_deferred(&self) -> bool {
        match self {
            Self::Flush(_) | Self::Note(..) => true,
            Self::Commit(prepared, _) => {
                prepared.commit.audit.iter().any(|record| record.health_sign() == HealthSign::Trapped)
            }
            Self::Deferred(_) | Self::Change(..) | Self::Other(..) => false,
        }
    }

    /// Returns the commit, if it is deferred.
    pub(super) fn deferred(&self) -> Option<&PreparedCommit> {
        match self {
            Self::Deferred(prepared) => Some(prepared),
            _ => None,
        }
    }

    /// Returns the changes of threads' states, each with its thread.
    pub(super) fn changes(&self) -> Vec<(&Arc<str>, &StateChange)> {
        match self {
            Self::Commit(prepared, _) | Self::Deferred(prepared) => {
                prepared.changes().map(|change| (&prepared.commit.thread_id, change)).collect()
            }
            Self::Change(prepared, _) => vec![(&prepared.thread_id, &prepared.change)],
            Self::Flush(_) | Self::Note(..) | Self::Other(..) => Vec::new(),
        }
    }

    /// Answers the caller, which may be gone; the written data stays.
    pub(super) fn answer(self, written: JobResult) {
        match self {
            Self::Commit(_, reply) | Self::Change(_, reply) => drop(reply.send(written)),
            Self::Deferred(_) => {}
            Self::Flush(reply) => drop(reply.send(())),
            Self::Note(_, reply) | Self::Other(_, reply) => {
                drop(reply.send(written.map(drop).map_err(StoreError::from)));
            }
        }
    }
}
