//! The memory that the host spends on behalf of guests, clients and remote servers, bounded as a
//! whole by `memory_budget_bytes`.
//!
//! Memory is reserved before it is allocated, and returned when the [`Reservation`] is dropped.
//! Guest memory, parsed values, bodies, listings and loaded code are all reserved from the same
//! [`MemoryBudget`], available as [`Sandbox::memory_budget`](crate::Sandbox::memory_budget).

use std::future::{Future as _, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tollgate_agent::limit_places::{LimitPlaces, LimitScope};

/// The unit of reservation, in bytes.
const UNIT_BYTES: u64 = 4 << 10;
/// The interval at which a caller without a place in the queue checks whether memory is free.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The memory that the host may spend on behalf of others. Clones share the budget.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    free_units: Arc<Semaphore>,
    all_units: u32,
    /// Units that loaded code holds or waits for. Calls ending does not free them, so requests
    /// must not wait for them.
    code_units: Arc<Mutex<u32>>,
    limit_places: &'static LimitPlaces,
}

/// A part of a [`MemoryBudget`], returned on drop.
#[derive(Debug)]
pub struct Reservation {
    permit: OwnedSemaphorePermit,
}

/// The part of a [`MemoryBudget`] that loaded code holds, returned on drop.
#[derive(Debug)]
pub(crate) struct CodeReservation {
    // Dropped first, so that a concurrent request sees less than what is free, never more.
    _reservation: Reservation,
    _units: CodeUnits,
}

/// The reason why there is no memory for code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoCodeMemory {
    /// Less than half of the budget would be left for calls.
    Half,
    /// Calls hold the memory and did not return it in time.
    Busy,
}

/// Units counted as code.
#[derive(Debug)]
struct CodeUnits {
    of_budget: Arc<Mutex<u32>>,
    units: u32,
}

impl Drop for CodeUnits {
    fn drop(&mut self) {
        *lock(&self.of_budget) -= self.units;
    }
}

fn lock(units: &Mutex<u32>) -> MutexGuard<'_, u32> {
    units.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The requested memory is not available. Nothing was reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemoryExhausted {
    /// The whole budget is in use. A retry may succeed.
    #[error("the host's memory budget (memory_budget_bytes) is used up")]
    Budget,
    /// The host would hold more for one call than that call may use.
    #[error("the call needs more host memory than its memory_bytes allow")]
    Call,
}

impl MemoryBudget {
    /// Creates a budget of this many bytes, rounded down to units of 4 KiB, with at least one
    /// unit.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
        let all_units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).clamp(1, most);
        Self {
            free_units: Arc::new(Semaphore::new(all_units as usize)),
            all_units,
            code_units: Arc::default(),
            limit_places: &LimitPlaces::NONE,
        }
    }

    /// Sets the places where an operator changes limits, which messages about this one name.
    #[must_use]
    pub fn with_limit_places(self, limit_places: &'static LimitPlaces) -> Self {
        Self { limit_places, ..self }
    }

    /// Returns the places where an operator changes limits.
    #[must_use]
    pub fn limit_places(&self) -> &'static LimitPlaces {
        self.limit_places
    }

    /// Returns the words that follow "raise it" in a message about this budget: ` in ` and the place
    /// where an operator changes `memory_budget_bytes`, or nothing.
    #[must_use]
    pub fn limit_place(&self) -> String {
        self.limit_places.of(LimitScope::Host)
    }

    /// Reserves this many bytes, rounded up to units of 4 KiB. Returns `None` if they are not
    /// free or if another request is waiting in [`reserve`](Self::reserve).
    #[must_use]
    pub fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        let units = u32::try_from(units_of(bytes)).ok()?;
        let permit = Arc::clone(&self.free_units).try_acquire_many_owned(units).ok()?;
        Some(Reservation { permit })
    }

    /// Reserves what is missing until `held` has this many bytes. Returns `false` and changes nothing if
    /// that is not free.
    #[must_use]
    pub fn try_grow_to(&self, held: &mut Option<Reservation>, bytes: u64) -> bool {
        match held {
            Some(held) => held.try_grow(bytes.saturating_sub(held.bytes())),
            None => {
                *held = self.try_reserve(bytes);
                held.is_some()
            }
        }
    }

    /// Reserves this many bytes, waiting in request order until they are free. Reserves the
    /// budget without loaded code if that is smaller. Dropping the future gives up the place in
    /// the queue.
    pub async fn reserve(&self, bytes: u64) -> Reservation {
        let wanted = u32::try_from(units_of(bytes)).unwrap_or(u32::MAX);
        self.wait_for(|code_units| wanted.min(self.all_units - *code_units)).await
    }

    /// Reserves this many bytes as soon as they are free, within this time; `None` if they are not. The caller
    /// takes no place in the queue: callers that hold memory and wait for more would wait for each other there,
    /// and others behind them. It checks every 50 ms, and others may overtake it.
    pub async fn reserve_unqueued(&self, bytes: u64, patience: Duration) -> Option<Reservation> {
        let until = Instant::now() + patience;
        loop {
            let reserved = self.try_reserve(bytes);
            if reserved.is_some() || Instant::now() >= until {
                return reserved;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Reserves memory for code that is being loaded, waiting this long for calls to return it.
    /// At least half of the budget is left for calls.
    pub(crate) async fn reserve_for_code(
        &self,
        bytes: u64,
        patience: Duration,
    ) -> Result<CodeReservation, NoCodeMemory> {
        let units = u32::try_from(units_of(bytes)).unwrap_or(u32::MAX);
        let mut counted = None;
        let reserved = self.wait_for(|code_units| {
            let sum = code_units.checked_add(units).filter(|sum| *sum <= self.all_units / 2);
            let Some(sum) = sum else { return 0 };
            *code_units = sum;
            counted = Some(CodeUnits { of_budget: Arc::clone(&self.code_units), units });
            units
        });
        let reserved = tokio::time::timeout(patience, reserved).await;
        let counted = counted.ok_or(NoCodeMemory::Half)?;
        let reservation = reserved.map_err(|_| NoCodeMemory::Busy)?;
        Ok(CodeReservation { _reservation: reservation, _units: counted })
    }

    /// Waits for units, in request order. Computing the number of units and joining the queue
    /// happen under one lock, so that a request queued behind code accounts for the units that
    /// the code will hold.
    async fn wait_for(&self, units: impl FnOnce(&mut u32) -> u32) -> Reservation {
        let (mut units, mut waiting) = (Some(units), None);
        let permit = poll_fn(|context| {
            let mut code_units = units.is_some().then(|| lock(&self.code_units));
            if let Some((units, code_units)) = units.take().zip(code_units.as_deref_mut()) {
                let free = Arc::clone(&self.free_units);
                waiting = Some(Box::pin(free.acquire_many_owned(units(code_units))));
            }
            match &mut waiting {
                Some(waiting) => waiting.as_mut().poll(context),
                None => Poll::Pending,
            }
        });
        match permit.await {
            Ok(permit) => Reservation { permit },
            // The semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns the maximum for one call: the budget without the memory of loaded code.
    pub(crate) fn most_for_calls_bytes(&self) -> u64 {
        u64::from(self.all_units - *lock(&self.code_units)) * UNIT_BYTES
    }

    /// Returns the bytes that loaded code holds.
    #[must_use]
    pub fn code_bytes(&self) -> u64 {
        u64::from(*lock(&self.code_units)) * UNIT_BYTES
    }

    /// Returns the bytes that are currently reserved, without those of loaded code.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        let free = u64::try_from(self.free_units.available_permits()).unwrap_or(u64::MAX);
        (u64::from(self.all_units).saturating_sub(free) * UNIT_BYTES).saturating_sub(self.code_bytes())
    }

    /// Returns the size of the whole budget in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.all_units) * UNIT_BYTES
    }
}

impl Reservation {
    /// Returns the number of reserved bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.permit.num_permits() as u64 * UNIT_BYTES
    }

    /// Reserves this many more bytes, rounded up to units of 4 KiB. Returns `false` and changes
    /// nothing if they are not free.
    #[must_use]
    pub fn try_grow(&mut self, bytes: u64) -> bool {
        let Ok(units) = u32::try_from(units_of(bytes)) else { return false };
        match Arc::clone(self.permit.semaphore()).try_acquire_many_owned(units) {
            Ok(more) => {
                self.permit.merge(more);
                true
            }
            Err(_) => false,
        }
    }

    /// Adds another reservation of the same budget; one of another budget is returned to that.
    pub fn absorb(&mut self, other: Self) {
        if Arc::ptr_eq(self.permit.semaphore(), other.permit.semaphore()) {
            self.permit.merge(other.permit);
        }
    }

    /// Splits off this many bytes, or all if there are fewer, as a separate reservation.
    pub(crate) fn split_off(&mut self, bytes: u64) -> Option<Reservation> {
        let units = usize::try_from(units_of(bytes)).unwrap_or(usize::MAX);
        let permit = self.permit.split(units.min(self.permit.num_permits()))?;
        Some(Reservation { permit })
    }

    /// Returns everything beyond this many bytes, rounded up to units of 4 KiB.
    pub fn shrink_to(&mut self, bytes: u64) {
        let kept = usize::try_from(units_of(bytes)).unwrap_or(usize::MAX);
        let excess = self.permit.num_permits().saturating_sub(kept);
        drop(self.permit.split(excess));
    }
}

/// Reservations are equal if their sizes are.
impl PartialEq for Reservation {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

fn units_of(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_reservation_is_given_back_when_it_is_dropped() {
        let budget = MemoryBudget::new(1 << 20);
        let first = budget.try_reserve(1).unwrap();
        assert_eq!((first.bytes(), budget.reserved_bytes()), (4 << 10, 4 << 10));
        assert!(budget.try_reserve(1 << 20).is_none());
        assert!(budget.try_reserve(u64::MAX).is_none());
        drop(first);
        assert_eq!(budget.try_reserve(1 << 20).unwrap().bytes(), budget.total_bytes());
        assert_eq!(budget.reserved_bytes(), 0);
    }

    #[test]
    fn a_reservation_grows_while_there_is_room_and_shrinks() {
        let budget = MemoryBudget::new(64 << 10);
        let mut grown = budget.try_reserve(0).unwrap();
        assert_eq!(grown.bytes(), 0);
        assert!(grown.try_grow(60 << 10));
        assert!(!grown.try_grow(5 << 10) && !grown.try_grow(u64::MAX));
        assert!(grown.try_grow(4 << 10));
        assert_eq!(budget.reserved_bytes(), 64 << 10);
        grown.shrink_to(5_000);
        assert_eq!((grown.bytes(), budget.reserved_bytes()), (8 << 10, 8 << 10));
        grown.shrink_to(1 << 30);
        assert_eq!(grown.bytes(), 8 << 10);
        grown.absorb(budget.try_reserve(4 << 10).unwrap());
        grown.absorb(MemoryBudget::new(64 << 10).try_reserve(4 << 10).unwrap());
        assert_eq!((grown.bytes(), budget.reserved_bytes()), (12 << 10, 12 << 10));
    }

    #[tokio::test]
    async fn z4_loaded_code_counts_and_nobody_waits_for_what_it_holds() {
        let (budget, patience) = (MemoryBudget::new(64 << 10), Duration::from_millis(1));
        let of_code = async |bytes| budget.reserve_for_code(bytes, patience).await;
        assert_eq!(of_code(33 << 10).await.err(), Some(NoCodeMemory::Half));
        let code = of_code(16 << 10).await.unwrap();
        assert_eq!((budget.code_bytes(), budget.reserved_bytes()), (16 << 10, 0));
        assert!(budget.try_reserve(49 << 10).is_none());
        let all = budget.reserve(1 << 40).await;
        assert_eq!(all.bytes(), 48 << 10, "all that is not held by code");
        assert_eq!(of_code(4 << 10).await.err(), Some(NoCodeMemory::Busy));
        assert_eq!(budget.code_bytes(), 16 << 10, "what was waited for in vain is given back");

        let mut more = std::pin::pin!(budget.reserve_for_code(16 << 10, Duration::from_secs(60)));
        assert!(futures::poll!(more.as_mut()).is_pending());
        let mut behind = std::pin::pin!(budget.reserve(1 << 40));
        assert!(futures::poll!(behind.as_mut()).is_pending());
        drop(all);
        let more = more.await.unwrap();
        assert_eq!(behind.await.bytes(), 32 << 10);
        assert_eq!(of_code(1).await.err(), Some(NoCodeMemory::Half));
        drop((code, more));
        assert_eq!((budget.code_bytes(), budget.try_reserve(64 << 10).unwrap().bytes()), (0, 64 << 10));
    }

    #[tokio::test]
    async fn who_waits_is_served_in_order_and_a_clone_is_the_same_budget() {
        let budget = MemoryBudget::new(64 << 10);
        let all = budget.clone().reserve(1 << 40).await;
        assert_eq!(all.bytes(), 64 << 10, "more than there is counts as all of it");
        let mut large = std::pin::pin!(budget.reserve(64 << 10));
        let mut small = std::pin::pin!(budget.reserve(1));
        assert!(futures::poll!(large.as_mut()).is_pending());
        assert!(futures::poll!(small.as_mut()).is_pending());
        drop(all);
        let large = large.await;
        assert!(futures::poll!(small.as_mut()).is_pending());
        drop(large);
        assert_eq!(small.await.bytes(), 4 << 10);
    }
}
