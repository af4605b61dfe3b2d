//! How much clients may have under way at once: so many requests, and so many bytes of
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most requests that are under way at once; those beyond are refused.
pub(super) const MAX_REQUESTS: usize = 2_048;
/// The most bytes that those requests may have together.
const MAX_REQUEST_BYTES: usize = 32 * 1024 * 1024;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Load {
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

/// One request's place; it is given back when the request is done with.
#[derive(Debug, Clone)]
#[expect(dead_code, reason = "held until the request is done with, and never read")]
pub(super) struct Slot(Arc<Claim>);

#[derive(Debug)]
struct Claim {
    load: Arc<Load>,
    bytes: usize,
}

impl Load {
    /// How many requests are under way.
    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// A place for a request of so many bytes; none where there is no room for it.
    pub(super) fn claim(load: &Arc<Self>, bytes: usize) -> Option<Slot> {
        let requests = load.requests.fetch_add(1, Ordering::Relaxed);
        let held = load.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Given back at once where it is not to be had.
        let slot = Slot(Arc::new(Claim { load: Arc::clone(load), bytes }));
        (requests < MAX_REQUESTS && held + bytes <= MAX_REQUEST_BYTES).then_some(slot)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.load.requests.fetch_sub(1, Ordering::Relaxed);
        self.load.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_are_bounded_by_number_and_by_bytes_and_given_back() {
        let load = Arc::<Load>::default();
        let slots: Vec<_> = (0..MAX_REQUESTS).map(|_| Load::claim(&load, 1).unwrap()).collect();
        assert!(Load::claim(&load, 1).is_none());
        drop(slots);
        assert_eq!(load.requests(), 0);
        let large = Load::claim(&load, MAX_REQUEST_BYTES - 1).unwrap();
        assert!(Load::claim(&load, 2).is_none());
        assert!(Load::claim(&load, 1).is_some());
        drop(large);
        assert!(Load::claim(&load, MAX_REQUEST_BYTES).is_some());
    }
}
