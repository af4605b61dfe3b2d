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
    /// Notifies all waiters when the clock resumes.
    resumed: Notify,
}

struct Clock {
    at: Instant,
    /// The number of pauses in effect. The clock stands still unless it is zero.
    pauses: u32,
    /// The beginning of the current pause; meaningless while there is none.
    paused_at: Instant,
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
        let clock = Mutex::new(Clock { at, pauses: 0, paused_at: at });
        Self { shared: Arc::new(DeadlineState { clock, resumed: Notify::new() }) }
    }

    /// Returns whether the deadline has passed.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        let clock = self.clock();
        clock.pauses == 0 && Instant::now() >= clock.at
    }

    /// Returns the remaining time; zero if the deadline has passed.
    #[must_use]
    pub fn left(&self) -> Duration {
        let clock = self.clock();
        let now = if clock.pauses == 0 { Instant::now() } else { clock.paused_at };
        clock.at.saturating_duration_since(now)
    }

    /// Stops the clock until the returned guard is dropped.
    #[must_use]
    pub fn pause(&self) -> ClockPause {
        let mut clock = self.clock();
        if clock.pauses == 0 {
            clock.paused_at = Instant::now();
        }
        clock.pauses += 1;
        drop(clock);
        ClockPause { deadline: self.clone() }
    }

    /// Waits until the deadline has passed.
    pub async fn passed(&self) {
        loop {
            // Listen before looking at the clock, so that no notification is missed.
            let resumed = self.shared.resumed.notified();
            let at = {
                let clock = self.clock();
                (clock.pauses == 0).then_some(clock.at)
            };
            match at {
                None => resumed.await,
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
        clock.pauses -= 1;
        if clock.pauses == 0 {
            let paused = clock.paused_at.elapsed();
            clock.at += paused;
            drop(clock);
            self.deadline.shared.resumed.notify_waiters();
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

    #[tokio::test]
    async fn t2_everybody_who_waits_for_a_paused_deadline_sees_it_pass() {
        let deadline = Deadline::after(Duration::ZERO);
        let pause = deadline.pause();
        let resumes = async {
            tokio::task::yield_now().await;
            drop(pause);
        };
        let waits = async { tokio::join!(deadline.passed(), deadline.passed(), resumes) };
        assert!(tokio::time::timeout(Duration::from_secs(10), waits).await.is_ok());
    }
}
