//! The deadline of an attempt. It is extended while the attempt waits for a child run, because
//! that time does not count against the tool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The moment at which an attempt must end. Clones share the deadline.
#[derive(Clone)]
pub struct Deadline {
    shared: Arc<DeadlineState>,
}

struct DeadlineState {
    clock: Mutex<Clock>,
    /// Notified when the clock resumes.
    went_on: Notify,
}

struct Clock {
    at: Instant,
    /// The number of waits in progress, and when the first one began.
    waits: u32,
    since: Instant,
}

/// A guard that stops the attempt's clock while it lives.
pub struct ClockPause {
    deadline: Deadline,
}

impl Deadline {
    /// Creates a deadline this far from now.
    #[must_use]
    pub fn after(timeout: Duration) -> Self {
        Self::at(Instant::now() + timeout)
    }

    /// Creates a deadline at this moment.
    pub(crate) fn at(at: Instant) -> Self {
        let clock = Mutex::new(Clock { at, waits: 0, since: at });
        Self { shared: Arc::new(DeadlineState { clock, went_on: Notify::new() }) }
    }

    /// Returns whether the deadline has passed.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        let clock = self.clock();
        clock.waits == 0 && Instant::now() >= clock.at
    }

    /// Returns the remaining time.
    #[must_use]
    pub fn left(&self) -> Duration {
        let clock = self.clock();
        let now = if clock.waits == 0 { Instant::now() } else { clock.since };
        clock.at.saturating_duration_since(now)
    }

    /// Stops the clock until the returned guard is dropped.
    #[must_use]
    pub fn pause(&self) -> ClockPause {
        let mut clock = self.clock();
        if clock.waits == 0 {
            clock.since = Instant::now();
        }
        clock.waits += 1;
        drop(clock);
        ClockPause { deadline: self.clone() }
    }

    /// Waits until the deadline has passed.
    pub async fn passed(&self) {
        loop {
            let at = {
                let clock = self.clock();
                (clock.waits == 0).then_some(clock.at)
            };
            match at {
                // A leftover notification only causes one extra check.
                None => self.shared.went_on.notified().await,
                Some(at) => tokio::time::sleep_until(at.into()).await,
            }
            if self.has_passed() {
                return;
            }
        }
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.shared.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClockPause {
    fn drop(&mut self) {
        let mut clock = self.deadline.clock();
        clock.waits -= 1;
        if clock.waits == 0 {
            let waited = clock.since.elapsed();
            clock.at += waited;
            drop(clock);
            self.deadline.shared.went_on.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn t2_the_wait_for_a_child_does_not_count() {
        let deadline = Deadline::after(Duration::from_millis(40));
        let began = Instant::now();
        let outer = deadline.pause();
        let inner = deadline.pause();
        drop(outer);
        let waits = async {
            tokio::time::sleep(Duration::from_millis(120)).await;
            assert!(!deadline.has_passed());
            drop(inner);
        };
        tokio::join!(deadline.passed(), waits);
        assert!(deadline.has_passed() && began.elapsed() >= Duration::from_millis(150));
    }
}
