//! Limits the concurrent calls of one tool. Further calls wait for at most their own timeout,
//! and the number of waiting calls is limited, too.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The places of one tool.
pub(super) struct Places {
    all: u32,
    free: Semaphore,
    waiting: AtomicU32,
    most_waiting: u32,
}

impl Places {
    pub(super) fn new(places: u32, most_waiting: u32) -> Self {
        Self { all: places, free: Semaphore::new(places as usize), waiting: AtomicU32::new(0), most_waiting }
    }

    /// Returns the number of places.
    pub(super) fn all(&self) -> u32 {
        self.all
    }

    /// Returns the maximum number of waiting calls.
    pub(super) fn most_waiting(&self) -> u32 {
        self.most_waiting
    }

    /// Takes a place for one call; `None` if too many wait or it waited too long.
    pub(super) async fn take(&self, patience: Duration) -> Option<SemaphorePermit<'_>> {
        if let Ok(place) = self.free.try_acquire() {
            return Some(place);
        }
        let _waiting = WaitingCall::among(&self.waiting, self.most_waiting)?;
        tokio::time::timeout(patience, self.free.acquire()).await.ok()?.ok()
    }
}

/// A waiting call, counted until it is dropped.
struct WaitingCall<'a>(&'a AtomicU32);

impl<'a> WaitingCall<'a> {
    fn among(waiting: &'a AtomicU32, most: u32) -> Option<Self> {
        let one = Self(waiting);
        (waiting.fetch_add(1, Relaxed) < most).then_some(one)
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn places_and_those_who_wait_for_them_are_bounded() {
        let places = Places::new(1, 1);
        let place = places.take(Duration::ZERO).await.unwrap();
        let mut patient = std::pin::pin!(places.take(Duration::from_secs(60)));
        assert!(futures::poll!(patient.as_mut()).is_pending());
        assert!(places.take(Duration::from_secs(60)).await.is_none(), "one waits already");
        drop(place);
        drop(patient.await.unwrap());
        let place = places.take(Duration::ZERO).await;
        assert!(place.is_some());
        assert!(places.take(Duration::from_millis(1)).await.is_none(), "it waited too long");
        assert_eq!(places.waiting.load(Relaxed), 0);
    }
}
