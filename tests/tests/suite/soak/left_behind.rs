//! Checks that calls leave nothing behind.

use crate::hostile::resident_bytes;
use crate::rig::Rig;
use std::time::{Duration, Instant};
use tollgate_sandbox::Occupancy;

/// The growth of resident memory that is tolerated, regardless of the number of calls. Memory
/// that the pool keeps for later calls has a bound of its own and is not included. Unlike in a
/// host, attacks on loading compile in this process, which leaves much in the allocator's arena.
/// A leak of two KiB per call is detected by the whole soak.
const TOLERATED_BYTES: u64 = 64 << 20;
/// The longest time to wait for the last tasks to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The resources of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Resident memory without the pool's.
    resident_bytes: u64,
    /// Memory that unused slots of the pool keep for later calls.
    warm_bytes: u64,
    descriptors: usize,
    /// Running and waiting calls, and the memory reserved for them.
    occupancy: Occupancy,
    /// Slots of the pool: component instances, core instances, memories, tables, stacks.
    slots: [u64; 5],
}

impl Footprint {
    pub(crate) fn by(rig: &Rig) -> Self {
        give_back_what_is_free();
        let pool = rig.sandbox().engine().pooling_allocator_metrics().unwrap();
        let counted = |count: usize| u64::try_from(count).unwrap();
        let warm = [
            pool.unused_memory_bytes_resident(),
            pool.unused_table_bytes_resident(),
            pool.unused_stack_bytes_resident().unwrap_or_default(),
        ];
        let warm_bytes = counted(warm.into_iter().sum());
        Self {
            resident_bytes: resident_bytes().saturating_sub(warm_bytes),
            warm_bytes,
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            occupancy: rig.sandbox().occupancy(),
            slots: [
                pool.component_instances(),
                pool.core_instances(),
                counted(pool.memories()),
                counted(pool.tables()),
                counted(pool.stacks()),
            ],
        }
    }

    /// Returns this, with the memory of a later time if that is larger.
    pub(super) fn settling_at(self, later: &Self) -> Self {
        Self { resident_bytes: self.resident_bytes.max(later.resident_bytes), ..self }
    }

    /// Waits until all resources have been released.
    pub(crate) fn once_at_rest(rig: &Rig, before: &Self) -> Self {
        let began = Instant::now();
        loop {
            let after = Self::by(rig);
            if after.adds_nothing_to(before) {
                return after;
            }
            assert!(began.elapsed() < PATIENCE, "before: {before:?}\nafter:  {after:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns whether all slots and turns are released, the number of descriptors is unchanged,
    /// and memory is within the tolerance.
    fn adds_nothing_to(&self, before: &Self) -> bool {
        self.slots == [0; 5]
            && self.occupancy == Occupancy::default()
            && self.descriptors <= before.descriptors
            && self.resident_bytes.saturating_sub(before.resident_bytes) <= TOLERATED_BYTES
    }

    pub(crate) fn print(&self, when: &str) {
        println!(
            "{when:>7}: {:>5} MiB resident and {} MiB warm, {} descriptors, slots {:?}, {:?}",
            self.resident_bytes >> 20,
            self.warm_bytes >> 20,
            self.descriptors,
            self.slots,
            self.occupancy
        );
    }
}

/// Returns free pages to the system. Otherwise the allocator keeps unused pages, and their number
/// depends on which attacks coincided.
fn give_back_what_is_free() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the standard library cannot ask the allocator for this")]
    // SAFETY: it may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
