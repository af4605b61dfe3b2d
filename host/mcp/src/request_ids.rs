//! The ids of requests in progress. Two requests of a session with one id could not be told apart,
//! and one of them would never be answered.

use rmcp::model::RequestId;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a request waits for an earlier one with its id to end: a client that has read an
/// answer may use the id again before the server is done with it.
const WAIT: Duration = Duration::from_millis(500);
/// How often to check whether the earlier request has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The ids of requests in progress, in all sessions.
#[derive(Debug, Default)]
pub(super) struct RequestIds(Mutex<HashSet<SessionRequest>>);

/// A session and the id of one of its requests.
type SessionRequest = (String, RequestId);

/// An id in use, until this is dropped.
#[derive(Debug)]
pub(super) struct IdInUse {
    ids: Arc<RequestIds>,
    request: SessionRequest,
}

impl RequestIds {
    /// Takes the id for a request of this session; `None` if another request has it.
    pub(super) async fn take(self: &Arc<Self>, session: &str, id: &RequestId) -> Option<Arc<IdInUse>> {
        let request = (session.to_owned(), id.clone());
        let taken = async {
            while !self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(request.clone()) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(WAIT, taken).await.ok()?;
        Some(Arc::new(IdInUse { ids: Arc::clone(self), request }))
    }
}

impl Drop for IdInUse {
    fn drop(&mut self) {
        self.ids.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.request);
    }
}
