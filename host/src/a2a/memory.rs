//! The memory of an answer while it arrives.

use super::error::RemoteError;
use tollgate_sandbox::{MemoryBudget, Reservation};

/// Up to this size, an answer arrives without a reservation, in bytes.
const SMALL_BYTES: usize = 64 * 1024;

/// The part of the host's memory that an answer takes while it arrives, returned on drop.
#[derive(Debug)]
pub(super) struct ArrivalMemory {
    /// `None` if the agent belongs to no host.
    budget: Option<MemoryBudget>,
    reserved: Option<Reservation>,
}

impl ArrivalMemory {
    pub(super) fn new(budget: Option<&MemoryBudget>) -> Self {
        Self { budget: budget.cloned(), reserved: None }
    }

    /// Reserves memory for an answer of which this many bytes have arrived. A buffer that grows may take
    /// twice as much.
    ///
    /// # Errors
    /// The host has no memory for it.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), RemoteError> {
        let Some(budget) = self.budget.as_ref().filter(|_| bytes > SMALL_BYTES) else { return Ok(()) };
        let wanted = 2 * bytes as u64;
        let missing = wanted.saturating_sub(self.reserved.as_ref().map_or(0, Reservation::bytes));
        let has_room = match &mut self.reserved {
            _ if missing == 0 => true,
            Some(reserved) => reserved.try_grow(missing),
            none => {
                *none = budget.try_reserve(missing);
                none.is_some()
            }
        };
        match has_room {
            true => Ok(()),
            false => Err(RemoteError::no_memory("its answer")),
        }
    }
}
