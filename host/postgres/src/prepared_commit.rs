//! A commit with its rows, as it is sent and, if its answer is lost, sent again.

use std::sync::Arc;
use tollgate_agent::run::{Event, RunSpec, StoredEvent};
use tollgate_agent::state::StateChange;
use tollgate_store::rules::{CommitRows, EventRow, checksum};
use tollgate_store::{AuditRecord, Commit, StoreError};
use uuid::Uuid;

/// The approximate size of a row besides its body, as in other stores.
pub(crate) const ROW_BYTES: u64 = 64;
/// The largest commit. PostgreSQL keeps no value of a GiB, and its protocol sends no larger message.
const MAX_BYTES: u64 = 1_000_000_000;

/// A commit and the id by which the database recognizes it.
pub(crate) struct PreparedCommit {
    pub(crate) id: String,
    pub(crate) commit: Commit,
    pub(crate) rows: CommitRows,
}

impl PreparedCommit {
    /// # Errors
    /// A number or the whole commit is larger than the database can keep.
    pub(crate) fn new(commit: Commit, rows: CommitRows) -> Result<Self, StoreError> {
        let revisions = commit.events().iter().filter_map(|numbered| numbered.event.change());
        let numbers = commit.events().iter().map(|numbered| numbered.number);
        let mut all = revisions.map(|change| change.revision).chain(numbers);
        let is_too_large = |number: u64| i64::try_from(number).is_err();
        if all.any(is_too_large)
            || [commit.after(), commit.at_ms(), commit.epoch].into_iter().any(is_too_large)
        {
            return Err(StoreError::other(format!(
                "a commit of the run {} has a number above {}, which the store cannot keep",
                tollgate_agent::text::clean(commit.run_id(), 100),
                i64::MAX
            )));
        }
        check_size(commit.run_id(), rows.bytes() as u64)?;
        Ok(Self { id: Uuid::now_v7().to_string(), commit, rows })
    }

    /// Returns the spec of the run, if these are its first events.
    pub(crate) fn begins(&self) -> Option<&RunSpec> {
        match &self.commit.events().first()?.event {
            Event::RunStarted { spec } if self.commit.after() == 0 => Some(spec),
            _ => None,
        }
    }

    /// Returns the changes of the thread's state among the events, in order.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &StateChange> {
        self.commit.events().iter().filter_map(|numbered| numbered.event.change())
    }

    /// Returns the events moved behind this many changes of others, and their rows. They follow an event
    /// with this checksum.
    pub(crate) fn moved(
        &self,
        revisions: u64,
        before: Option<Vec<u8>>,
    ) -> Result<(Arc<[StoredEvent]>, Vec<EventRow>), StoreError> {
        let at_ms = self.commit.at_ms();
        let (events, bodies) = self.rows.moved(self.commit.events(), revisions)?;
        let mut before = before;
        let mut rows = Vec::with_capacity(events.len());
        for (numbered, body) in events.iter().zip(bodies.into_owned()) {
            let sum = checksum(before.as_deref(), numbered.number, at_ms, &body).to_vec();
            before = Some(sum.clone());
            rows.push(EventRow { number: numbered.number, at_ms, body, checksum: Some(sum) });
        }
        Ok((events, rows))
    }

    /// Returns the size of its records in bytes.
    pub(crate) fn record_bytes(&self) -> u64 {
        let bodies = self.rows.events.iter().chain(&self.rows.messages).map(String::len);
        let audit = self.commit.audit.iter().filter_map(AuditRecord::charged_bytes);
        bodies.chain(audit).map(|length| length as u64 + ROW_BYTES).sum()
    }

    /// Returns the sizes of the records that components caused, in bytes.
    pub(crate) fn component_bytes(&self) -> Vec<(String, u64)> {
        let events = self.rows.events.iter().map(String::len).zip(&self.commit.charged);
        let audit = self
            .commit
            .audit
            .iter()
            .filter_map(|record| Some((record.charged_bytes()?, &record.component_id)));
        let mut components: Vec<(String, u64)> = Vec::new();
        for (length, component) in events.chain(audit) {
            let Some(component) = component else { continue };
            let bytes = length as u64 + ROW_BYTES;
            match components.iter_mut().find(|(known, _)| known == component.as_str()) {
                Some((_, sum)) => *sum += bytes,
                None => components.push((component.to_string(), bytes)),
            }
        }
        components
    }
}

/// The last event of a run, from which the checksums of the next commit continue.
pub(crate) struct Tail {
    pub(crate) number: u64,
    pub(crate) checksum: Option<Vec<u8>>,
}

impl Tail {
    pub(crate) fn of(rows: &[EventRow]) -> Option<Self> {
        rows.last().map(|row| Self { number: row.number, checksum: row.checksum.clone() })
    }
}

/// Refuses a commit that the database could not keep, before it is sent.
fn check_size(run_id: &str, bytes: u64) -> Result<(), StoreError> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(StoreError::other(format!(
        "a commit of the run {} has {bytes} bytes, and the store keeps at most {MAX_BYTES}; limit what its tools return",
        tollgate_agent::text::clean(run_id, 100)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_the_database_could_not_keep_is_refused_before_it_is_sent() {
        assert!(check_size("r", MAX_BYTES).is_ok());
        let why = check_size("r", MAX_BYTES + 1).err().map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains("the run r has 1000000001 bytes"), "{why}");
    }
}
