//! The transport of a connection. It reports progress in the order of the messages, before the
//! answer that follows it, and drops a late answer: if a server takes long to report its versions,
//! the handshake is started meanwhile, and the answer that then arrives is ignored.

use super::runner::Link;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage, JsonRpcNotification, RequestId, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::sync::Arc;

/// The transport, and the state of its start.
pub(super) struct OrderedTransport<T> {
    wire: T,
    link: Arc<Link>,
    /// The request for versions, while its answer is awaited.
    asked: Option<RequestId>,
    /// The request for versions, once its answer is no longer awaited.
    late: Option<RequestId>,
}

impl<T> OrderedTransport<T> {
    pub(super) fn new(wire: T, link: Arc<Link>) -> Self {
        Self { wire, link, asked: None, late: None }
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
        self.wire.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.wire.receive().await?;
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
