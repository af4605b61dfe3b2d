//! Limits on the number and total size of clients' requests in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of requests in flight; further ones are refused.
pub const MAX_REQUESTS: usize = 2_048;
/// The maximum total size of those requests, in bytes.
pub const MAX_REQUEST_BYTES: usize = 32 * 1024 * 1024;

/// The requests in flight, of all clients or of one.
#[derive(Debug)]
pub struct RequestLimiter {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    most_requests: usize,
    most_bytes: usize,
}

impl Default for RequestLimiter {
    fn default() -> Self {
        Self::up_to(MAX_REQUESTS, MAX_REQUEST_BYTES)
    }
}

/// A request's share of the limit, released when the request is done.
#[derive(Debug, Clone)]
pub struct RequestPermit(Arc<RequestClaim>, Option<Arc<RequestClaim>>);

#[derive(Debug)]
struct RequestClaim {
    load: Arc<RequestLimiter>,
    bytes: AtomicUsize,
}

impl RequestPermit {
    /// Reduces the share to the given size and releases the rest.
    pub fn shrink(&self, bytes: usize) {
        for claim in [Some(&self.0), self.1.as_ref()].into_iter().flatten() {
            let before = claim.bytes.fetch_min(bytes, Ordering::Relaxed);
            claim.load.bytes.fetch_sub(before.saturating_sub(bytes), Ordering::Relaxed);
        }
    }
}

impl RequestLimiter {
    /// Returns the limit of one of several clients: half of the total, so that there is room for
    /// others.
    #[must_use]
    pub fn of_one() -> Self {
        Self::up_to(MAX_REQUESTS / 2, MAX_REQUEST_BYTES / 2)
    }

    fn up_to(most_requests: usize, most_bytes: usize) -> Self {
        Self { requests: AtomicUsize::new(0), bytes: AtomicUsize::new(0), most_requests, most_bytes }
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Claims a share for a request of this size; `None` if there is no room.
    #[must_use]
    pub fn claim(load: &Arc<Self>, bytes: usize) -> Option<RequestPermit> {
        let requests = load.requests.fetch_add(1, Ordering::Relaxed);
        let held = load.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Released at once if it exceeds the limit.
        let slot = RequestPermit(
            Arc::new(RequestClaim { load: Arc::clone(load), bytes: AtomicUsize::new(bytes) }),
            None,
        );
        (requests < load.most_requests && held + bytes <= load.most_bytes).then_some(slot)
    }

    /// Claims a share of one client's limit and of the total.
    #[must_use]
    pub fn claim_both(one: &Arc<Self>, all: &Arc<Self>, bytes: usize) -> Option<RequestPermit> {
        let (one, all) = (Self::claim(one, bytes)?, Self::claim(all, bytes)?);
        Some(RequestPermit(one.0, Some(all.0)))
    }
}

impl Drop for RequestClaim {
    fn drop(&mut self) {
        self.load.requests.fetch_sub(1, Ordering::Relaxed);
        self.load.bytes.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_are_bounded_by_number_and_by_bytes_and_given_back() {
        let load = Arc::<RequestLimiter>::default();
        let slots: Vec<_> = (0..MAX_REQUESTS).map(|_| RequestLimiter::claim(&load, 1).unwrap()).collect();
        assert!(RequestLimiter::claim(&load, 1).is_none());
        drop(slots);
        assert_eq!(load.requests(), 0);
        let large = RequestLimiter::claim(&load, MAX_REQUEST_BYTES - 1).unwrap();
        assert!(RequestLimiter::claim(&load, 2).is_none());
        assert!(RequestLimiter::claim(&load, 1).is_some());
        drop(large);
        assert!(RequestLimiter::claim(&load, MAX_REQUEST_BYTES).is_some());
    }

    #[test]
    fn what_a_request_turns_out_not_to_need_is_given_back() {
        let (all, one) = (Arc::default(), Arc::new(RequestLimiter::of_one()));
        let slot = RequestLimiter::claim_both(&one, &all, MAX_REQUEST_BYTES / 2).unwrap();
        assert!(RequestLimiter::claim_both(&one, &all, 1).is_none());
        slot.shrink(10);
        slot.shrink(20);
        let more = RequestLimiter::claim_both(&one, &all, MAX_REQUEST_BYTES / 2 - 10).unwrap();
        assert!(RequestLimiter::claim_both(&one, &all, 1).is_none());
        drop((slot, more));
        assert!(RequestLimiter::claim_both(&one, &all, MAX_REQUEST_BYTES / 2).is_some());
    }

    #[test]
    fn one_client_has_half_of_all() {
        let (all, one, other) =
            (Arc::default(), Arc::new(RequestLimiter::of_one()), Arc::new(RequestLimiter::of_one()));
        let claimed = |of: &Arc<RequestLimiter>| RequestLimiter::claim_both(of, &all, 1);
        let slots: Vec<_> = (0..MAX_REQUESTS / 2).map(|_| claimed(&one).unwrap()).collect();
        assert!(claimed(&one).is_none());
        let others: Vec<_> = (0..MAX_REQUESTS / 2).map(|_| claimed(&other).unwrap()).collect();
        drop(slots);
        assert_eq!((one.requests(), all.requests()), (0, others.len()));
    }
}
