//! The limits of one principal among all: connections, requests, bytes, running calls and runs,
//! and streams. One principal gets at most half of what all get, so that there is room for others.
//! Its runs that wait for a person and its sign-ins are limited too.
//! The memory of parsed bodies and of large answers is reserved from the budget of the host.

use crate::problem::Problem;
use crate::sign_in_rate::SignInRate;
use crate::waiting_runs::WaitingEstimate;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use http_body::{Frame, SizeHint};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tollgate::tools::MemoryBudget;
use tollgate_agent::json::{self, NodesLeft};
use tollgate_mcp::{MemoryShare, NoSharedMemory, RequestLimiter, RequestPermit, SharedMemory};

/// The maximum number of agent runs that one principal has in progress, and of runs that continue after a
/// "no".
const MAX_RUNS: usize = 128;
/// A body up to this size is parsed without estimating its memory, in bytes.
const SMALL_BYTES: usize = 4 * 1024;
/// An answer up to this size is sent without reserving its memory, in bytes: the system buffers as
/// much for each connection.
const SMALL_ANSWER_BYTES: u64 = 64 * 1024;
/// The number of requests that hold a whole record or thread in memory at a time; others wait.
const WHOLE_RECORDS: usize = 4;
/// The number of these requests that one principal may have, so that it does not keep others waiting.
const WHOLE_RECORDS_OF_ONE: usize = WHOLE_RECORDS / 2;
/// How long a request waits for a connection place of its principal: a client that has read an answer may
/// send the next request before the server has noticed.
const PLACE_WAIT: Duration = Duration::from_millis(500);
/// The number of principals from which unused entries are removed.
const MANY: usize = 256;

/// The limits of all principals.
#[derive(Debug)]
pub(crate) struct Load {
    all: Arc<RequestLimiter>,
    clients: Mutex<HashMap<String, Arc<ClientLimits>>>,
    calls: usize,
    streams: usize,
    connections: usize,
    budget: MemoryBudget,
    whole_records: Arc<Semaphore>,
}

/// The sizes of the limits of one principal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareSizes {
    /// The direct calls that run at a time.
    pub(crate) calls: usize,
    /// The open event streams.
    pub(crate) streams: usize,
    /// The connections with a request in progress.
    pub(crate) connections: usize,
}

/// The limits of one principal.
#[derive(Debug)]
struct ClientLimits {
    requests: Arc<RequestLimiter>,
    calls: Arc<Semaphore>,
    runs: Arc<Semaphore>,
    /// The runs that continue after a "no", which needs none of the other places.
    declined: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    connections: Arc<Semaphore>,
    /// The memory of bodies.
    bodies: MemoryShare,
    /// The memory of answers that are not written yet.
    answers: MemoryShare,
    whole_records: Arc<Semaphore>,
    /// The runs that wait for a person. If unused limits are removed, they are counted again.
    waiting: WaitingEstimate,
    sign_ins: SignInRate,
}

impl ClientLimits {
    /// Returns whether a request, or something that goes on after its request, has a place, or sign-ins count.
    fn is_in_use(self: &Arc<Self>) -> bool {
        // A place keeps its semaphore.
        let Self {
            requests: _,
            calls,
            runs,
            declined,
            streams,
            connections,
            bodies,
            answers,
            whole_records,
            waiting: _,
            sign_ins,
        } = &**self;
        let places = [calls, runs, declined, streams, connections, whole_records];
        Arc::strong_count(self) > 1
            || sign_ins.is_in_use()
            || places.into_iter().any(|places| Arc::strong_count(places) > 1)
            || [bodies, answers].into_iter().any(MemoryShare::is_in_use)
    }
}

/// A place for a whole record or thread in memory.
#[derive(Debug)]
pub(crate) struct WholeRecordPlace {
    _of_principal: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// The part of a principal's limits that one request takes.
#[derive(Debug, Clone)]
pub(crate) struct ClientShare {
    limits: Arc<ClientLimits>,
    all: Arc<RequestLimiter>,
    ended: CancellationToken,
}

impl Load {
    /// Creates the limits, with parsed bodies and large answers within this budget.
    #[must_use]
    pub(crate) fn new(sizes: ShareSizes, budget: MemoryBudget) -> Self {
        let ShareSizes { calls, streams, connections } = sizes;
        let (calls, connections) = (calls.max(1), connections.max(1));
        let whole_records = Arc::new(Semaphore::new(WHOLE_RECORDS));
        Self {
            all: Arc::default(),
            clients: Mutex::default(),
            calls,
            streams,
            connections,
            budget,
            whole_records,
        }
    }

    /// Waits for a place to read a whole record or thread for a principal. Hold it until the answer is
    /// made, and do not wait for a second one meanwhile.
    pub(crate) async fn whole_record(&self, name: &str) -> Option<WholeRecordPlace> {
        let own = Arc::clone(&self.limits(name).whole_records);
        // The semaphores are never closed.
        let of_principal = own.acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.whole_records).acquire_owned().await.ok()?;
        Some(WholeRecordPlace { _of_principal: of_principal, _of_all: of_all })
    }

    /// Returns the limits of a principal that uses nothing.
    fn of_one(&self) -> Arc<ClientLimits> {
        let share = || MemoryShare::of_one(self.budget.clone());
        Arc::new(ClientLimits {
            requests: Arc::new(RequestLimiter::of_one()),
            calls: Arc::new(Semaphore::new(self.calls)),
            runs: Arc::new(Semaphore::new(MAX_RUNS)),
            declined: Arc::new(Semaphore::new(MAX_RUNS)),
            streams: Arc::new(Semaphore::new(self.streams)),
            connections: Arc::new(Semaphore::new(self.connections)),
            bodies: share(),
            answers: share(),
            whole_records: Arc::new(Semaphore::new(WHOLE_RECORDS_OF_ONE)),
            waiting: WaitingEstimate::default(),
            sign_ins: SignInRate::default(),
        })
    }

    /// Returns the limits of the principal with this name.
    fn limits(&self, name: &str) -> Arc<ClientLimits> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() > MANY {
            clients.retain(|_, limits| limits.is_in_use());
        }
        Arc::clone(clients.entry(name.to_owned()).or_insert_with(|| self.of_one()))
    }

    /// Returns the share of a request of this principal. A connection has one request at a time, so
    /// the places for connections bound the requests too.
    pub(crate) fn share(&self, name: &str) -> ClientShare {
        let limits = self.limits(name);
        ClientShare { limits, all: Arc::clone(&self.all), ended: CancellationToken::new() }
    }
}

impl ClientShare {
    /// Claims memory for a body of this size.
    pub(crate) fn claim_bytes(&self, bytes: usize) -> Result<RequestPermit, Problem> {
        RequestLimiter::claim_both(&self.limits.requests, &self.all, bytes)
            .ok_or_else(|| Problem::too_many("bytes of requests are in flight"))
    }

    /// Reserves the memory of a body once it is parsed; `None` if it is small. Hold it until the
    /// request has been handled. The bodies of one principal take at most a quarter of the budget,
    /// except a single body that takes more; others wait for a moment.
    pub(crate) async fn weigh(&self, body: &[u8]) -> Result<Option<SharedMemory>, Problem> {
        if body.len() <= SMALL_BYTES {
            return Ok(None);
        }
        let measure = json::measure(body);
        NodesLeft::all().take(&measure).map_err(|why| {
            let detail = format!("the body has too many values: {why}; send less");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
        })?;
        self.limits.bodies.reserve(measure.parsed_bytes).await.map(Some).map_err(|none| match none {
            NoSharedMemory::Share => Problem::too_many("bodies of this principal are in memory"),
            NoSharedMemory::Budget => Problem::overloaded(
                "the host has no memory to read the body now; retry after other work has completed",
            ),
        })
    }

    /// Returns the memory for bodies of the principal, for a protocol that weighs its messages itself.
    pub(crate) fn bodies(&self) -> MemoryShare {
        self.limits.bodies.clone()
    }

    /// Takes one of the principal's connection places, for as long as a request is in progress on
    /// it. May wait for a moment.
    pub(crate) async fn connection(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.limits.connections).acquire_owned();
        match tokio::time::timeout(PLACE_WAIT, place).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Problem::too_many("connections of this principal have requests in progress")),
        }
    }

    /// Reserves the memory of a complete answer until it is written; `None` if it is small or a
    /// stream, which is made as fast as its client reads.
    ///
    /// # Errors
    /// The answer to send instead: the host has no room for it, or the principal has too many
    /// unread answers.
    pub(crate) fn weigh_answer(&self, response: &Response) -> Result<Option<SharedMemory>, Problem> {
        let Some(bytes) = response.body().size_hint().exact().filter(|bytes| *bytes > SMALL_ANSWER_BYTES)
        else {
            return Ok(None);
        };
        self.limits.answers.try_reserve(bytes).map(Some).map_err(|none| match none {
            NoSharedMemory::Share => Problem::too_many(
                "answers of this principal are not read yet; a request that was not a GET was carried out",
            ),
            NoSharedMemory::Budget => Problem::overloaded(
                "the host has no memory to keep the answer until it is read; retry after other work has \
                 completed. A request that was not a GET was carried out: read its run",
            ),
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

    /// Returns the principal's places for runs that continue after a "no".
    pub(crate) fn declined(&self) -> Arc<Semaphore> {
        Arc::clone(&self.limits.declined)
    }

    /// Returns the principal's places for event streams.
    pub(crate) fn streams(&self) -> Arc<Semaphore> {
        Arc::clone(&self.limits.streams)
    }

    /// Returns the estimate of the principal's runs that wait for a person.
    pub(crate) fn waiting(&self) -> &WaitingEstimate {
        &self.limits.waiting
    }

    /// Counts a sign-in of the principal.
    ///
    /// # Errors
    /// It has signed in too often: 429.
    pub(crate) fn sign_in(&self) -> Result<(), Problem> {
        if self.limits.sign_ins.take() {
            return Ok(());
        }
        let detail = "this principal has signed in too often; retry in a second";
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail))
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

/// Returns a response whose memory is reserved until it is written, or a problem in its place, and
/// holds the share and something else for as long.
pub(crate) fn answered<T: Send + Sync + 'static>(
    share: ClientShare,
    response: Response,
    held: T,
) -> Response {
    match share.weigh_answer(&response) {
        Ok(memory) => held_by(response, (memory, share, held)),
        Err(problem) => problem.into_response(),
    }
}

/// Holds something until the body of a response has been handed to the system, or its client has
/// left.
pub(crate) fn held_by<T: Send + Sync + 'static>(response: Response, held: T) -> Response {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    response.map(|body| Body::new(HoldingBody { body, held: Arc::new(held) }))
}

/// A body that holds something until its last byte is written.
struct HoldingBody<T> {
    body: Body,
    held: Arc<T>,
}

/// A piece of a body that is not written yet. The server keeps it after it is done with the body.
struct HoldingBytes<T> {
    bytes: Bytes,
    _held: Arc<T>,
}

impl<T> AsRef<[u8]> for HoldingBytes<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T: Send + Sync + 'static> HttpBody for HoldingBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let holding = |bytes| Bytes::from_owner(HoldingBytes { bytes, _held: Arc::clone(&self.held) });
        polled.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(holding))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    /// A call may go on after its request.
    #[test]
    fn a_place_counts_as_long_as_it_is_held() {
        let load = Load::new(ShareSizes { calls: 1, streams: 1, connections: 1 }, MemoryBudget::new(1 << 20));
        let held = load.share("ada").call().unwrap();
        for n in 0..2 * MANY {
            load.share(&n.to_string());
        }
        assert_eq!(load.share("ada").call().unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
        drop(held);
        assert!(load.share("ada").call().is_ok());
        assert!(load.clients.lock().unwrap().len() <= MANY + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn h2_whole_records_of_one_principal_leave_places_for_others() {
        let load = Load::new(ShareSizes { calls: 1, streams: 1, connections: 1 }, MemoryBudget::new(1 << 20));
        let held = [load.whole_record("eve").await, load.whole_record("eve").await];
        assert!(held.iter().all(Option::is_some));
        let soon = Duration::from_secs(1);
        let others = async || tokio::time::timeout(soon, load.whole_record("ada")).await.is_ok();
        let (more, other) = tokio::join!(tokio::time::timeout(soon, load.whole_record("eve")), others());
        assert!(more.is_err() && other);
        drop(held);
        assert!(load.whole_record("eve").await.is_some());
    }

    #[tokio::test]
    async fn z3_a_body_is_parsed_within_the_memory_of_the_host_and_a_number_of_values() {
        let budget = MemoryBudget::new(16 << 20);
        let load = Load::new(ShareSizes { calls: 1, streams: 1, connections: 1 }, budget.clone());
        let share = load.share("ada");
        let body = |values: usize| format!("{{\"input\": [{}0]}}", "0,".repeat(values)).into_bytes();
        let code = async |body: &[u8]| share.weigh(body).await.unwrap_err().code;
        assert_eq!(code(&body(500_000)).await, "too_large");
        assert_eq!(code(&body(200_000)).await, "overloaded");
        assert_eq!(budget.reserved_bytes(), 0);
        let held = share.weigh(&body(50_000)).await.unwrap();
        assert!(budget.reserved_bytes() > 2 << 20, "{} bytes", budget.reserved_bytes());
        drop(held);
        assert!(share.weigh(&body(100)).await.unwrap().is_none());
        assert_eq!(budget.reserved_bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn z3_bodies_of_one_principal_take_at_most_a_quarter_of_the_memory() {
        let budget = MemoryBudget::new(128 << 20);
        let load = Load::new(ShareSizes { calls: 1, streams: 1, connections: 1 }, budget.clone());
        let (ada, bob) = (load.share("ada"), load.share("bob"));
        let body = format!("{{\"input\": [{}0]}}", "0,".repeat(50_000)).into_bytes();
        let mut held = Vec::new();
        let refused = loop {
            match ada.weigh(&body).await {
                Ok(memory) => held.push(memory),
                Err(refused) => break refused,
            }
        };
        assert_eq!((refused.status, held.len() > 1), (StatusCode::TOO_MANY_REQUESTS, true));
        assert!(budget.reserved_bytes() <= 32 << 20, "{} bytes", budget.reserved_bytes());
        assert!(bob.weigh(&body).await.is_ok());
        let handled = async {
            tokio::time::sleep(PLACE_WAIT / 2).await;
            drop(held);
        };
        let (waited, ()) = tokio::join!(ada.weigh(&body), handled);
        assert!(waited.is_ok());
    }

    #[test]
    fn h2_a_large_answer_is_reserved_until_its_last_byte_is_written() {
        let budget = MemoryBudget::new(16 << 20);
        let load = Load::new(ShareSizes { calls: 1, streams: 1, connections: 1 }, budget.clone());
        let (ada, bob) = (load.share("ada"), load.share("bob"));
        let answer = |bytes: usize| Response::new(Body::from(vec![b'x'; bytes]));
        assert!(ada.weigh_answer(&answer(1 << 10)).unwrap().is_none());
        let response = answered(ada.clone(), answer(3 << 20), ());
        assert_eq!(response.body().size_hint().exact(), Some(3 << 20));
        assert_eq!(answered(ada.clone(), answer(2 << 20), ()).status(), StatusCode::TOO_MANY_REQUESTS);
        let other = budget.try_reserve(12 << 20).unwrap();
        assert_eq!(answered(bob.clone(), answer(2 << 20), ()).status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(other);
        let mut body = response.into_body();
        let mut context = Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) else {
            panic!("the answer is complete")
        };
        let mut bytes = frame.into_data().unwrap();
        drop(body);
        let last = bytes.split_off((3 << 20) - 1);
        drop(bytes);
        assert_eq!(budget.reserved_bytes(), 3 << 20, "a byte is not written yet");
        drop(last);
        assert_eq!(budget.reserved_bytes(), 0);
        assert!(ada.weigh_answer(&answer(2 << 20)).unwrap().is_some());
    }
}
