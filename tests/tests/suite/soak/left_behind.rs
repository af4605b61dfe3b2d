//! What calls leave behind: nothing.

use crate::hostile::resident_bytes;
use crate::rig::Rig;
use std::time::{Duration, Instant};
use tollgate_sandbox::Occupancy;

/// How much more memory may stay resident, however many calls there were, beside what
/// the pool keeps for the next ones, which has a bound of its own. Attacks by loading
/// compile in this process, unlike a host's, which leaves much in the allocator's arena.
/// A leak of two KiB a call shows in the whole soak.
const TOLERATED_BYTES: u64 = 64 << 20;
/// The longest that the last tasks take to be gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// Beside what the pool keeps.
    resident_bytes: u64,
    /// What unused slots of the pool keep for the next calls.
    warm_bytes: u64,
    descriptors: usize,
    /// Calls that run or wait, and memory set aside for them.
    occupancy: Occupancy,
    /// Of the pool: component instances, core instances, memories, tables, stacks.
    slots: [u64; 5],
}

impl Held {
    pub(super) fn by(rig: &Rig) -> Self {
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

    /// This, with the memory of a later time where that was more.
    pub(super) fn settling_at(self, later: &Self) -> Self {
        Self { resident_bytes: self.resident_bytes.max(later.resident_bytes), ..self }
    }

    /// Waits until everything is back where it was before.
    pub(super) fn once_at_rest(rig: &Rig, before: &Self) -> Self {
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

    /// Slots and turns are all given back; descriptors are as many as before; memory is
    /// within what is tolerated.
    fn adds_nothing_to(&self, before: &Self) -> bool {
        self.slots == [0; 5]
            && self.occupancy == Occupancy::default()
            && self.descriptors <= before.descriptors
            && self.resident_bytes.saturating_sub(before.resident_bytes) <= TOLERATED_BYTES
    }

    pub(super) fn print(&self, when: &str) {
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

/// Otherwise the allocator keeps pages of which nothing is in use any more, and how many
/// depends on which attacks met.
fn give_back_what_is_free() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the standard library cannot ask the allocator for this")]
    // SAFETY: it may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
