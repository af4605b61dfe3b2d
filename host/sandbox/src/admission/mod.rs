//! Admission of calls: bounds how many run at once, how many wait, and the memory they hold.
//!
//! A call that waits for a child run keeps its memory and lends its slot, so that its child's
//! calls can run. Calls that wait this way hold at most half of the memory; the other half stays
//! available to running calls.
//!
//! The calls of one component can hold only part of the slots: see [`ComponentPlaces`].
//!
//! A call's share covers the guest's memory and what the host holds for the call: see
//! [`Share`](crate::share::Share).

use crate::budget::{MemoryBudget, MemoryExhausted, Reservation};
use crate::call_limit::{CallLimit, CallPermit};
use crate::component_places::ComponentPlaces;
use crate::config::SandboxConfig;
use crate::limits::Limits;
use crate::share::Share;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The host's memory for calls, granted in request order, and the slots of running calls.
pub(crate) struct Admission {
    memory: MemoryBudget,
    calls: Arc<CallLimit>,
    lending: Arc<CallsInChildRuns>,
}

/// The resources that calls keep while they wait for child runs.
struct CallsInChildRuns {
    bytes: AtomicU64,
    memory: MemoryBudget,
    calls: AtomicU32,
    most_calls: u32,
}

/// The part of a sandbox that is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Calls that are running.
    pub running_calls: u32,
    /// Calls that are waiting for a slot.
    pub waiting_calls: u32,
    /// Calls that wait for a child run and keep their memory.
    pub lending_calls: u32,
    /// Bytes of `memory_budget_bytes` that are reserved, used or not. Loaded code is not included.
    pub memory_bytes: u64,
}

/// A call's permission to run. Dropping it returns the call's share.
pub(crate) struct Slot {
    share: Share,
    place: Mutex<Option<RunningSlot>>,
    calls: Arc<CallLimit>,
    /// The component's slots, and the parts of them that the call takes.
    of_component: Option<(Arc<CallLimit>, u32)>,
    lending: Arc<CallsInChildRuns>,
}

/// A slot among the running calls, returned on drop.
struct RunningSlot {
    _of_host: CallPermit,
    _of_component: Option<CallPermit>,
}

/// The reason why a call is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// Too many calls are already waiting.
    QueueFull,
    /// The call waited for as long as its timeout.
    TooLate,
}

impl Admission {
    pub(crate) fn new(config: &SandboxConfig) -> Self {
        let calls = CallLimit::new(config.concurrent_calls.max(1), config.waiting_calls);
        let memory = MemoryBudget::new(config.memory_budget_bytes).with_limit_places(config.limit_places);
        Self {
            lending: Arc::new(CallsInChildRuns {
                bytes: AtomicU64::new(0),
                memory: memory.clone(),
                calls: AtomicU32::new(0),
                most_calls: calls.permits(),
            }),
            calls: Arc::new(calls),
            memory,
        }
    }

    /// Returns the memory that all calls share.
    pub(crate) fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    /// Admits a call that needs this much memory if it is free and no other call is waiting for
    /// it. `None` for `of` means that no per-component bound applies.
    pub(crate) fn take_at_once(&self, of: Option<&ComponentPlaces>, memory_bytes: u64) -> Option<Slot> {
        let of_component = self.parts_of(of, memory_bytes);
        let _of_component = match &of_component {
            Some((slots, parts)) => Some(slots.try_take(*parts)?),
            None => None,
        };
        let reserved = self.memory.try_reserve(memory_bytes.clamp(1, self.memory.most_for_calls_bytes()))?;
        let _of_host = self.calls.try_take(1)?;
        Some(self.slot(memory_bytes, reserved, of_component, RunningSlot { _of_host, _of_component }))
    }

    /// Waits for room for a call that needs this much memory. A call waits for its component's
    /// slots first, so it does not block calls of other components.
    pub(crate) async fn take(
        &self,
        of: Option<&ComponentPlaces>,
        memory_bytes: u64,
        patience: Duration,
    ) -> Result<Slot, NotAdmitted> {
        if let Some(slot) = self.take_at_once(of, memory_bytes) {
            return Ok(slot);
        }
        let _waits_in_component = of.map(|of| of.parts.queue().ok_or(NotAdmitted::QueueFull)).transpose()?;
        let _waits = self.calls.queue().ok_or(NotAdmitted::QueueFull)?;
        let of_component = self.parts_of(of, memory_bytes);
        let room = async {
            let of_component = acquire(of_component.as_ref()).await;
            let reserved = self.memory.reserve(memory_bytes.max(1)).await;
            self.calls.acquire(1).await.map(|place| (of_component, reserved, place))
        };
        match tokio::time::timeout(patience, room).await {
            Ok(Some((_of_component, reserved, _of_host))) => {
                Ok(self.slot(memory_bytes, reserved, of_component, RunningSlot { _of_host, _of_component }))
            }
            Ok(None) | Err(_) => Err(NotAdmitted::TooLate),
        }
    }

    /// Returns the current usage. The parts are read one after another while calls start and end.
    pub(crate) fn occupancy(&self) -> Occupancy {
        Occupancy {
            running_calls: self.calls.in_use(),
            waiting_calls: self.calls.waiting(),
            lending_calls: self.lending.calls.load(Relaxed),
            memory_bytes: self.memory.reserved_bytes(),
        }
    }

    fn parts_of(&self, of: Option<&ComponentPlaces>, memory_bytes: u64) -> Option<(Arc<CallLimit>, u32)> {
        let of = of?;
        let parts = of.parts_of(memory_bytes, self.memory.most_for_calls_bytes(), self.calls.permits());
        Some((Arc::clone(&of.parts), parts))
    }

    fn slot(
        &self,
        memory_bytes: u64,
        reserved: Reservation,
        of_component: Option<(Arc<CallLimit>, u32)>,
        place: RunningSlot,
    ) -> Slot {
        let (calls, lending) = (Arc::clone(&self.calls), Arc::clone(&self.lending));
        let place = Mutex::new(Some(place));
        Slot { share: Share::new(memory_bytes, reserved), place, calls, of_component, lending }
    }
}

/// Waits for a slot of the component.
async fn acquire(of_component: Option<&(Arc<CallLimit>, u32)>) -> Option<CallPermit> {
    let (slots, parts) = of_component?;
    slots.acquire(*parts).await
}

impl Slot {
    /// Charges memory that the host holds on behalf of the call. Charge before allocating. The
    /// memory stays charged until the slot is dropped; use [`hand_over`](Self::hand_over) for
    /// memory that outlives the slot and [`charge_while`](Self::charge_while) for memory that is
    /// freed earlier.
    ///
    /// Memory that the guest does not use is available for this: only the part that exceeds the
    /// share is reserved from the budget.
    ///
    /// # Errors
    /// Fails without charging anything if there is no room.
    pub(crate) fn charge(&self, bytes: u64) -> Result<(), MemoryExhausted> {
        self.share.take(bytes)
    }

    /// Charges memory like [`charge`](Self::charge) if the call then uses at most `most_bytes`.
    ///
    /// # Errors
    /// The same as [`charge`](Self::charge).
    pub(crate) fn charge_up_to(&self, bytes: u64, most_bytes: u64) -> Result<(), MemoryExhausted> {
        self.share.take_up_to(bytes, most_bytes)
    }

    /// Charges memory like [`charge`](Self::charge), until the returned guard is dropped.
    ///
    /// # Errors
    /// The same as [`charge`](Self::charge).
    pub(crate) fn charge_while(self: &Arc<Self>, bytes: u64) -> Result<Charge, MemoryExhausted> {
        Charge::of(self, bytes)
    }

    /// Sets the maximum that may be charged under these limits.
    pub(crate) fn under(mut self, limits: &Limits) -> Self {
        self.share.bound(limits.memory_bytes.saturating_add(limits.host_memory_bytes));
        self
    }

    /// Returns memory that was charged and is no longer held.
    pub(crate) fn release(&self, bytes: u64) {
        self.share.give_back(bytes);
    }

    /// Ends the call's slot and keeps this many bytes reserved for the call's answer, which
    /// outlives it. `None` if the answer is too small to be counted.
    pub(crate) fn hand_over(&self, bytes: u64) -> Option<Reservation> {
        self.share.hand_over(bytes)
    }

    /// Lends the call's slot while `work` runs, then waits for a slot again.
    ///
    /// # Errors
    /// Fails without starting `work` if too many calls already wait this way.
    pub(crate) async fn yield_slot<T>(&self, work: impl Future<Output = T>) -> Result<T, NotAdmitted> {
        let _lending = self.lending.take(self.share.reserved_bytes())?;
        drop(self.hold(None));
        let done = work.await;
        let _of_component = acquire(self.of_component.as_ref()).await;
        if let Some(_of_host) = self.calls.acquire(1).await {
            self.hold(Some(RunningSlot { _of_host, _of_component }));
        }
        Ok(done)
    }

    fn hold(&self, place: Option<RunningSlot>) -> Option<RunningSlot> {
        std::mem::replace(&mut *self.place.lock().unwrap_or_else(PoisonError::into_inner), place)
    }
}

/// Memory that is charged to a call until this is dropped.
pub(crate) struct Charge {
    slot: Arc<Slot>,
    bytes: u64,
}

impl Charge {
    pub(crate) fn of(slot: &Arc<Slot>, bytes: u64) -> Result<Self, MemoryExhausted> {
        slot.charge(bytes)?;
        Ok(Self { slot: Arc::clone(slot), bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.slot.release(self.bytes);
    }
}

impl CallsInChildRuns {
    fn take(self: &Arc<Self>, bytes: u64) -> Result<ChildRunShare, NotAdmitted> {
        let share = ChildRunShare { lending: Arc::clone(self), bytes };
        let before = (self.bytes.fetch_add(bytes, Relaxed), self.calls.fetch_add(1, Relaxed));
        let fits = before.0.saturating_add(bytes) <= self.memory.most_for_calls_bytes() / 2
            && before.1 < self.most_calls;
        fits.then_some(share).ok_or(NotAdmitted::QueueFull)
    }
}

/// The resources that one call holds while it waits for its child, returned on drop.
struct ChildRunShare {
    lending: Arc<CallsInChildRuns>,
    bytes: u64,
}

impl Drop for ChildRunShare {
    fn drop(&mut self) {
        self.lending.bytes.fetch_sub(self.bytes, Relaxed);
        self.lending.calls.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
