//! A wire to a server that took so long to say which versions it speaks that it was begun
//! with in the older way meanwhile: its answer, which comes late, is passed over.

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// The wire, and what of its beginning is open.
pub(super) struct Patient<T> {
    wire: T,
    /// The question for versions, while its answer is awaited.
    asked: Option<RequestId>,
    /// The same, once nobody waits for its answer any more.
    late: Option<RequestId>,
}

impl<T> Patient<T> {
    pub(super) fn new(wire: T) -> Self {
        Self { wire, asked: None, late: None }
    }

    /// Whether a message that came is for nobody.
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
