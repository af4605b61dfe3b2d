//! The memory of one call: the guest's and the host's for it, charged together.

use crate::budget::{MemoryExhausted, Reservation};
use crate::limits::Limits;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// An answer of at most this many bytes is not counted once its call has ended. Nearly all
/// answers are that small, and few are in flight at one time.
const UNCOUNTED_BYTES: u64 = 64 << 10;

/// The memory of one call: the guest's and the host's for it, together.
///
/// It begins with `memory_bytes` reserved and grows from the budget by at most
/// `host_memory_bytes`. A call whose `memory_bytes` exceed the budget has everything that loaded
/// code leaves of it, and no more.
pub(crate) struct Share {
    /// Bytes that the guest and the host use.
    used: AtomicU64,
    /// Bytes that may be used before more is reserved.
    granted: AtomicU64,
    most_bytes: u64,
    reserved: Mutex<Reservation>,
}

impl Share {
    pub(crate) fn new(memory_bytes: u64, reserved: Reservation) -> Self {
        Self {
            used: AtomicU64::new(0),
            granted: AtomicU64::new(reserved.bytes()),
            most_bytes: memory_bytes.saturating_add(Limits::default().host_memory_bytes),
            reserved: Mutex::new(reserved),
        }
    }

    pub(crate) fn bound(&mut self, most_bytes: u64) {
        self.most_bytes = most_bytes;
    }

    pub(crate) fn take(&self, bytes: u64) -> Result<(), MemoryExhausted> {
        let used = self.used.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if used <= self.granted.load(Relaxed) {
            return Ok(());
        }
        let grown = self.grow_to(used);
        if grown.is_err() {
            self.give_back(bytes);
        }
        grown
    }

    /// Takes memory like [`take`](Self::take) if no more than `most_bytes` are then used.
    pub(crate) fn take_up_to(&self, bytes: u64, most_bytes: u64) -> Result<(), MemoryExhausted> {
        if self.used.load(Relaxed).saturating_add(bytes) > most_bytes {
            return Err(MemoryExhausted::Call);
        }
        self.take(bytes)
    }

    fn grow_to(&self, used: u64) -> Result<(), MemoryExhausted> {
        if used > self.most_bytes {
            return Err(MemoryExhausted::Call);
        }
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let granted = self.granted.load(Relaxed);
        let missing = used.saturating_sub(granted);
        if missing > 0 && !reserved.try_grow(missing) {
            return Err(MemoryExhausted::Budget);
        }
        self.granted.store(granted.saturating_add(missing), Relaxed);
        Ok(())
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner).bytes()
    }

    pub(crate) fn hand_over(&self, bytes: u64) -> Option<Reservation> {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        self.granted.store(0, Relaxed);
        if bytes > UNCOUNTED_BYTES { reserved.split_off(bytes) } else { None }
    }
}
