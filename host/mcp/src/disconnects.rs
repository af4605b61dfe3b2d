//! HTTP clients that disconnect while calls are in flight.
//!
//! In a session, a broken response stream does not cancel the call: the protocol lets the client
//! reconnect for the rest. If a client does not reconnect in time, its calls are cancelled.

use super::connections::RequestInProgress;
use super::request_limit::RequestPermit;
use super::sessions::{IdInUse, SessionUse};
use axum::body::{BodyDataStream, Bytes};
use futures::Stream;
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tollgate_sandbox::{MemoryBudget, Reservation};
use uuid::Uuid;

/// How long a client may take to reconnect after a response stream broke. Clients are asked to
/// retry after three seconds.
const COME_BACK: Duration = Duration::from_secs(10);

/// A piece of an answer up to this size is sent without reserving its memory, in bytes: the system
/// buffers as much for each connection.
const SMALL_CHUNK_BYTES: usize = 64 * 1024;

/// How long a large piece of an answer waits for memory before its stream breaks.
const MEMORY_WAIT: Duration = Duration::from_secs(30);
/// The number of pieces that wait for memory at a time, because they are in memory meanwhile. The streams of
/// others break at once.
const WAITING_PIECES: usize = 16;

/// The token that cancels a call whose client is gone.
#[derive(Debug, Clone)]
pub(super) struct DisconnectToken(pub(super) CancellationToken);

/// A call whose client may still reconnect. It keeps its share of the limit, so that the number
/// of such calls is bounded.
#[derive(Debug)]
struct AbandonedCall {
    gone: CancellationToken,
    _slot: Option<RequestPermit>,
}

/// A broken stream, with the calls that were to be answered on it.
#[derive(Debug)]
struct BrokenStream {
    id: Uuid,
    left: Vec<AbandonedCall>,
}

/// The streams whose clients may still reconnect, by session.
#[derive(Debug, Default)]
pub(super) struct DisconnectTracker(Mutex<HashMap<String, Vec<BrokenStream>>>);

impl DisconnectTracker {
    /// Registers a stream of this session on which a call is answered. The returned
    /// [`DisconnectToken`] cancels the call once the client is gone.
    pub(super) fn attend(
        self: &Arc<Self>,
        session: &str,
        slot: Option<RequestPermit>,
    ) -> (ResponseGuard, DisconnectToken) {
        let gone = CancellationToken::new();
        let left = vec![AbandonedCall { gone: gone.clone(), _slot: slot }];
        let (leaving, session) = (Arc::clone(self), session.to_owned());
        (ResponseGuard { leaving, session, left, began: true }, DisconnectToken(gone))
    }

    /// Handles a client that reconnects to the calls of this session.
    pub(super) fn reconnect(self: &Arc<Self>, session: &str) -> ResponseGuard {
        let back = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
        let left = back.into_iter().flatten().flat_map(|stream| stream.left).collect();
        ResponseGuard { leaving: Arc::clone(self), session: session.to_owned(), left, began: false }
    }

    fn leave(self: &Arc<Self>, session: String, left: Vec<AbandonedCall>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let id = Uuid::new_v4();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(session.clone()).or_default().push(BrokenStream { id, left });
        let this = Arc::clone(self);
        runtime.spawn(async move {
            tokio::time::sleep(COME_BACK).await;
            let mut all = this.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(streams) = all.get_mut(&session) else { return };
            for stream in streams.extract_if(.., |stream| stream.id == id) {
                stream.left.iter().for_each(|call| call.gone.cancel());
            }
            if streams.is_empty() {
                all.remove(&session);
            }
        });
    }
}

/// The client that reads the answers to these calls. Dropping it means that the stream broke.
#[derive(Debug)]
pub(super) struct ResponseGuard {
    leaving: Arc<DisconnectTracker>,
    session: String,
    left: Vec<AbandonedCall>,
    /// Whether it belongs to the request that makes the call.
    began: bool,
}

impl ResponseGuard {
    /// Records that the answer was sent completely.
    pub(super) fn done(mut self) {
        self.left.clear();
    }

    /// Records that there is no stream: a call that was to begin did not, and other calls keep
    /// waiting.
    pub(super) fn refused(mut self) {
        if self.began {
            self.left.clear();
        }
    }
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        let left = std::mem::take(&mut self.left);
        if !left.is_empty() {
            self.leaving.leave(std::mem::take(&mut self.session), left);
        }
    }
}

/// The body of an answer that a client is reading.
pub(super) struct AttendedBody {
    body: BodyDataStream,
    attendance: Option<ResponseGuard>,
    _used: (Option<RequestInProgress>, Option<SessionUse>, Option<Arc<IdInUse>>),
    memory: AnswerMemory,
    /// A large piece that waits for memory.
    waiting: Option<BoxFuture<'static, Result<Bytes, axum::Error>>>,
}

impl AttendedBody {
    /// Creates the body. The memory of its large pieces is reserved until they are written.
    pub(super) fn new(
        body: BodyDataStream,
        attendance: Option<ResponseGuard>,
        used: (Option<RequestInProgress>, Option<SessionUse>, Option<Arc<IdInUse>>),
        memory: AnswerMemory,
    ) -> Self {
        Self { body, attendance, _used: used, memory, waiting: None }
    }
}

impl Stream for AttendedBody {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let waiting = match &mut this.waiting {
            Some(waiting) => waiting,
            None => match ready!(Pin::new(&mut this.body).poll_next(cx)) {
                Some(Ok(bytes)) if bytes.len() > SMALL_CHUNK_BYTES => {
                    this.waiting.insert(Box::pin(this.memory.clone().keep(bytes)))
                }
                Some(piece) => return Poll::Ready(Some(piece)),
                None => {
                    if let Some(attendance) = this.attendance.take() {
                        attendance.done();
                    }
                    return Poll::Ready(None);
                }
            },
        };
        let piece = ready!(waiting.as_mut().poll(cx));
        this.waiting = None;
        Poll::Ready(Some(piece))
    }
}

/// A large piece of an answer that is not written yet. The server keeps it after it is done with the
/// body.
struct ReservedChunk {
    bytes: Bytes,
    _memory: Reservation,
}

impl AsRef<[u8]> for ReservedChunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The memory of large pieces of answers, until they are written. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct AnswerMemory {
    budget: MemoryBudget,
    /// The places of pieces that wait for memory.
    waiting: Arc<Semaphore>,
}

impl AnswerMemory {
    pub(super) fn new(budget: MemoryBudget) -> Self {
        Self { budget, waiting: Arc::new(Semaphore::new(WAITING_PIECES)) }
    }

    /// Reserves the memory of a piece, and waits for it for a limited time. Without memory the stream
    /// breaks; the client may reconnect for the rest.
    async fn keep(self, bytes: Bytes) -> Result<Bytes, axum::Error> {
        let size = bytes.len() as u64;
        let mut memory = self.budget.try_reserve(size);
        if memory.is_none()
            && let Ok(_place) = self.waiting.try_acquire()
        {
            memory = self.budget.reserve_unqueued(size, MEMORY_WAIT).await;
        }
        let words = "the host has no memory to keep the answer until it is read";
        let memory = memory.ok_or_else(|| axum::Error::new(words))?;
        Ok(Bytes::from_owner(ReservedChunk { bytes, _memory: memory }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::StreamExt as _;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn z3_a_large_answer_of_mcp_over_http_is_reserved_until_it_is_written() {
        let budget = MemoryBudget::new(1 << 20);
        let memory = AnswerMemory::new(budget.clone());
        let answer = |bytes: usize| {
            let body = axum::body::Body::from(vec![b'x'; bytes]).into_data_stream();
            AttendedBody::new(body, None, (None, None, None), memory.clone())
        };
        let written = answer(600 << 10).next().await.unwrap().unwrap();
        assert_eq!((written.len(), budget.reserved_bytes()), (600 << 10, 600 << 10));
        assert!(answer(600 << 10).next().await.unwrap().is_err(), "there is no memory for another");
        assert!(answer(1 << 10).next().await.unwrap().is_ok());
        let read = async {
            tokio::time::sleep(MEMORY_WAIT / 2).await;
            drop(written);
        };
        let mut waiting = answer(600 << 10);
        let (next, ()) = tokio::join!(waiting.next(), read);
        let next = next.unwrap().unwrap();
        assert_eq!((next.len(), budget.reserved_bytes()), (600 << 10, 600 << 10));
        drop(next);
        assert_eq!(budget.reserved_bytes(), 0);
        assert!(waiting.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn z3_few_large_pieces_wait_for_memory_at_a_time() {
        let budget = MemoryBudget::new(1 << 20);
        let others = budget.try_reserve(1 << 20);
        let memory = AnswerMemory::new(budget);
        let began = Instant::now();
        let answers = (0..=WAITING_PIECES).map(|_| {
            let body = axum::body::Body::from(vec![b'x'; 600 << 10]).into_data_stream();
            let mut answer = AttendedBody::new(body, None, (None, None, None), memory.clone());
            async move {
                assert!(answer.next().await.unwrap().is_err());
                began.elapsed()
            }
        });
        let waited = futures::future::join_all(answers).await;
        let at_once = waited.iter().filter(|waited| waited.is_zero()).count();
        let late = waited.iter().filter(|waited| **waited >= MEMORY_WAIT).count();
        assert_eq!((at_once, late), (1, WAITING_PIECES), "{waited:?}");
        drop(others);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_cancelled_once_its_client_does_not_come_back() {
        let leaving = Arc::<DisconnectTracker>::default();
        let (read, answered) = leaving.attend("s", None);
        read.done();
        let (stream, DisconnectToken(gone)) = leaving.attend("s", None);
        drop(stream);
        tokio::time::sleep(COME_BACK / 2).await;
        let (other, back) = (leaving.reconnect("t"), leaving.reconnect("s"));
        tokio::time::sleep(COME_BACK * 2).await;
        assert!(!gone.is_cancelled(), "it came back");
        drop((other, back));
        tokio::time::sleep(COME_BACK / 2).await;
        assert!(!gone.is_cancelled(), "it may come back once more");
        tokio::time::sleep(COME_BACK).await;
        assert!(gone.is_cancelled());
        assert!(!answered.0.is_cancelled());
        assert!(leaving.0.lock().is_ok_and(|all| all.is_empty()), "nothing is kept");
    }
}
