//! The rate at which a principal signs in with its keys. Each sign-in adds records to the audit, which no quota
//! counts.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The number of sign-ins that a principal may make at once.
const AT_ONCE: u32 = 60;
/// The time after which another one is possible.
const INTERVAL: Duration = Duration::from_secs(1);

/// The sign-ins of one principal: the time at which [`AT_ONCE`] are possible again; `None` if it has not signed in.
#[derive(Debug, Default)]
pub(crate) struct SignInRate(Mutex<Option<Instant>>);

impl SignInRate {
    /// Counts a sign-in. Returns `false` if none is possible now.
    pub(crate) fn take(&self) -> bool {
        let (mut used_until, now) = (self.used_until(), Instant::now());
        let until = used_until.map_or(now, |until| until.max(now)) + INTERVAL;
        let is_possible = until <= now + INTERVAL * AT_ONCE;
        if is_possible {
            *used_until = Some(until);
        }
        is_possible
    }

    /// Returns whether sign-ins still count.
    pub(crate) fn is_in_use(&self) -> bool {
        self.used_until().is_some_and(|until| until > Instant::now())
    }

    fn used_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sixty_sign_ins_are_possible_at_once_and_one_more_each_second() {
        let rate = SignInRate::default();
        let possible = || (0..1_000).take_while(|_| rate.take()).count();
        assert_eq!((rate.is_in_use(), possible()), (false, 60));
        for (seconds, expected) in [(0, 0), (1, 1), (10, 10), (59, 59), (3_600, 60)] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!(possible(), expected, "after {seconds} s");
        }
        assert!(rate.is_in_use());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!rate.is_in_use());
    }
}
