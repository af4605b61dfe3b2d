//! Long work on a store, split so that others can write in between and it can be stopped.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long others may have to wait for a turn. A part that is under way ends after it.
const TURN: Duration = Duration::from_millis(25);
/// How long others may write after each turn. SQLite has no queue: a writer that has waited for one turn
/// retries within 20 ms, and one that has waited for several every 50 ms at first, later every 100 ms.
const TURN_OF_OTHERS: Duration = Duration::from_millis(50);
/// The number of rows of the first part, which is the minimum as well, and the maximum. A slow disk takes as long to
/// commit one row as many.
const MIN_ROWS: i64 = 16;
const MAX_ROWS: i64 = 512;

/// The turns of a long operation: others get to write after each of them. A turn has one or more parts, which
/// have as many rows as the time of the last part suggests.
pub(super) struct Turns<'a> {
    stop: &'a CancellationToken,
    /// How long the earlier parts of this turn took.
    used: Duration,
    part_began: Instant,
    rows: i64,
}

impl<'a> Turns<'a> {
    pub(super) fn new(stop: &'a CancellationToken) -> Self {
        Self { stop, used: Duration::ZERO, part_began: Instant::now(), rows: MIN_ROWS }
    }

    /// Returns whether the operation was cancelled.
    pub(super) fn are_over(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Returns whether this turn has lasted as long as others may wait.
    pub(super) fn is_used_up(&self) -> bool {
        self.used + self.part_began.elapsed() >= TURN
    }

    /// Returns the maximum number of rows of the next part.
    pub(super) fn rows(&self) -> i64 {
        self.rows
    }

    /// Begins a part, once its transaction has begun: others wait for the transaction, not for what was before it.
    pub(super) fn begin_part(&mut self) {
        self.part_began = Instant::now();
    }

    /// Ends a part, and lets others write if this turn is used up. No transaction may be open.
    pub(super) fn end_part(&mut self) {
        self.used += self.part_began.elapsed();
        self.part_began = Instant::now();
        if self.used >= TURN {
            self.give();
        }
    }

    /// Lets others write. No transaction may be open.
    pub(super) fn give(&mut self) {
        if !self.are_over() {
            std::thread::sleep(TURN_OF_OTHERS);
        }
        self.used = Duration::ZERO;
        self.part_began = Instant::now();
    }

    /// Writes a part of [`rows`](Self::rows) in a transaction, and lets others write if this turn is used up.
    pub(super) fn write_part<T>(
        &mut self,
        connection: &Connection,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        self.begin_part();
        let written = write(&transaction)?;
        transaction.commit()?;
        self.rows = adapted(self.rows, self.part_began.elapsed());
        self.end_part();
        Ok(written)
    }
}

/// Returns the number of rows of the part after one that took this long.
fn adapted(rows: i64, took: Duration) -> i64 {
    if took > TURN / 2 {
        (rows / 2).max(MIN_ROWS)
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
        // Rows of half a millisecond, and rows that take no time.
        let slow = |rows: i64| Duration::from_micros(500 * rows.unsigned_abs());
        let after = |mut rows: i64, took: &dyn Fn(i64) -> Duration| {
            (0..20).for_each(|_| rows = adapted(rows, took(rows)));
            rows
        };
        assert!(slow(after(MAX_ROWS, &slow)) <= TURN / 2);
        assert_eq!(after(MIN_ROWS, &|_| Duration::ZERO), MAX_ROWS);
        assert_eq!(after(MAX_ROWS, &|_| TURN), MIN_ROWS, "a slow disk does not make the parts shorter");
    }

    #[test]
    fn z8_a_turn_has_several_parts_and_the_time_between_them_is_not_counted() {
        let stop = CancellationToken::new();
        let mut turns = Turns::new(&stop);
        turns.used = TURN / 4;
        std::thread::sleep(TURN);
        assert!(turns.is_used_up());
        turns.begin_part();
        turns.end_part();
        assert!(turns.used >= TURN / 4 && turns.used < TURN, "{:?}", turns.used);
        turns.begin_part();
        std::thread::sleep(TURN);
        turns.end_part();
        assert_eq!(turns.used, Duration::ZERO, "others had their turn");
    }
}
