//! The part of the host's places that the calls of one component may hold. The rest is
//! left to other components, so that their calls start while one component has more
//! calls than the host runs.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use tokio::sync::Semaphore;

/// The parts into which a place is divided, for calls that take more memory than others.
const PARTS_PER_PLACE: u32 = 64;

/// The places that the calls of one component may hold.
///
/// A call that takes more memory than its equal part of the budget counts as more than one
/// call, so that a component cannot hold all memory with fewer calls.
pub(crate) struct ComponentPlaces {
    pub(crate) free_parts: Arc<Semaphore>,
    all_parts: u32,
    pub(crate) waiting: AtomicU32,
    pub(crate) max_waiting: u32,
}

impl ComponentPlaces {
    /// This many places; of the calls that may wait in the host, three quarters may be the
    /// component's.
    pub(crate) fn new(places: u32, host_waiting: u32) -> Self {
        let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
        let all_parts = places.max(1).saturating_mul(PARTS_PER_PLACE).min(most);
        Self {
            free_parts: Arc::new(Semaphore::new(all_parts as usize)),
            all_parts,
            waiting: AtomicU32::new(0),
            max_waiting: most_of(host_waiting),
        }
    }

    /// The parts that a call of this much memory takes, where this much memory is there for
    /// this many calls.
    pub(crate) fn parts_of(&self, memory_bytes: u64, budget_bytes: u64, calls: u32) -> u32 {
        let all = u128::from(calls) * u128::from(PARTS_PER_PLACE);
        let parts = (u128::from(memory_bytes) * all).div_ceil(u128::from(budget_bytes.max(1)));
        u32::try_from(parts).unwrap_or(u32::MAX).max(PARTS_PER_PLACE).min(self.all_parts)
    }
}

/// Three quarters, rounded up.
pub(crate) fn most_of(all: u32) -> u32 {
    all - all / 4
}
