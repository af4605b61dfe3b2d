//! Long work on a store, split so that others can write in between and it can be stopped.

use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long others may have to wait for a turn. A part that is under way ends after it.
const TURN: Duration = Duration::from_millis(25);
/// How long others may write after each turn. SQLite has no queue: a writer that has waited for one turn
/// retries within 20 ms, and one that has waited for several every 50 ms at first, later every 100 ms.
const TURN_OF_OTHERS: Duration = Duration::from_millis(50);
/// The number of rows of the first part, and the maximum.
const FIRST_ROWS: i64 = 16;
const MAX_ROWS: i64 = 512;

/// The turns of a long operation: others get to write after each of them. A turn has one or more parts, which
/// have as many rows as the time of the last part suggests.
pub(super) struct Turns<'a> {
    stop: &'a CancellationToken,
    began: Instant,
    part_began: Instant,
    rows: i64,
}

impl<'a> Turns<'a> {
    pub(super) fn new(stop: &'a CancellationToken) -> Self {
        let now = Instant::now();
        Self { stop, began: now, part_began: now, rows: FIRST_ROWS }
    }

    /// Returns whether the operation was cancelled.
    pub(super) fn are_over(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Returns whether this turn has lasted as long as others may wait.
    pub(super) fn is_used_up(&self) -> bool {
        self.began.elapsed() >= TURN
    }

    /// Returns the maximum number of rows of the next part.
    pub(super) fn rows(&self) -> i64 {
        self.rows
    }

    /// Lets others write. No transaction may be open.
    pub(super) fn give(&mut self) {
        if !self.are_over() {
            std::thread::sleep(TURN_OF_OTHERS);
        }
        self.began = Instant::now();
        self.part_began = self.began;
    }

    /// Ends a part of [`rows`](Self::rows), and lets others write if this turn is used up.
    pub(super) fn give_in_time(&mut self) {
        self.rows = adapted(self.rows, self.part_began.elapsed());
        self.part_began = Instant::now();
        if self.is_used_up() {
            self.give();
        }
    }
}

/// Returns the number of rows of the part after one that took this long.
fn adapted(rows: i64, took: Duration) -> i64 {
    if took > TURN / 2 {
        (rows / 2).max(1)
    } else if took < TURN / 8 {
        (rows * 2).min(MAX_ROWS)
    } else {
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z8_a_part_is_as_long_as_others_may_wait() {
        // Rows of 4 ms, and rows that take no time.
        let slow = |rows: i64| Duration::from_millis(4 * rows.unsigned_abs());
        let after = |mut rows: i64, took: &dyn Fn(i64) -> Duration| {
            (0..20).for_each(|_| rows = adapted(rows, took(rows)));
            rows
        };
        assert!(slow(after(MAX_ROWS, &slow)) <= TURN / 2);
        assert_eq!(after(1, &|_| Duration::ZERO), MAX_ROWS);
        assert_eq!(after(MAX_ROWS, &|_| TURN), 1, "a row is the shortest part");
    }
}
