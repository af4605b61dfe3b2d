//! Long work on a store, in pieces: others write in between, and it can be stopped.

use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long others get to write after each transaction. SQLite has no queue: a writer that waits looks again every 100 ms.
const TURN_OF_OTHERS: Duration = Duration::from_millis(150);

/// Whose turn it is to write: others get theirs after each of this one's.
pub(super) struct Turns<'a> {
    stop: &'a CancellationToken,
    began: Instant,
}

impl<'a> Turns<'a> {
    pub(super) fn new(stop: &'a CancellationToken) -> Self {
        Self { stop, began: Instant::now() }
    }

    /// Whether nothing more is to be removed.
    pub(super) fn are_over(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Whether this one has written for as long as others may wait.
    pub(super) fn is_used_up(&self) -> bool {
        self.began.elapsed() >= TURN_OF_OTHERS
    }

    /// Lets others write. Nothing may be open.
    pub(super) fn give(&mut self) {
        if !self.are_over() {
            std::thread::sleep(TURN_OF_OTHERS);
        }
        self.began = Instant::now();
    }

    /// The same, once this turn is used up.
    pub(super) fn give_in_time(&mut self) {
        if self.is_used_up() {
            self.give();
        }
    }
}
