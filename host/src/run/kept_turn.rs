//! A turn to commit that a run keeps while a call runs again because of a conflict.
//!
//! Without it, all calls that conflicted would run again at once, and all but one would conflict again.

use super::services::CommitTurn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a run keeps its turn. A slow tool then competes with the others.
const MAX_TIME: Duration = Duration::from_millis(250);

/// The turn of one run, if it keeps one.
#[derive(Default)]
pub(super) struct KeptTurn(Arc<Mutex<Option<TimedTurn>>>);

/// A turn, and when it ends.
pub(super) struct TimedTurn {
    pub(super) turn: CommitTurn,
    /// Whether it is kept while a call runs again.
    pub(super) is_kept: bool,
    until: Instant,
}

impl TimedTurn {
    pub(super) fn new(turn: CommitTurn) -> Self {
        Self { turn, is_kept: false, until: Instant::now() + MAX_TIME }
    }
}

impl KeptTurn {
    /// Returns the turn if its time is not over.
    pub(super) fn take(&self) -> Option<TimedTurn> {
        lock(&self.0).take()
    }

    /// Keeps the turn until it is taken, or its time is over.
    pub(super) fn keep(&self, turn: TimedTurn) {
        let (until, held) = (turn.until, Arc::downgrade(&self.0));
        *lock(&self.0) = Some(turn);
        tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            if let Some(held) = held.upgrade() {
                // A turn that was kept later has time left.
                drop(lock(&held).take_if(|turn| turn.until <= until));
            }
        });
    }
}

fn lock(held: &Mutex<Option<TimedTurn>>) -> MutexGuard<'_, Option<TimedTurn>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}
