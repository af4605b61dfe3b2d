//! Clients over HTTP that go away while calls are under way.
//!
//! In a session, an answer's stream that breaks off is no cancellation: the protocol
//! lets the client come back for the rest. A client that does not come back within a
//! while is gone, and its calls are cancelled.

use super::connections::Serving;
use super::request_limit::RequestPermit;
use super::sessions::InUse;
use axum::body::{BodyDataStream, Bytes};
use futures::Stream;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How long a client may take to come back for an answer whose stream broke off.
/// Clients are told to try after three seconds.
const COME_BACK: Duration = Duration::from_secs(10);

/// Tells a call that nobody waits for it any more.
#[derive(Debug, Clone)]
pub(super) struct Gone(pub(super) CancellationToken);

/// A call whose client is awaited. It keeps its place meanwhile, so that there are only
/// so many of them.
#[derive(Debug)]
struct Left {
    gone: CancellationToken,
    _slot: Option<RequestPermit>,
}

/// A stream that broke off, with the calls that were answered on it.
#[derive(Debug)]
struct Broken {
    id: Uuid,
    left: Vec<Left>,
}

/// The streams whose clients are awaited, by session.
#[derive(Debug, Default)]
pub(super) struct DisconnectTracker(Mutex<HashMap<String, Vec<Broken>>>);

impl DisconnectTracker {
    /// A stream of this session on which a call is answered, and what tells the call
    /// that the client is gone.
    pub(super) fn attend(
        self: &Arc<Self>,
        session: &str,
        slot: Option<RequestPermit>,
    ) -> (ResponseGuard, Gone) {
        let gone = CancellationToken::new();
        let left = vec![Left { gone: gone.clone(), _slot: slot }];
        let (leaving, session) = (Arc::clone(self), session.to_owned());
        (ResponseGuard { leaving, session, left, began: true }, Gone(gone))
    }

    /// The client comes back to the calls of this session.
    pub(super) fn back(self: &Arc<Self>, session: &str) -> ResponseGuard {
        let back = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
        let left = back.into_iter().flatten().flat_map(|stream| stream.left).collect();
        ResponseGuard { leaving: Arc::clone(self), session: session.to_owned(), left, began: false }
    }

    fn leave(self: &Arc<Self>, session: String, left: Vec<Left>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let id = Uuid::new_v4();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(session.clone()).or_default().push(Broken { id, left });
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

/// Somebody reads the answers to these calls. Dropping it says that the stream broke
/// off.
#[derive(Debug)]
pub(super) struct ResponseGuard {
    leaving: Arc<DisconnectTracker>,
    session: String,
    left: Vec<Left>,
    /// It is that of the request which makes the call.
    began: bool,
}

impl ResponseGuard {
    /// The answer was given to its end.
    pub(super) fn done(mut self) {
        self.left.clear();
    }

    /// There is no stream: a call that was to begin did not, and others wait on.
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

/// The body of an answer while somebody reads it.
pub(super) struct Attended {
    body: BodyDataStream,
    attendance: Option<ResponseGuard>,
    _used: (Option<Serving>, Option<InUse>),
}

impl Attended {
    pub(super) fn new(
        body: BodyDataStream,
        attendance: Option<ResponseGuard>,
        used: (Option<Serving>, Option<InUse>),
    ) -> Self {
        Self { body, attendance, _used: used }
    }
}

impl Stream for Attended {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = Pin::new(&mut self.body).poll_next(cx);
        if let Poll::Ready(None) = &polled
            && let Some(attendance) = self.attendance.take()
        {
            attendance.done();
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_is_cancelled_once_its_client_does_not_come_back() {
        let leaving = Arc::<DisconnectTracker>::default();
        let (read, answered) = leaving.attend("s", None);
        read.done();
        let (stream, Gone(gone)) = leaving.attend("s", None);
        drop(stream);
        tokio::time::sleep(COME_BACK / 2).await;
        let (other, back) = (leaving.back("t"), leaving.back("s"));
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
