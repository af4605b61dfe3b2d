//! The sizes of the records of threads and components. They are counted in each commit and
//! cached, so that a call is admitted without disk access. The size of a principal is the sum of those of its
//! threads.

use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tollgate_agent::SmolStr;

/// The approximate size of a row besides its body.
const ROW_BYTES: u64 = 64;
/// How long a cached size is trusted while other processes may add to it.
const FRESH: Duration = Duration::from_secs(5);
/// The maximum number of cached sizes.
const MAX_KNOWN: usize = 4_096;

/// Bytes by component, and in total.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    pub(super) all: u64,
    components: Vec<(SmolStr, u64)>,
}

impl Bytes {
    /// Adds a row with a body of this length, caused by this component.
    pub(super) fn add(&mut self, body: usize, component: Option<&SmolStr>) {
        let bytes = body as u64 + ROW_BYTES;
        self.all += bytes;
        if let Some(component) = component {
            self.add_to(component, bytes);
        }
    }

    fn add_to(&mut self, component: &SmolStr, bytes: u64) {
        match self.components.iter_mut().find(|(known, _)| known == component) {
            Some((_, sum)) => *sum += bytes,
            None => self.components.push((component.clone(), bytes)),
        }
    }

    /// Adds these bytes to the stored sizes of their components: once for a transaction, because its
    /// commits are often of the same component.
    pub(super) fn write_components<'a>(
        connection: &Connection,
        written: impl Iterator<Item = &'a Self>,
    ) -> rusqlite::Result<()> {
        let mut sums = Self::default();
        for (component, bytes) in written.flat_map(|bytes| &bytes.components) {
            sums.add_to(component, *bytes);
        }
        for (component, bytes) in &sums.components {
            connection
                .prepare_cached(
                    "INSERT INTO component_sizes (component_id, record_bytes) VALUES (?1, ?2)
                     ON CONFLICT (component_id) DO UPDATE SET record_bytes = record_bytes + excluded.record_bytes",
                )?
                .execute(params![component.as_str(), bytes.cast_signed()])?;
        }
        Ok(())
    }

    /// Subtracts these bytes from the stored sizes.
    pub(super) fn take_off(&self, connection: &Connection, thread: i64) -> rusqlite::Result<()> {
        connection
            .prepare_cached("UPDATE threads SET record_bytes = max(0, record_bytes - ?2) WHERE id = ?1")?
            .execute(params![thread, self.all.cast_signed()])?;
        for (component, bytes) in &self.components {
            connection
                .prepare_cached(
                    "UPDATE component_sizes SET record_bytes = max(0, record_bytes - ?2) WHERE component_id = ?1",
                )?
                .execute(params![component.as_str(), bytes.cast_signed()])?;
        }
        Ok(())
    }
}

/// The owner of a size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    Thread(SmolStr),
    Component(SmolStr),
    Principal(SmolStr),
}

impl Subject {
    /// Returns whether reading the size reads one row. That of a principal reads a row for each of its threads.
    pub(super) fn is_short(&self) -> bool {
        !matches!(self, Self::Principal(_))
    }

    /// Returns the stored size.
    pub(super) fn stored(&self, connection: &Connection) -> rusqlite::Result<u64> {
        let (query, id) = match self {
            Self::Thread(id) => ("SELECT record_bytes FROM threads WHERE thread_id = ?1", id),
            Self::Component(id) => ("SELECT record_bytes FROM component_sizes WHERE component_id = ?1", id),
            // `0` is the character after the slash.
            Self::Principal(id) => (
                "SELECT coalesce(sum(record_bytes), 0) FROM threads
                 WHERE thread_id >= ?1 || '/' AND thread_id < ?1 || '0'",
                id,
            ),
        };
        let bytes = connection
            .prepare_cached(query)?
            .query_row([id.as_str()], |row| row.get::<_, i64>(0))
            .optional()?;
        Ok(bytes.unwrap_or_default().cast_unsigned())
    }
}

/// Sizes as last read, plus what this process has written since.
#[derive(Default)]
pub(super) struct Sizes(Mutex<HashMap<Subject, (u64, Instant)>>);

impl Sizes {
    /// Returns a size that was read recently. If that of a principal is old, one caller gets `None` and reads it
    /// again, which may take long, and others use the old one meanwhile.
    pub(super) fn get(&self, subject: &Subject) -> Option<u64> {
        let mut known = self.known();
        let (bytes, read) = known.get_mut(subject)?;
        if read.elapsed() < FRESH {
            return Some(*bytes);
        }
        if !subject.is_short() {
            *read = Instant::now();
        }
        None
    }

    pub(super) fn learn(&self, subject: Subject, bytes: u64) {
        let mut known = self.known();
        if known.len() >= MAX_KNOWN {
            // Those of principals are few and take longer to read.
            known.retain(|subject, (_, read)| !subject.is_short() && read.elapsed() < FRESH);
        }
        known.insert(subject, (bytes, Instant::now()));
    }

    /// Adds what this process has written.
    pub(super) fn follow(&self, thread_id: &str, bytes: &Bytes) {
        let mut known = self.known();
        if let Some((sum, _)) = known.get_mut(&Subject::Thread(thread_id.into())) {
            *sum += bytes.all;
        }
        if let Some((principal, _)) = thread_id.split_once('/')
            && let Some((sum, _)) = known.get_mut(&Subject::Principal(principal.into()))
        {
            *sum += bytes.all;
        }
        for (component, more) in &bytes.components {
            if let Some((sum, _)) = known.get_mut(&Subject::Component(component.clone())) {
                *sum += more;
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Subject, (u64, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::open;

    #[test]
    fn a_transaction_counts_the_bytes_of_all_its_commits() {
        let data = tempfile::tempdir().unwrap();
        let (_, connection) = open::prepare(data.path()).unwrap();
        let commit = |rows: &[(usize, Option<&str>)]| {
            let mut bytes = Bytes::default();
            rows.iter().for_each(|(body, component)| bytes.add(*body, component.map(SmolStr::new).as_ref()));
            bytes
        };
        let first = commit(&[(36, Some("a")), (36, None)]);
        let second = commit(&[(136, Some("a")), (36, Some("b"))]);
        for _ in 0..2 {
            Bytes::write_components(&connection, [&first, &second].into_iter()).unwrap();
        }
        let stored = |id: &str| Subject::Component(id.into()).stored(&connection).unwrap();
        assert_eq!((stored("a"), stored("b"), stored("c")), (600, 200, 0));
    }
}
