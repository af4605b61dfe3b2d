//! The limits of one principal among all: requests, bytes, running calls and runs, and streams.
//! One principal gets at most half of what all get, so that there is room for others. The memory
//! of parsed bodies is reserved from the budget of the host.

use crate::problem::Problem;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures::Stream;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tollgate::tools::{MemoryBudget, Reservation};
use tollgate_agent::json::{self, NodesLeft};
use tollgate_mcp::{RequestLimiter, RequestPermit};

/// The maximum number of agent runs that one principal has in progress.
const MAX_RUNS: usize = 128;
/// A body up to this size is parsed without estimating its memory, in bytes.
const SMALL_BYTES: usize = 4 * 1024;
/// The number of principals from which unused entries are removed.
const MANY: usize = 256;

/// The limits of all principals.
#[derive(Debug)]
pub(crate) struct Load {
    all: Arc<RequestLimiter>,
    clients: Mutex<HashMap<String, Weak<ClientLimits>>>,
    calls: usize,
    streams: usize,
    budget: MemoryBudget,
}

/// The limits of one principal.
#[derive(Debug)]
struct ClientLimits {
    requests: Arc<RequestLimiter>,
    calls: Arc<Semaphore>,
    runs: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

/// The part of a principal's limits that one request takes.
#[derive(Debug, Clone)]
pub(crate) struct ClientShare {
    limits: Arc<ClientLimits>,
    all: Arc<RequestLimiter>,
    budget: MemoryBudget,
    ended: CancellationToken,
    _request: RequestPermit,
}

impl Load {
    /// Creates the limits: `calls` direct calls and `streams` event streams of one principal at a
    /// time, and parsed bodies within this budget.
    #[must_use]
    pub(crate) fn new(calls: usize, streams: usize, budget: MemoryBudget) -> Self {
        Self { all: Arc::default(), clients: Mutex::default(), calls: calls.max(1), streams, budget }
    }

    /// Admits a request of a principal.
    pub(crate) fn admit(&self, name: &str) -> Result<ClientShare, Problem> {
        let limits = {
            let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            if clients.len() > MANY {
                clients.retain(|_, limits| limits.strong_count() > 0);
            }
            let known = clients.get(name).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let limits = Arc::new(ClientLimits {
                    requests: Arc::new(RequestLimiter::of_one()),
                    calls: Arc::new(Semaphore::new(self.calls)),
                    runs: Arc::new(Semaphore::new(MAX_RUNS)),
                    streams: Arc::new(Semaphore::new(self.streams)),
                });
                clients.insert(name.to_owned(), Arc::downgrade(&limits));
                limits
            })
        };
        let request = RequestLimiter::claim_both(&limits.requests, &self.all, 0);
        let request = request.ok_or_else(|| Problem::too_many("requests of this principal are in flight"))?;
        let (all, budget) = (Arc::clone(&self.all), self.budget.clone());
        Ok(ClientShare { limits, all, budget, ended: CancellationToken::new(), _request: request })
    }
}

impl ClientShare {
    /// Claims memory for a body of this size.
    pub(crate) fn claim_bytes(&self, bytes: usize) -> Result<RequestPermit, Problem> {
        RequestLimiter::claim_both(&self.limits.requests, &self.all, bytes)
            .ok_or_else(|| Problem::too_many("bytes of requests are in flight"))
    }

    /// Reserves the memory of a body once it is parsed; `None` if it is small. Hold it until the
    /// request has been handled.
    pub(crate) fn weigh(&self, body: &[u8]) -> Result<Option<Reservation>, Problem> {
        if body.len() <= SMALL_BYTES {
            return Ok(None);
        }
        let measure = json::measure(body);
        NodesLeft::all().take(&measure).map_err(|why| {
            let detail = format!("the body has too many values: {why}; send less");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
        })?;
        self.budget.try_reserve(measure.parsed_bytes).map(Some).ok_or_else(|| {
            let detail = "the host has no memory to read the body now; retry after other work has completed";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail)
        })
    }

    /// Returns the token that is cancelled once the credential of the request is no longer valid,
    /// while the answer is a stream.
    pub(crate) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Takes one of the principal's places for direct calls.
    pub(crate) fn call(&self) -> Result<OwnedSemaphorePermit, Problem> {
        take(&self.limits.calls, "calls of this principal are running")
    }

    /// Returns the principal's places for direct calls, for protocols whose calls wait for one.
    pub(crate) fn calls(&self) -> Arc<Semaphore> {
        Arc::clone(&self.limits.calls)
    }

    /// Returns the principal's places for agent runs.
    pub(crate) fn runs(&self) -> Arc<Semaphore> {
        Arc::clone(&self.limits.runs)
    }

    /// Returns the principal's places for event streams.
    pub(crate) fn streams(&self) -> Arc<Semaphore> {
        Arc::clone(&self.limits.streams)
    }

    /// Takes one of the principal's places for agent runs.
    pub(crate) fn run(&self) -> Result<OwnedSemaphorePermit, Problem> {
        take(&self.limits.runs, "runs of this principal are in progress")
    }

    /// Takes one of the principal's places for event streams.
    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, Problem> {
        take(&self.limits.streams, "event streams of this principal are open")
    }
}

fn take(places: &Arc<Semaphore>, what: &str) -> Result<OwnedSemaphorePermit, Problem> {
    Arc::clone(places).try_acquire_owned().map_err(|_| Problem::too_many(what))
}

/// Holds something until the body of a response has been sent or its client has left.
pub(crate) fn held_by<T: Send + Unpin + 'static>(response: Response, held: T) -> Response {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    let (parts, body) = response.into_parts();
    // A body of known length is complete.
    if http_body_is_complete(&body) {
        return Response::from_parts(parts, body);
    }
    Response::from_parts(parts, Body::from_stream(HoldingBody { body: body.into_data_stream(), _held: held }))
}

fn http_body_is_complete(body: &Body) -> bool {
    use axum::body::HttpBody as _;
    body.size_hint().exact().is_some()
}

/// A streamed body that holds something while it is sent.
struct HoldingBody<T> {
    body: axum::body::BodyDataStream,
    _held: T,
}

impl<T: Unpin> Stream for HoldingBody<T> {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn z3_a_body_is_parsed_within_the_memory_of_the_host_and_a_number_of_values() {
        let budget = MemoryBudget::new(16 << 20);
        let load = Load::new(1, 1, budget.clone());
        let share = load.admit("ada").unwrap();
        let body = |values: usize| format!("{{\"input\": [{}0]}}", "0,".repeat(values)).into_bytes();
        let code = |body: &[u8]| share.weigh(body).unwrap_err().code;
        assert_eq!(code(&body(500_000)), "too_large");
        assert_eq!(code(&body(200_000)), "overloaded");
        assert_eq!(budget.reserved_bytes(), 0);
        let held = share.weigh(&body(50_000)).unwrap();
        assert!(budget.reserved_bytes() > 2 << 20, "{} bytes", budget.reserved_bytes());
        drop(held);
        assert_eq!((budget.reserved_bytes(), share.weigh(&body(100)).unwrap().is_none()), (0, true));
    }
}
