//! Counts the resources that a call uses, and stops it at a limit.
//!
//! wasmtime's own limiter checks each memory and each table separately; this one limits all of a
//! call's together. A refusal traps immediately: a guest that gets an error value instead usually
//! ends in an `unreachable` without an explanation.

use crate::admission::Slot;
use crate::budget::MemoryExhausted;
use crate::ledger::Ledger;
use crate::limits::Limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wasmtime::ResourceLimiter;

/// The reason why the host ends a call. The error that ends the guest carries it, and the classifier
/// reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    #[error("more memory than the limit")]
    Memory,
    #[error("more table elements than the limit")]
    TableElements,
    #[error("more open directory listings than the limit")]
    Listings,
    #[error("more open files than the limit")]
    OpenFiles,
    #[error("the host has no descriptor left for guests")]
    Descriptors,
    #[error("more bytes in one crossing than the limit")]
    Crossing,
    #[error("more bytes across the boundary than the limit")]
    Boundary,
    #[error("no fuel left for the bytes that cross the boundary")]
    Fuel,
    #[error("the deadline")]
    Deadline,
    #[error("cancelled")]
    Cancelled,
    #[error("more host memory than the call may use")]
    HostMemory,
    #[error("the host's memory budget is used up")]
    Budget,
}

impl From<MemoryExhausted> for Stop {
    fn from(exhausted: MemoryExhausted) -> Self {
        match exhausted {
            MemoryExhausted::Call => Stop::HostMemory,
            MemoryExhausted::Budget => Stop::Budget,
        }
    }
}

/// Counts memory and tables of one instance.
pub(crate) struct Meter {
    memory: Sum,
    /// Bytes that the host holds for the guest until the instance is dropped.
    held_bytes: u64,
    /// The bytes that the host may hold, however much the call uses beside them.
    most_held_bytes: u64,
    /// The slot to which memory is charged; `None` in tests.
    slot: Option<Arc<Slot>>,
    elements: Sum,
    instances: usize,
    tables: usize,
    memories: usize,
}

/// A sum with its limit, its peak, and the last addition, in case it fails.
#[derive(Debug)]
struct Sum {
    now: u64,
    peak: u64,
    last: u64,
    limit: u64,
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory: Sum::new(limits.memory_bytes),
            held_bytes: 0,
            most_held_bytes: limits.host_memory_bytes / 3,
            slot: None,
            elements: Sum::new(limits.table_elements),
            instances: limits.instances as usize,
            tables: limits.tables as usize,
            memories: limits.memories as usize,
        }
    }

    /// Charges memory to this slot, in addition to the host's memory for the same call.
    pub(crate) fn charging(&mut self, slot: Arc<Slot>) {
        self.slot = Some(slot);
    }

    /// Charges memory that the host holds for the guest until the instance is dropped. A third of
    /// `host_memory_bytes` is for it, because the guest may pass a large value while it is held. More
    /// may be held only in the part of `memory_bytes` that the call does not use.
    pub(crate) fn hold(&mut self, bytes: u64) -> Result<(), Stop> {
        let Some(slot) = &self.slot else { return Ok(()) };
        let held_bytes = self.held_bytes.saturating_add(bytes);
        match held_bytes <= self.most_held_bytes {
            true => slot.charge(bytes)?,
            false => slot.charge_up_to(bytes, self.memory.limit.saturating_add(self.most_held_bytes))?,
        }
        self.held_bytes = held_bytes;
        Ok(())
    }

    /// Returns the peak memory use in bytes.
    pub(crate) fn peak_memory_bytes(&self) -> u64 {
        self.memory.peak
    }
}

/// The instance's memory is returned with it.
impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            slot.release(self.memory.now + self.held_bytes);
        }
    }
}

impl Sum {
    fn new(limit: u64) -> Self {
        Self { now: 0, peak: 0, last: 0, limit }
    }

    /// Adds the growth. Returns `false` if the sum would exceed the limit.
    fn grow(&mut self, current: usize, desired: usize) -> bool {
        let growth = desired.saturating_sub(current) as u64;
        let next = self.now.saturating_add(growth);
        if next > self.limit {
            return false;
        }
        self.last = growth;
        self.now = next;
        self.peak = self.peak.max(next);
        true
    }

    fn take_back(&mut self) -> u64 {
        let last = std::mem::take(&mut self.last);
        self.now -= last;
        last
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if !self.memory.grow(current, desired) {
            return Err(Stop::Memory.into());
        }
        if let Some(slot) = &self.slot
            && let Err(exhausted) = slot.charge(self.memory.last)
        {
            self.memory.take_back();
            return Err(Stop::from(exhausted).into());
        }
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        // The memory reached its own maximum, which the guest chose, so the guest gets the
        // failure.
        let taken_back = self.memory.take_back();
        if let Some(slot) = &self.slot {
            slot.release(taken_back);
        }
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if self.elements.grow(current, desired) { Ok(true) } else { Err(Stop::TableElements.into()) }
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.elements.take_back();
        Ok(())
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.tables
    }

    fn memories(&self) -> usize {
        self.memories
    }
}

/// Counts the bytes that cross the boundary in a whole call, in each direction. Shared by the
/// streams that a guest holds.
#[derive(Debug, Clone)]
pub(crate) struct Boundary {
    ledger: Arc<Ledger>,
    limit: u64,
}

impl Boundary {
    pub(crate) fn new(limits: &Limits, ledger: Arc<Ledger>) -> Self {
        Self { ledger, limit: limits.boundary_bytes }
    }

    /// Returns the ledger that records it.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Counts bytes on their way to the guest.
    pub(crate) fn enter(&self, bytes: u64) -> Result<(), Stop> {
        self.count(&self.ledger.entered_bytes, bytes)
    }

    /// Counts bytes that came from the guest.
    pub(crate) fn leave(&self, bytes: u64) -> Result<(), Stop> {
        self.count(&self.ledger.left_bytes, bytes)
    }

    fn count(&self, sum: &AtomicU64, bytes: u64) -> Result<(), Stop> {
        let before = sum.fetch_add(bytes, Relaxed);
        if before.saturating_add(bytes) > self.limit { Err(Stop::Boundary) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::admission::Admission;
    use crate::config::SandboxConfig;

    const PAGE: usize = 64 * 1024;

    #[test]
    fn z3_what_the_host_holds_has_a_share_that_nothing_else_takes() {
        const MIB: u64 = 1 << 20;
        let limits = Limits { memory_bytes: 10 * MIB, host_memory_bytes: 6 * MIB, ..Limits::default() };
        let slot = Admission::new(&SandboxConfig::default()).take_at_once(None, limits.memory_bytes).unwrap();
        let slot = Arc::new(slot.under(&limits));
        let running = |guest_bytes: usize| {
            let mut meter = Meter::new(&limits);
            meter.charging(Arc::clone(&slot));
            assert!(meter.memory_growing(0, guest_bytes, None).unwrap());
            meter
        };
        let mut small = running(4 << 20);
        assert_eq!(small.hold(8 * MIB), Ok(()), "the guest does not use its memory");
        assert_eq!(small.hold(1), Err(Stop::HostMemory));
        drop(small);
        let mut full = running(10 << 20);
        let response = slot.charge_while(4 * MIB).unwrap();
        assert_eq!(full.hold(2 * MIB), Ok(()), "a response that is read does not take the share");
        drop(response);
        assert_eq!(full.hold(1), Err(Stop::HostMemory), "there is room for what the guest passes");
        drop(full);
        assert_eq!(slot.charge(16 * MIB), Ok(()), "all of it was given back");
    }

    #[test]
    fn memories_are_counted_together() {
        let limits = Limits { memory_bytes: 4 * PAGE as u64, ..Limits::default() };
        let mut meter = Meter::new(&limits);
        assert!(meter.memory_growing(0, 2 * PAGE, None).unwrap());
        assert!(meter.memory_growing(0, PAGE, None).unwrap());
        let refusal = meter.memory_growing(PAGE, 3 * PAGE, None).unwrap_err();
        assert_eq!(refusal.downcast_ref::<Stop>(), Some(&Stop::Memory));
        assert!(meter.memory_growing(PAGE, 2 * PAGE, None).unwrap());
        assert_eq!(meter.peak_memory_bytes(), 4 * PAGE as u64);
    }

    #[test]
    fn growth_that_failed_is_not_held_against_the_guest() {
        let limits = Limits { memory_bytes: 4 * PAGE as u64, ..Limits::default() };
        let mut meter = Meter::new(&limits);
        assert!(meter.memory_growing(0, 3 * PAGE, None).unwrap());
        meter.memory_grow_failed(wasmtime::Error::msg("its own maximum")).unwrap();
        assert!(meter.memory_growing(0, 4 * PAGE, None).unwrap());
    }

    #[test]
    fn table_elements_are_counted_together() {
        let limits = Limits { table_elements: 10, ..Limits::default() };
        let mut meter = Meter::new(&limits);
        assert!(meter.table_growing(0, 6, None).unwrap());
        let refusal = meter.table_growing(0, 5, None).unwrap_err();
        assert_eq!(refusal.downcast_ref::<Stop>(), Some(&Stop::TableElements));
    }

    #[test]
    fn the_two_directions_are_counted_apart() {
        let boundary = Boundary::new(&Limits { boundary_bytes: 10, ..Limits::default() }, Arc::default());
        assert_eq!(boundary.enter(10), Ok(()));
        assert_eq!(boundary.clone().leave(9), Ok(()));
        assert_eq!(boundary.leave(2), Err(Stop::Boundary));
        assert_eq!(boundary.enter(1), Err(Stop::Boundary));
    }
}
