//! Who may run now: the calls that run at once fit the host's memory, and of those
//! that wait there are not too many.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::config::SandboxConfig;

/// Memory is dealt out in units of so many bytes.
const UNIT_BYTES: u64 = 1 << 20;

/// The host's memory for calls, dealt out in the order in which they asked.
pub(crate) struct Turns {
    units: Semaphore,
    all_units: u32,
    units_of_least: u32,
    waiting: AtomicU32,
    max_waiting: u32,
}

/// A call's leave to run; its share goes back when this is dropped.
pub(crate) struct Turn<'a> {
    _share: SemaphorePermit<'a>,
}

/// Why a call does not get its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTurn {
    /// Too many calls wait already.
    QueueFull,
    /// It waited for as long as it may run.
    TooLate,
}

impl Turns {
    pub(crate) fn new(config: &SandboxConfig) -> Self {
        let all_units = u32::try_from(config.memory_budget_bytes / UNIT_BYTES)
            .unwrap_or(u32::MAX)
            .clamp(1, u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        Self {
            units: Semaphore::new(all_units as usize),
            all_units,
            // Rounded up, so that no more calls run at once than there are slots.
            units_of_least: all_units.div_ceil(config.concurrent_calls.max(1)),
            waiting: AtomicU32::new(0),
            max_waiting: config.waiting_calls,
        }
    }

    /// Waits for room for a call of this much memory.
    pub(crate) async fn take(&self, memory_bytes: u64, patience: Duration) -> Result<Turn<'_>, NoTurn> {
        let units = self.units_of(memory_bytes);
        if let Ok(share) = self.units.try_acquire_many(units) {
            return Ok(Turn { _share: share });
        }
        let _place = self.queue()?;
        match tokio::time::timeout(patience, self.units.acquire_many(units)).await {
            Ok(Ok(share)) => Ok(Turn { _share: share }),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(NoTurn::TooLate),
        }
    }

    fn units_of(&self, memory_bytes: u64) -> u32 {
        let units = u32::try_from(memory_bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        units.clamp(self.units_of_least, self.all_units)
    }

    fn queue(&self) -> Result<Place<'_>, NoTurn> {
        let place = Place(&self.waiting);
        if self.waiting.fetch_add(1, Relaxed) >= self.max_waiting {
            return Err(NoTurn::QueueFull);
        }
        Ok(place)
    }
}

/// A place in the queue, given up when it is dropped.
struct Place<'a>(&'a AtomicU32);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn turns(concurrent: u32, waiting: u32) -> Turns {
        Turns::new(&SandboxConfig {
            memory_budget_bytes: 64 << 20,
            concurrent_calls: concurrent,
            waiting_calls: waiting,
            ..SandboxConfig::default()
        })
    }

    #[tokio::test]
    async fn calls_fit_the_budget_and_the_number() {
        let turns = turns(4, 1);
        let patience = Duration::from_millis(1);
        let running: Vec<_> = [1, 1, 1, 1].map(|bytes| turns.take(bytes, patience)).into_iter().collect();
        let running = futures::future::join_all(running).await;
        assert!(running.iter().all(Result::is_ok));
        assert_eq!(turns.take(1, patience).await.err(), Some(NoTurn::TooLate));
        drop(running);
        let large = turns.take(1 << 40, patience).await.unwrap();
        assert!(turns.take(1, patience).await.is_err(), "one call may take all of it");
        drop(large);
        assert!(turns.take(1, patience).await.is_ok());
    }

    #[tokio::test]
    async fn the_queue_is_bounded_and_gives_its_places_back() {
        let turns = turns(1, 1);
        let running = turns.take(1, Duration::ZERO).await.unwrap();
        let patient = turns.take(1, Duration::from_secs(60));
        let mut patient = std::pin::pin!(patient);
        assert!(futures::poll!(patient.as_mut()).is_pending());
        assert_eq!(turns.take(1, Duration::from_secs(60)).await.err(), Some(NoTurn::QueueFull));
        drop(running);
        drop(patient.await.unwrap());
        assert!(turns.take(1, Duration::ZERO).await.is_ok());
        assert_eq!(turns.waiting.load(Relaxed), 0);
    }
}
