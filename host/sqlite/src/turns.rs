//! Long work on a store, split so that others can write in between and it can be stopped.

use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long others may write after each transaction. SQLite has no queue: a waiting writer
/// retries every 100 ms.
const TURN_OF_OTHERS: Duration = Duration::from_millis(150);

/// The turns of a long operation: others get to write after each of them.
pub(super) struct Turns<'a> {
    stop: &'a CancellationToken,
    began: Instant,
}

impl<'a> Turns<'a> {
    pub(super) fn new(stop: &'a CancellationToken) -> Self {
        Self { stop, began: Instant::now() }
    }

    /// Returns whether the operation was cancelled.
    pub(super) fn are_over(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Returns whether this turn has lasted as long as others may wait.
    pub(super) fn is_used_up(&self) -> bool {
        self.began.elapsed() >= TURN_OF_OTHERS
    }

    /// Lets others write. No transaction may be open.
    pub(super) fn give(&mut self) {
        if !self.are_over() {
            std::thread::sleep(TURN_OF_OTHERS);
        }
        self.began = Instant::now();
    }

    /// Lets others write if this turn is used up.
    pub(super) fn give_in_time(&mut self) {
        if self.is_used_up() {
            self.give();
        }
    }
}
