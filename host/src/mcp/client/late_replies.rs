//! A transport that drops a late answer. If a server takes long to report its versions, the
//! handshake is started meanwhile, and the answer that then arrives late is ignored.

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// The transport, and the state of its start.
pub(super) struct Patient<T> {
    wire: T,
    /// The request for versions, while its answer is awaited.
    asked: Option<RequestId>,
    /// The request for versions, once its answer is no longer awaited.
    late: Option<RequestId>,
}

impl<T> Patient<T> {
    pub(super) fn new(wire: T) -> Self {
        Self { wire, asked: None, late: None }
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

impl<T: Transport<RoleClient>> Transport<RoleClient> for Patient<T> {
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
            if !self.is_late(&message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.wire.close().await
    }
}
