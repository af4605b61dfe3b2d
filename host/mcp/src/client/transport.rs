//! The transport of a connection. It reports progress in the order of the messages, before the
//! answer that follows it, and drops a late answer: if a server takes long to report its versions,
//! the handshake is started meanwhile, and the answer that then arrives is ignored. A server that
//! sends requests without reading the answers is not read until it does.

use super::link::Link;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage, JsonRpcNotification, RequestId, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The maximum number of a server's requests whose answers it has not read. Beyond it, nothing more
/// is read from the server.
pub const MAX_UNANSWERED: usize = 64;

/// The requests of a server that are not answered yet.
#[derive(Default)]
struct UnansweredRequests {
    requests: Mutex<Requests>,
    fewer: Notify,
}

/// Requests are counted one by one, because a server may use the same id for many.
#[derive(Default)]
struct Requests {
    /// The ids of those whose answer is not ready.
    open: Vec<RequestId>,
    /// The number of answers that are being sent.
    sending: usize,
}

impl UnansweredRequests {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, id: RequestId) {
        self.requests().open.push(id);
    }

    /// Removes a request that gets no answer, because it was withdrawn before the answer was ready.
    fn withdraw(&self, id: &RequestId) {
        if self.requests().take(id) {
            self.fewer.notify_one();
        }
    }

    /// Counts a request as answered once the result is dropped.
    fn answer(self: &Arc<Self>, id: &RequestId) -> PendingAnswer {
        let mut requests = self.requests();
        requests.take(id);
        requests.sending += 1;
        PendingAnswer(Arc::clone(self))
    }

    /// Waits until one more request may be read.
    async fn room(&self) {
        while self.requests().count() >= MAX_UNANSWERED {
            self.fewer.notified().await;
        }
    }
}

impl Requests {
    fn count(&self) -> usize {
        self.open.len() + self.sending
    }

    /// Removes one request with this id; returns whether there is one.
    fn take(&mut self, id: &RequestId) -> bool {
        let at = self.open.iter().position(|open| open == id);
        at.map(|at| self.open.swap_remove(at)).is_some()
    }
}

/// An answer that is being sent.
struct PendingAnswer(Arc<UnansweredRequests>);

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        self.0.requests().sending -= 1;
        self.0.fewer.notify_one();
    }
}

/// The transport, and the state of its start.
pub(super) struct OrderedTransport<T> {
    wire: T,
    link: Arc<Link>,
    /// The request for versions, while its answer is awaited.
    asked: Option<RequestId>,
    /// The request for versions, once its answer is no longer awaited.
    late: Option<RequestId>,
    unanswered: Arc<UnansweredRequests>,
}

impl<T> OrderedTransport<T> {
    pub(super) fn new(wire: T, link: Arc<Link>) -> Self {
        Self { wire, link, asked: None, late: None, unanswered: Arc::default() }
    }

    /// Returns whether a message is the late answer.
    fn is_late(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let answered = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if answered.is_some() && answered == self.asked.as_ref() {
            self.asked = None;
        }
        let is_late = answered.is_some() && answered == self.late.as_ref();
        if is_late {
            self.late = None;
        }
        is_late
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for OrderedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(sent) = &item {
            match &sent.request {
                ClientRequest::DiscoverRequest(_) => self.asked = Some(sent.id.clone()),
                ClientRequest::InitializeRequest(_) => self.late = self.asked.take(),
                _ => {}
            }
        }
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let sending = answered.map(|id| self.unanswered.answer(id));
        let sent = self.wire.send(item);
        async move {
            let _sending = sending;
            sent.await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            // This future may be dropped, so it waits before it has a message.
            self.unanswered.room().await;
            let message = self.wire.receive().await?;
            match &message {
                JsonRpcMessage::Request(request) => self.unanswered.add(request.id.clone()),
                // A request that was withdrawn gets no answer.
                JsonRpcMessage::Notification(JsonRpcNotification {
                    notification: ServerNotification::CancelledNotification(cancelled),
                    ..
                }) => {
                    cancelled.params.request_id.iter().for_each(|id| self.unanswered.withdraw(id));
                }
                _ => {}
            }
            match message {
                JsonRpcMessage::Notification(JsonRpcNotification {
                    notification: ServerNotification::ProgressNotification(progress),
                    ..
                }) => self.link.progress(progress.params),
                message if self.is_late(&message) => {}
                message => return Some(message),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.wire.close().await
    }
}
