//! Limits how many calls run at once. Further calls wait, and the number of waiting calls is
//! limited, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit on concurrent calls, with a bounded queue.
#[derive(Debug)]
pub struct CallLimit {
    free: Arc<Semaphore>,
    permits: u32,
    waiting: AtomicU32,
    max_waiting: u32,
}

/// A call's permission to run, returned on drop.
#[derive(Debug)]
pub struct CallPermit {
    _permits: OwnedSemaphorePermit,
}

impl CallLimit {
    /// Creates a limit with this many permits, for which up to `max_waiting` calls may wait.
    #[must_use]
    pub fn new(permits: u32, max_waiting: u32) -> Self {
        let permits = permits.min(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        let free = Arc::new(Semaphore::new(permits as usize));
        Self { free, permits, waiting: AtomicU32::new(0), max_waiting }
    }

    /// Returns the number of permits.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Returns the maximum number of waiting calls.
    #[must_use]
    pub fn max_waiting(&self) -> u32 {
        self.max_waiting
    }

    /// Takes a permit, waiting up to `patience` for it. Returns `None` if too many calls wait already, or
    /// if it waited too long.
    pub async fn take(&self, patience: Duration) -> Option<CallPermit> {
        if let Some(permit) = self.try_take(1) {
            return Some(permit);
        }
        let _queued = self.queue()?;
        tokio::time::timeout(patience, self.acquire(1)).await.ok()?
    }

    /// Returns the number of waiting calls.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Relaxed)
    }

    /// Returns the number of permits in use.
    pub(crate) fn in_use(&self) -> u32 {
        let free = u32::try_from(self.free.available_permits()).unwrap_or(u32::MAX);
        self.permits.saturating_sub(free)
    }

    /// Takes permits if they are free and no other call waits for them.
    pub(crate) fn try_take(&self, permits: u32) -> Option<CallPermit> {
        let permits = Arc::clone(&self.free).try_acquire_many_owned(permits).ok()?;
        Some(CallPermit { _permits: permits })
    }

    /// Takes a place in the queue; `None` if too many calls wait already.
    pub(crate) fn queue(&self) -> Option<QueuePlace<'_>> {
        let place = QueuePlace(&self.waiting);
        (self.waiting.fetch_add(1, Relaxed) < self.max_waiting).then_some(place)
    }

    /// Waits for permits, whether or not the call has a place in the queue. The semaphore is never
    /// closed, so that there is always a result.
    pub(crate) async fn acquire(&self, permits: u32) -> Option<CallPermit> {
        let permits = Arc::clone(&self.free).acquire_many_owned(permits).await.ok()?;
        Some(CallPermit { _permits: permits })
    }
}

/// A place in the queue, given up on drop.
pub(crate) struct QueuePlace<'a>(&'a AtomicU32);

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn permits_and_waiting_calls_are_bounded() {
        let limit = CallLimit::new(1, 1);
        let permit = limit.take(Duration::ZERO).await.unwrap();
        let mut patient = std::pin::pin!(limit.take(Duration::from_secs(60)));
        assert!(futures::poll!(patient.as_mut()).is_pending());
        assert_eq!((limit.in_use(), limit.waiting()), (1, 1));
        assert!(limit.take(Duration::from_secs(60)).await.is_none(), "one waits already");
        drop(permit);
        drop(patient.await.unwrap());
        let permit = limit.take(Duration::ZERO).await;
        assert!(permit.is_some());
        assert!(limit.take(Duration::from_millis(1)).await.is_none(), "it waited too long");
        assert_eq!(limit.waiting(), 0);
    }
}
