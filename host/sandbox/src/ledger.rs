//! A record of a call's effects and refusals, read after the call.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use tollgate_agent::text::clean;

/// The maximum number of refusals of one call that are kept for the operator.
const MAX_DENIALS: usize = 16;
/// The maximum length of one refusal, in bytes.
const MAX_DENIAL_BYTES: usize = 300;

/// One call's ledger: bytes that crossed the boundary, requests sent, bytes written, and refusals
/// of any power. A refusal begins with the power's name.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Bytes that went into the guest.
    pub(crate) entered_bytes: AtomicU64,
    /// Bytes that came from it.
    pub(crate) left_bytes: AtomicU64,
    /// Bytes written to granted directories.
    written_bytes: AtomicU64,
    sent: AtomicU32,
    denied: Mutex<Vec<String>>,
}

impl Ledger {
    /// Records a refusal, once even if it occurs repeatedly.
    pub(crate) fn deny(&self, what: &str) {
        let what = clean(what, MAX_DENIAL_BYTES);
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        if denied.len() < MAX_DENIALS && !denied.contains(&what) {
            denied.push(what);
        }
    }

    /// Counts a request to be sent. Returns `false` without counting it if the limit is reached.
    pub(crate) fn send(&self, limit: u32) -> bool {
        self.sent.fetch_update(Relaxed, Relaxed, |sent| (sent < limit).then_some(sent + 1)).is_ok()
    }

    /// Counts bytes to be written. Returns `false` without counting them if they exceed the
    /// limit.
    pub(crate) fn write(&self, bytes: u64, limit: u64) -> bool {
        let within = |written: u64| written.checked_add(bytes).filter(|all| *all <= limit);
        self.written_bytes.fetch_update(Relaxed, Relaxed, within).is_ok()
    }

    /// Subtracts bytes that were not written after all.
    pub(crate) fn unwrite(&self, bytes: u64) {
        self.written_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Returns how many requests were sent.
    pub(crate) fn sent(&self) -> u32 {
        self.sent.load(Relaxed)
    }

    /// Returns the refusals.
    pub(crate) fn denied(&self) -> Vec<String> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_kept_up_to_a_bound_and_once() {
        let ledger = Ledger::default();
        for number in 0..100 {
            ledger.deny(&format!("http GET https://{}.test/", number % 3));
        }
        assert_eq!(ledger.denied().len(), 3);
        for number in 0..100 {
            ledger.deny(&format!("http GET https://{number}.test/{}", "x".repeat(1_000)));
        }
        assert_eq!(ledger.denied().len(), MAX_DENIALS);
        assert!(ledger.denied().iter().all(|what| what.len() <= MAX_DENIAL_BYTES));
    }

    #[test]
    fn requests_are_counted_up_to_their_limit() {
        let ledger = Ledger::default();
        assert_eq!([ledger.send(2), ledger.send(2), ledger.send(2)], [true, true, false]);
        assert_eq!(ledger.sent(), 2);
    }
}
