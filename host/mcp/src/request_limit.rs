//! Limits on the number and total size of clients' requests in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of requests in flight; further ones are refused.
pub const MAX_REQUESTS: usize = 2_048;
/// The maximum total size of those requests, in bytes.
pub const MAX_REQUEST_BYTES: usize = 32 * 1024 * 1024;

/// The limits of all clients or of one, and their requests in flight.
#[derive(Debug)]
pub struct RequestLimiter {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    max_requests: usize,
    max_bytes: usize,
}

impl Default for RequestLimiter {
    fn default() -> Self {
        Self::with_limits(MAX_REQUESTS, MAX_REQUEST_BYTES)
    }
}

/// A request's share of the limit, released when the request is done.
#[derive(Debug, Clone)]
pub struct RequestPermit {
    claim: Arc<RequestClaim>,
    /// The claim of the limit of all clients, if the other one is of one client's limit.
    of_all: Option<Arc<RequestClaim>>,
}

/// One request and its bytes, which a limiter counts until this is dropped.
#[derive(Debug)]
struct RequestClaim {
    limiter: Arc<RequestLimiter>,
    bytes: AtomicUsize,
}

impl RequestPermit {
    /// Reduces the share to the given size and releases the rest.
    pub fn shrink(&self, bytes: usize) {
        for claim in [Some(&self.claim), self.of_all.as_ref()].into_iter().flatten() {
            let before = claim.bytes.fetch_min(bytes, Ordering::Relaxed);
            claim.limiter.bytes.fetch_sub(before.saturating_sub(bytes), Ordering::Relaxed);
        }
    }
}

impl RequestLimiter {
    /// Creates the limiter of one of several clients. It allows half of the total, so that there is room for
    /// others.
    #[must_use]
    pub fn of_one() -> Self {
        Self::with_limits(MAX_REQUESTS / 2, MAX_REQUEST_BYTES / 2)
    }

    fn with_limits(max_requests: usize, max_bytes: usize) -> Self {
        Self { requests: AtomicUsize::new(0), bytes: AtomicUsize::new(0), max_requests, max_bytes }
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Claims a share for a request of this size; `None` if there is no room.
    #[must_use]
    pub fn claim(limiter: &Arc<Self>, bytes: usize) -> Option<RequestPermit> {
        let requests = limiter.requests.fetch_add(1, Ordering::Relaxed);
        let held = limiter.bytes.fetch_add(bytes, Ordering::Relaxed);
        // If it exceeds a limit, it is dropped below, which releases it.
        let claim = RequestClaim { limiter: Arc::clone(limiter), bytes: AtomicUsize::new(bytes) };
        let fits = requests < limiter.max_requests && held + bytes <= limiter.max_bytes;
        fits.then(|| RequestPermit { claim: Arc::new(claim), of_all: None })
    }

    /// Claims a share of one client's limit and of the total.
    #[must_use]
    pub fn claim_both(one: &Arc<Self>, all: &Arc<Self>, bytes: usize) -> Option<RequestPermit> {
        let (one, all) = (Self::claim(one, bytes)?, Self::claim(all, bytes)?);
        Some(RequestPermit { claim: one.claim, of_all: Some(all.claim) })
    }
}

impl Drop for RequestClaim {
    fn drop(&mut self) {
        self.limiter.requests.fetch_sub(1, Ordering::Relaxed);
        self.limiter.bytes.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
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
