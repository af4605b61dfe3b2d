//! The events and messages of a commit as JSON. Serializing megabytes takes tens of milliseconds, during
//! which a thread of the runtime would drive no other call.

use super::commit::Commit;
use super::error::StoreError;
use super::rebase::moved;
use super::volatile::volatile_updates;
use serde::Serialize;
use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use tollgate_agent::run::StoredEvent;

/// A commit is large if its rows, and the values in memory that it changes, have more bytes than this. So is
/// an answer of a database.
pub const LARGE_BYTES: usize = 256 * 1024;

/// Events that were moved behind changes of others, and their serialized rows.
pub type MovedRows<'a> = (Arc<[StoredEvent]>, Cow<'a, [String]>);

/// The serialized events and messages of a commit.
#[derive(Debug, Clone)]
pub struct CommitRows {
    /// The events.
    pub events: Vec<String>,
    /// The messages.
    pub messages: Vec<String>,
    /// The size of the commit's updates of keys that do not persist, which are in no row, in bytes.
    pub volatile_bytes: usize,
}

impl CommitRows {
    /// Serializes a commit, unless it is large. Ends once it is known to be.
    ///
    /// # Errors
    /// A record cannot be written.
    pub fn small(commit: &Commit) -> Result<Option<Self>, StoreError> {
        match Self::up_to(commit, LARGE_BYTES) {
            Err(why) if why.is_io() => Ok(None),
            rows => rows.map(Some).map_err(|e| unwritable(&e)),
        }
    }

    /// Serializes a commit of any size. A large one belongs on a thread that may block; see [`aside`].
    ///
    /// # Errors
    /// A record cannot be written.
    pub fn of(commit: &Commit) -> Result<Self, StoreError> {
        Self::up_to(commit, usize::MAX).map_err(|e| unwritable(&e))
    }

    /// The error is of the kind I/O if there are more bytes.
    fn up_to(commit: &Commit, mut left: usize) -> serde_json::Result<Self> {
        let left = &mut left;
        let events = commit.events().iter().map(|numbered| limited(&numbered.event, left));
        let events = events.collect::<Result<_, _>>()?;
        let messages = commit.messages.iter().map(|message| limited(message, left));
        let messages = messages.collect::<Result<_, _>>()?;
        let changes = commit.events().iter().filter_map(|numbered| numbered.event.change());
        let mut volatile_bytes = 0;
        for update in volatile_updates(changes) {
            if let Some(value) = update.value.as_ref().or(update.update.as_ref()) {
                volatile_bytes += limited(&**value, left)?.len();
            }
        }
        Ok(Self { events, messages, volatile_bytes })
    }

    /// Returns the length of all rows, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.events.iter().chain(&self.messages).map(String::len).sum()
    }

    /// Returns the commit's events moved behind this many changes of others, and their rows. `events` are the
    /// events of the commit.
    ///
    /// # Errors
    /// A record cannot be written.
    pub fn moved(&self, events: &Arc<[StoredEvent]>, revisions: u64) -> Result<MovedRows<'_>, StoreError> {
        let moved = moved(events, revisions);
        let first = moved.iter().position(|numbered| numbered.event.change().is_some());
        let Some(first) = first.filter(|_| revisions > 0) else {
            return Ok((moved, Cow::Borrowed(self.events.as_slice())));
        };
        let mut rows = self.events[..first].to_vec();
        for numbered in &moved[first..] {
            rows.push(serialize(&numbered.event)?);
        }
        Ok((moved, Cow::Owned(rows)))
    }
}

/// Returns a record as JSON.
///
/// # Errors
/// It cannot be written.
pub fn serialize<T: Serialize>(record: &T) -> Result<String, StoreError> {
    serde_json::to_string(record).map_err(|e| unwritable(&e))
}

fn unwritable(why: &serde_json::Error) -> StoreError {
    StoreError::other(format!("a record cannot be written: {why}"))
}

/// Runs work on a thread that may block if it is long, and on this thread otherwise.
///
/// # Errors
/// Those of the work, or the runtime is shutting down.
pub async fn aside<T: Send + 'static>(
    is_long: bool,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    if !is_long {
        return work();
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| StoreError::other(format!("work of the store failed: {e}")))?
}

/// Returns the JSON of a record. The error is of the kind I/O if it is longer than `left`, from which its
/// length is subtracted.
fn limited<T: Serialize + ?Sized>(record: &T, left: &mut usize) -> serde_json::Result<String> {
    let mut text = LimitedText { text: Vec::with_capacity(128), left };
    serde_json::to_writer(&mut text, record)?;
    String::from_utf8(text.text).map_err(serde::ser::Error::custom)
}

/// A text that may have a number of further bytes.
struct LimitedText<'a> {
    text: Vec<u8>,
    left: &'a mut usize,
}

impl io::Write for LimitedText<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        *self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_agent::message::Message;
    use tollgate_agent::run::Event;
    use tollgate_agent::state::{KeyUpdate, StateChange};

    fn said(bytes: usize) -> Commit {
        let events = [Event::MessageAdded { text: "x".repeat(bytes) }, Event::RunWaiting];
        Commit::new(Arc::from("r"), Arc::from("t"), 1, 1, events)
    }

    #[test]
    fn z3_a_commit_is_serialized_at_once_unless_it_is_large() {
        let small = said(LARGE_BYTES / 2);
        let rows = CommitRows::small(&small).unwrap().unwrap();
        let expected: Vec<String> =
            small.events().iter().map(|numbered| serde_json::to_string(&numbered.event).unwrap()).collect();
        assert_eq!((rows.bytes(), &rows.events), (expected.iter().map(String::len).sum(), &expected));
        // Events, messages and values in memory count together.
        let mut with_message = said(LARGE_BYTES / 2);
        with_message.messages = vec![Message::User("x".repeat(LARGE_BYTES / 2))];
        let value = serde_json::Value::from("x".repeat(LARGE_BYTES));
        let update = KeyUpdate { persistent: false, ..KeyUpdate::restored("k.a", value) };
        let change = Some(StateChange { revision: 1, updates: [update].into() });
        let seeded = Event::RunSeeded { change, messages: Vec::new() };
        let in_memory = Commit::new(Arc::from("r"), Arc::from("t"), 1, 1, [seeded]);
        for large in [said(LARGE_BYTES), with_message, in_memory] {
            assert!(CommitRows::small(&large).unwrap().is_none());
            let rows = CommitRows::of(&large).unwrap();
            assert!(rows.bytes() + rows.volatile_bytes > LARGE_BYTES);
        }
    }

    #[tokio::test]
    async fn z3_long_work_runs_on_another_thread() {
        let here = std::thread::current().id();
        for is_long in [false, true] {
            let ran_on = aside(is_long, || Ok(std::thread::current().id())).await.unwrap();
            assert_eq!(ran_on != here, is_long);
        }
    }
}
