//! The part of the host's memory that one client may hold.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate_sandbox::{MemoryBudget, Reservation};

/// The unit in which a share is counted, in bytes.
const UNIT_BYTES: u64 = 4 * 1024;
/// How long a reservation waits for others of the same client: one that has read an answer may send the
/// next request before the server has noticed.
const SHARE_WAIT: Duration = Duration::from_millis(500);

/// The memory that one client may hold at a time for one purpose: a quarter of the budget. Clones are the
/// same share.
#[derive(Debug, Clone)]
pub struct MemoryShare {
    units: Arc<Semaphore>,
    budget: MemoryBudget,
}

/// A reservation of a [`MemoryShare`] and of its budget, returned on drop.
#[derive(Debug)]
pub struct SharedMemory {
    _reserved: Reservation,
    _of_share: OwnedSemaphorePermit,
}

/// The reason why a client gets no memory. Nothing was reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSharedMemory {
    /// The client holds too much.
    Share,
    /// The whole budget is in use.
    Budget,
}

impl MemoryShare {
    /// Creates the share of a client that holds nothing.
    #[must_use]
    pub fn of_one(budget: MemoryBudget) -> Self {
        let units = Arc::new(Semaphore::new(quarter(&budget)));
        Self { units, budget }
    }

    /// Reserves this many bytes. Waits for half a second if the client holds too much. A client that holds
    /// nothing else may get more than its share.
    ///
    /// # Errors
    /// The client or all together hold too much.
    pub async fn reserve(&self, bytes: u64) -> Result<SharedMemory, NoSharedMemory> {
        let units = as_permits(units(bytes).min(quarter(&self.budget)));
        let of_share = Arc::clone(&self.units).acquire_many_owned(units);
        match tokio::time::timeout(SHARE_WAIT, of_share).await {
            Ok(Ok(of_share)) => self.reserved(bytes, of_share),
            _ => Err(NoSharedMemory::Share),
        }
    }

    /// Reserves this many bytes if they are free now and within the share.
    ///
    /// # Errors
    /// The client or all together hold too much.
    pub fn try_reserve(&self, bytes: u64) -> Result<SharedMemory, NoSharedMemory> {
        let of_share = Arc::clone(&self.units).try_acquire_many_owned(as_permits(units(bytes)));
        self.reserved(bytes, of_share.map_err(|_| NoSharedMemory::Share)?)
    }

    fn reserved(&self, bytes: u64, of_share: OwnedSemaphorePermit) -> Result<SharedMemory, NoSharedMemory> {
        let reserved = self.budget.try_reserve(bytes).ok_or(NoSharedMemory::Budget)?;
        Ok(SharedMemory { _reserved: reserved, _of_share: of_share })
    }

    /// Returns whether a part is reserved, or another clone exists.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        // A permit keeps its semaphore.
        Arc::strong_count(&self.units) > 1
    }
}

/// Returns a quarter of the budget in units.
fn quarter(budget: &MemoryBudget) -> usize {
    units(budget.total_bytes() / 4)
}

/// Returns this many bytes in units, at least one.
fn units(bytes: u64) -> usize {
    let units = usize::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(usize::MAX);
    units.clamp(1, Semaphore::MAX_PERMITS)
}

fn as_permits(units: usize) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}
