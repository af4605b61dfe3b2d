//! The memory of an answer while it arrives.

use super::error::RemoteError;
use tollgate_sandbox::{MemoryBudget, Reservation};

/// The size in bytes up to which an answer arrives without a reservation.
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
        match budget.try_grow_to(&mut self.reserved, 2 * bytes as u64) {
            true => Ok(()),
            false => Err(RemoteError::no_memory("its answer")),
        }
    }
}
