//! Who may run now: the calls that run at once fit the host's memory, there are not
//! too many of them, and of those that wait there are not too many either.
//!
//! A call that waits for a child run keeps its memory and lends its place among the
//! running, so that its child's calls have room. Calls that wait so hold half of the
//! memory at most: the other half is always there for those that run.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::SandboxConfig;

/// Memory is dealt out in units of so many bytes.
const UNIT_BYTES: u64 = 1 << 20;

/// The host's memory for calls, dealt out in the order in which they asked, and the
/// places of those that run.
pub(crate) struct Turns {
    units: Arc<Semaphore>,
    places: Arc<Semaphore>,
    all_units: u32,
    all_places: u32,
    waiting: AtomicU32,
    max_waiting: u32,
    lent: Arc<Lent>,
}

/// What the calls hold that wait for child runs.
struct Lent {
    units: AtomicU32,
    most_units: u32,
    calls: AtomicU32,
    most_calls: u32,
}

/// How much of a sandbox is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Calls that run.
    pub running_calls: u32,
    /// Calls that wait for their turn.
    pub waiting_calls: u32,
    /// Calls that wait for a child run and keep their memory.
    pub lending_calls: u32,
    /// Bytes of wasm memory that are set aside for calls, whether they use them or not.
    pub memory_bytes: u64,
}

/// A call's leave to run; its share goes back when this is dropped.
pub(crate) struct Turn {
    _share: OwnedSemaphorePermit,
    units: u32,
    place: Mutex<Option<OwnedSemaphorePermit>>,
    places: Arc<Semaphore>,
    lent: Arc<Lent>,
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
        let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
        let all_units =
            u32::try_from(config.memory_budget_bytes / UNIT_BYTES).unwrap_or(u32::MAX).clamp(1, most);
        let calls = config.concurrent_calls.clamp(1, most);
        Self {
            units: Arc::new(Semaphore::new(all_units as usize)),
            places: Arc::new(Semaphore::new(calls as usize)),
            all_units,
            all_places: calls,
            waiting: AtomicU32::new(0),
            max_waiting: config.waiting_calls,
            lent: Arc::new(Lent {
                units: AtomicU32::new(0),
                most_units: all_units / 2,
                calls: AtomicU32::new(0),
                most_calls: calls,
            }),
        }
    }

    /// Room for a call of this much memory, where there is some and nobody waits for it.
    pub(crate) fn take_at_once(&self, memory_bytes: u64) -> Option<Turn> {
        let units = self.units_of(memory_bytes);
        let share = Arc::clone(&self.units).try_acquire_many_owned(units).ok()?;
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(self.turn(units, share, place))
    }

    /// Waits for room for a call of this much memory.
    pub(crate) async fn take(&self, memory_bytes: u64, patience: Duration) -> Result<Turn, NoTurn> {
        if let Some(turn) = self.take_at_once(memory_bytes) {
            return Ok(turn);
        }
        let units = self.units_of(memory_bytes);
        let _waits = self.queue()?;
        let room = async {
            let share = Arc::clone(&self.units).acquire_many_owned(units).await;
            let place = Arc::clone(&self.places).acquire_owned().await;
            Ok((share?, place?))
        };
        match tokio::time::timeout(patience, room).await {
            Ok(Ok((share, place))) => Ok(self.turn(units, share, place)),
            // The semaphores are never closed.
            Ok(Err::<_, tokio::sync::AcquireError>(_)) | Err(_) => Err(NoTurn::TooLate),
        }
    }

    /// What is in use now. The parts are read one after the other, while calls come and go.
    pub(crate) fn occupancy(&self) -> Occupancy {
        let free = |semaphore: &Semaphore| u32::try_from(semaphore.available_permits()).unwrap_or(u32::MAX);
        Occupancy {
            running_calls: self.all_places.saturating_sub(free(&self.places)),
            waiting_calls: self.waiting.load(Relaxed),
            lending_calls: self.lent.calls.load(Relaxed),
            memory_bytes: u64::from(self.all_units.saturating_sub(free(&self.units))) * UNIT_BYTES,
        }
    }

    fn turn(&self, units: u32, share: OwnedSemaphorePermit, place: OwnedSemaphorePermit) -> Turn {
        let (places, lent) = (Arc::clone(&self.places), Arc::clone(&self.lent));
        Turn { _share: share, units, place: Mutex::new(Some(place)), places, lent }
    }

    fn units_of(&self, memory_bytes: u64) -> u32 {
        let units = u32::try_from(memory_bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        units.clamp(1, self.all_units)
    }

    fn queue(&self) -> Result<Place<'_>, NoTurn> {
        let place = Place(&self.waiting);
        if self.waiting.fetch_add(1, Relaxed) >= self.max_waiting {
            return Err(NoTurn::QueueFull);
        }
        Ok(place)
    }
}

impl Turn {
    /// Does this while others run in the call's place, and waits for a place again.
    ///
    /// # Errors
    /// Too many calls wait so already; nothing was done.
    pub(crate) async fn lend<T>(&self, work: impl Future<Output = T>) -> Result<T, NoTurn> {
        let _lent = self.lent.take(self.units)?;
        drop(self.hold(None));
        let done = work.await;
        if let Ok(place) = Arc::clone(&self.places).acquire_owned().await {
            self.hold(Some(place));
        }
        Ok(done)
    }

    fn hold(&self, place: Option<OwnedSemaphorePermit>) -> Option<OwnedSemaphorePermit> {
        std::mem::replace(&mut *self.place.lock().unwrap_or_else(PoisonError::into_inner), place)
    }
}

impl Lent {
    fn take(self: &Arc<Self>, units: u32) -> Result<LentShare, NoTurn> {
        let share = LentShare { lent: Arc::clone(self), units };
        let before = (self.units.fetch_add(units, Relaxed), self.calls.fetch_add(1, Relaxed));
        let fits = before.0.saturating_add(units) <= self.most_units && before.1 < self.most_calls;
        fits.then_some(share).ok_or(NoTurn::QueueFull)
    }
}

/// What one call holds while it waits for its child, given back when it is dropped.
struct LentShare {
    lent: Arc<Lent>,
    units: u32,
}

impl Drop for LentShare {
    fn drop(&mut self) {
        self.lent.units.fetch_sub(self.units, Relaxed);
        self.lent.calls.fetch_sub(1, Relaxed);
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
        // It has its memory already, and waits for a place.
        let full = Occupancy { running_calls: 1, waiting_calls: 1, memory_bytes: 2 << 20, lending_calls: 0 };
        assert_eq!(turns.occupancy(), full);
        drop(running);
        drop(patient.await.unwrap());
        assert!(turns.take(1, Duration::ZERO).await.is_ok());
        assert_eq!(turns.occupancy(), Occupancy::default());
    }

    #[tokio::test]
    async fn d7_a_call_that_waits_for_its_child_lends_its_place_and_keeps_its_memory() {
        let turns = turns(1, 1);
        let parent = turns.take(20 << 20, Duration::ZERO).await.unwrap();
        assert!(turns.take(1, Duration::ZERO).await.is_err(), "one call at a time");
        let child = async {
            assert!(turns.take(60 << 20, Duration::ZERO).await.is_err(), "the memory is the parent's");
            let child = turns.take(20 << 20, Duration::ZERO).await.unwrap();
            child.lend(async {}).await.is_err()
        };
        assert_eq!(parent.lend(child).await, Ok(true), "half of the memory at most waits");
        assert!(turns.take(1, Duration::ZERO).await.is_err(), "the parent has its place again");
        drop(parent);
        drop(turns.take(64 << 20, Duration::ZERO).await.unwrap());
        assert_eq!((turns.lent.units.load(Relaxed), turns.lent.calls.load(Relaxed)), (0, 0));
    }
}
