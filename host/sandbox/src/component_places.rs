//! Limits how many of the host's call slots one component may hold. The rest is left to other
//! components, so their calls can start even if one component has more calls than the host runs.

use crate::call_limit::CallLimit;
use std::sync::Arc;

/// The number of parts in a slot, for calls that take more memory than others.
const PARTS_PER_PLACE: u32 = 64;

/// The call slots that one component may hold.
///
/// A call that takes more than an equal part of the memory budget counts as more than one call,
/// so that a component cannot hold all memory with fewer calls.
pub(crate) struct ComponentPlaces {
    pub(crate) parts: Arc<CallLimit>,
}

impl ComponentPlaces {
    /// Creates the slots of a component, which may also hold three quarters of the host's queue
    /// places.
    pub(crate) fn new(places: u32, host_waiting: u32) -> Self {
        let parts = places.max(1).saturating_mul(PARTS_PER_PLACE);
        Self { parts: Arc::new(CallLimit::new(parts, most_of(host_waiting))) }
    }

    /// Returns how many parts a call of this size takes, given the memory budget and the number
    /// of calls that share it.
    pub(crate) fn parts_of(&self, memory_bytes: u64, budget_bytes: u64, calls: u32) -> u32 {
        let all = u128::from(calls) * u128::from(PARTS_PER_PLACE);
        let parts = (u128::from(memory_bytes) * all).div_ceil(u128::from(budget_bytes.max(1)));
        u32::try_from(parts).unwrap_or(u32::MAX).max(PARTS_PER_PLACE).min(self.parts.permits())
    }
}

/// Returns three quarters, rounded up.
pub(crate) fn most_of(all: u32) -> u32 {
    all - all / 4
}
