//! Write jobs: what the writer thread is asked to write, and how it answers.

use super::process::Process;
use super::sizes::Bytes;
use rusqlite::Connection;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::oneshot;
use tollgate_agent::run::{Event, RunSpec, StoredEvent};
use tollgate_agent::state::StateChange;
use tollgate_store::rules::moved;
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
    Change(Arc<str>, StateChange, Reply<JobResult>),
    /// Other statements of the same transaction.
    Other(Statements, Reply<Result<(), StoreError>>),
}

/// The statements of a job. They may run again if the transaction failed.
pub(super) type Statements = Box<dyn Fn(&Connection, &Process) -> rusqlite::Result<()> + Send>;

/// The result of a job.
pub(super) type JobResult = Result<CommitReceipt, CommitError>;

/// A commit, with its rows unless it is deferred. The caller serializes the rows, instead of
/// the thread that writes for all.
pub(super) struct PreparedCommit {
    pub(super) commit: Commit,
    pub(super) rows: Option<Rows>,
    /// The size of the values in memory that it changes, which are folded when it is written, in bytes.
    pub(super) volatile_bytes: usize,
}

/// The serialized events and messages of a commit.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) events: Vec<String>,
    pub(super) messages: Vec<String>,
}

impl PreparedCommit {
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

    /// Returns the rows. Those of a deferred commit are built when it is written and dropped
    /// afterwards, so that a group's rows are never in memory all at once.
    fn rows(&self) -> Result<Cow<'_, Rows>, StoreError> {
        self.rows.as_ref().map_or_else(|| self.serialized().map(Cow::Owned), |rows| Ok(Cow::Borrowed(rows)))
    }

    /// Returns the events moved behind this many changes of others, and their rows.
    pub(super) fn moved(&self, revisions: u64) -> Result<(Arc<[StoredEvent]>, Cow<'_, Rows>), StoreError> {
        let mut rows = self.rows()?;
        let events = moved(self.commit.events(), revisions);
        if revisions > 0 {
            let first = events.iter().position(|numbered| numbered.event.change().is_some());
            let changed = first.unwrap_or(events.len())..;
            let written = &mut rows.to_mut().events[changed.clone()];
            for (row, numbered) in written.iter_mut().zip(&events[changed]) {
                *row = serialize(&numbered.event)?;
            }
        }
        Ok((events, rows))
    }

    /// Returns the size of the commit's records and the components that caused them.
    pub(super) fn bytes(&self, rows: &Rows) -> Bytes {
        let mut bytes = Bytes::default();
        let charged = self.commit.charged.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        rows.events.iter().zip(charged).for_each(|(body, component)| bytes.add(body.len(), component));
        rows.messages.iter().for_each(|body| bytes.add(body.len(), None));
        for record in &self.commit.audit {
            if let Some(length) = record.charged_bytes() {
                bytes.add(length, record.component_id.as_ref());
            }
        }
        bytes
    }

    /// Returns its rows, built now.
    pub(super) fn serialized(&self) -> Result<Rows, StoreError> {
        let events = self.commit.events().iter().map(|numbered| serialize(&numbered.event));
        let messages = self.commit.messages.iter().map(serialize);
        Ok(Rows { events: events.collect::<Result<_, _>>()?, messages: messages.collect::<Result<_, _>>()? })
    }
}

fn serialize<T: serde::Serialize>(row: &T) -> Result<String, StoreError> {
    serde_json::to_string(row).map_err(|e| StoreError::other(format!("a record cannot be written: {e}")))
}

impl Rows {
    /// Returns the length of all rows, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.events.iter().chain(&self.messages).map(String::len).sum()
    }
}

impl Job {
    /// Returns how much is written or folded for it, in bytes. A deferred commit, whose rows do not exist yet, is
    /// short.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Commit(prepared, _) => {
                prepared.rows.as_ref().map_or(0, Rows::bytes) + prepared.volatile_bytes
            }
            _ => 0,
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
            Self::Change(thread_id, change, _) => vec![(thread_id, change)],
            Self::Flush(_) | Self::Note(..) | Self::Other(..) => Vec::new(),
        }
    }

    /// Answers the caller, which may be gone; the written data stays.
    pub(super) fn answer(self, written: JobResult) {
        match self {
            Self::Commit(_, reply) | Self::Change(_, _, reply) => drop(reply.send(written)),
            Self::Deferred(_) => {}
            Self::Flush(reply) => drop(reply.send(())),
            Self::Note(_, reply) | Self::Other(_, reply) => {
                drop(reply.send(written.map(drop).map_err(StoreError::from)));
            }
        }
    }
}
