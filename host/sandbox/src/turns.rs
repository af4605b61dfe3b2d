//! Who may run now: the calls that run at once fit the host's memory, there are not
//! too many of them, and of those that wait there are not too many either.
//!
//! A call that waits for a child run keeps its memory and lends its place among the
//! running, so that its child's calls have room. Calls that wait so hold half of the
//! memory at most: the other half is always there for those that run.
//!
//! A call's share holds the guest's memory and what the host holds for the call: see
//! [`Share`](crate::share::Share).

use crate::budget::{Exhausted, MemoryBudget, Reservation};
use crate::config::SandboxConfig;
use crate::limits::Limits;
use crate::share::{Charge, Share};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The host's memory for calls, dealt out in the order in which they asked, and the
/// places of those that run.
pub(crate) struct Turns {
    memory: MemoryBudget,
    places: Arc<Semaphore>,
    all_places: u32,
    waiting: AtomicU32,
    max_waiting: u32,
    lent: Arc<Lent>,
}

/// What the calls hold that wait for child runs.
struct Lent {
    bytes: AtomicU64,
    memory: MemoryBudget,
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
    /// Bytes of `memory_budget_bytes` that are reserved, whether they are used or not,
    /// beside those of loaded code.
    pub memory_bytes: u64,
}

/// A call's leave to run; its share goes back when this is dropped.
pub(crate) struct Turn {
    share: Share,
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
        let calls = config.concurrent_calls.clamp(1, most);
        let memory = MemoryBudget::new(config.memory_budget_bytes);
        Self {
            places: Arc::new(Semaphore::new(calls as usize)),
            all_places: calls,
            waiting: AtomicU32::new(0),
            max_waiting: config.waiting_calls,
            lent: Arc::new(Lent {
                bytes: AtomicU64::new(0),
                memory: memory.clone(),
                calls: AtomicU32::new(0),
                most_calls: calls,
            }),
            memory,
        }
    }

    /// The memory that all calls share.
    pub(crate) fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    /// Room for a call of this much memory, where there is some and nobody waits for it.
    pub(crate) fn take_at_once(&self, memory_bytes: u64) -> Option<Turn> {
        let reserved = self.memory.try_reserve(memory_bytes.clamp(1, self.memory.most_for_calls_bytes()))?;
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(self.turn(memory_bytes, reserved, place))
    }

    /// Waits for room for a call of this much memory.
    pub(crate) async fn take(&self, memory_bytes: u64, patience: Duration) -> Result<Turn, NoTurn> {
        if let Some(turn) = self.take_at_once(memory_bytes) {
            return Ok(turn);
        }
        let _waits = self.queue()?;
        let room = async {
            let reserved = self.memory.reserve(memory_bytes.max(1)).await;
            Arc::clone(&self.places).acquire_owned().await.map(|place| (reserved, place))
        };
        match tokio::time::timeout(patience, room).await {
            Ok(Ok((reserved, place))) => Ok(self.turn(memory_bytes, reserved, place)),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(NoTurn::TooLate),
        }
    }

    /// What is in use now. The parts are read one after the other, while calls come and go.
    pub(crate) fn occupancy(&self) -> Occupancy {
        let free = |semaphore: &Semaphore| u32::try_from(semaphore.available_permits()).unwrap_or(u32::MAX);
        Occupancy {
            running_calls: self.all_places.saturating_sub(free(&self.places)),
            waiting_calls: self.waiting.load(Relaxed),
            lending_calls: self.lent.calls.load(Relaxed),
            memory_bytes: self.memory.reserved_bytes(),
        }
    }

    fn turn(&self, memory_bytes: u64, reserved: Reservation, place: OwnedSemaphorePermit) -> Turn {
        let (places, lent) = (Arc::clone(&self.places), Arc::clone(&self.lent));
        Turn { share: Share::new(memory_bytes, reserved), place: Mutex::new(Some(place)), places, lent }
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
    /// Charges memory that the host holds on behalf of the call. Charge before you
    /// allocate. It stays charged until the turn ends; what outlives the turn is taken out
    /// of it by [`hand_over`](Self::hand_over), and what ends earlier is charged by
    /// [`charge_while`](Self::charge_while).
    ///
    /// The call's share has room for it as far as the guest does not use it: only what
    /// exceeds the share is reserved from the budget.
    ///
    /// # Errors
    /// There is no room for it. Nothing was charged.
    pub(crate) fn charge(&self, bytes: u64) -> Result<(), Exhausted> {
        self.share.take(bytes)
    }

    /// Charges memory as [`charge`](Self::charge) does, until what this gives is dropped.
    ///
    /// # Errors
    /// As [`charge`](Self::charge).
    pub(crate) fn charge_while(self: &Arc<Self>, bytes: u64) -> Result<Charge, Exhausted> {
        Charge::of(self, bytes)
    }

    /// With the most that may be charged to it under these limits.
    pub(crate) fn under(mut self, limits: &Limits) -> Self {
        self.share.bound(limits.memory_bytes.saturating_add(limits.host_memory_bytes));
        self
    }

    /// Gives back what was charged and is no longer held.
    pub(crate) fn release(&self, bytes: u64) {
        self.share.give_back(bytes);
    }

    /// Ends the turn, and keeps reserved what the host holds beyond it: the call's answer,
    /// of this many bytes. `None` if they are so few that nobody needs to count them.
    pub(crate) fn hand_over(&self, bytes: u64) -> Option<Reservation> {
        self.share.hand_over(bytes)
    }

    /// Does this while others run in the call's place, and waits for a place again.
    ///
    /// # Errors
    /// Too many calls wait so already; nothing was done.
    pub(crate) async fn lend<T>(&self, work: impl Future<Output = T>) -> Result<T, NoTurn> {
        let _lent = self.lent.take(self.share.reserved_bytes())?;
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
    fn take(self: &Arc<Self>, bytes: u64) -> Result<LentShare, NoTurn> {
        let share = LentShare { lent: Arc::clone(self), bytes };
        let before = (self.bytes.fetch_add(bytes, Relaxed), self.calls.fetch_add(1, Relaxed));
        let fits = before.0.saturating_add(bytes) <= self.memory.most_for_calls_bytes() / 2
            && before.1 < self.most_calls;
        fits.then_some(share).ok_or(NoTurn::QueueFull)
    }
}

/// What one call holds while it waits for its child, given back when it is dropped.
struct LentShare {
    lent: Arc<Lent>,
    bytes: u64,
}

impl Drop for LentShare {
    fn drop(&mut self) {
        self.lent.bytes.fetch_sub(self.bytes, Relaxed);
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
        let full = Occupancy { running_calls: 1, waiting_calls: 1, memory_bytes: 8 << 10, lending_calls: 0 };
        assert_eq!(turns.occupancy(), full);
        drop(running);
        drop(patient.await.unwrap());
        assert!(turns.take(1, Duration::ZERO).await.is_ok());
        assert_eq!(turns.occupancy(), Occupancy::default());
    }

    #[tokio::test]
    async fn z3_the_host_s_memory_for_a_call_is_taken_from_its_share_and_then_from_the_budget() {
        let turns = turns(4, 1);
        let turn = Arc::new(turns.take(20 << 20, Duration::ZERO).await.unwrap());
        assert_eq!(turn.charge(15 << 20), Ok(()));
        assert_eq!(turns.memory().reserved_bytes(), 20 << 20, "the share had room");
        let charge = turn.charge_while(10 << 20).unwrap();
        assert_eq!(turns.memory().reserved_bytes(), 25 << 20);
        assert_eq!(turn.charge(10 << 20), Ok(()));
        assert_eq!(turn.charge(20 << 20), Err(Exhausted::Call), "20 MiB and 24 MiB are its most");
        drop(charge);
        assert_eq!(turn.charge(10 << 20), Ok(()), "what was given back is there again");
        let beside = turns.take(20 << 20, Duration::ZERO).await.unwrap();
        assert_eq!(beside.charge(30 << 20), Err(Exhausted::Budget));
        assert_eq!(beside.charge(20 << 20), Ok(()), "its own share is always there");
        drop(beside);
        let answer = turn.hand_over(3 << 20).unwrap();
        assert!(turn.hand_over(1_000).is_none());
        drop(turn);
        assert_eq!((turns.memory().reserved_bytes(), answer.bytes()), (3 << 20, 3 << 20));
        drop(answer);
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
        assert_eq!((turns.lent.bytes.load(Relaxed), turns.lent.calls.load(Relaxed)), (0, 0));
    }
}
