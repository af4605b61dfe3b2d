//! Decisions for a run that is at work on other calls.

use super::RunError;
use super::driver::Driver;
use crate::error::HostError;
use tokio::sync::{mpsc, oneshot};
use tollgate_agent::run::{Decision, Input};

/// The maximum number of deliveries that wait for a run.
pub(super) const MAX_DELIVERIES: usize = 16;

/// Decisions for a run, and the sender's answer: whether they are committed.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(super) decisions: Vec<Decision>,
    pub(super) taken: oneshot::Sender<Result<(), HostError>>,
}

/// The receiving end of a run; `None` if no client can reach the run.
pub(super) type Inbox = Option<mpsc::Receiver<Delivery>>;

/// Returns the next delivery.
pub(super) async fn next(inbox: &mut Inbox) -> Delivery {
    if let Some(receiver) = inbox
        && let Some(delivery) = receiver.recv().await
    {
        return delivery;
    }
    std::future::pending().await
}

impl Driver {
    /// Commits the decisions, or tells their sender why not. The run continues in both cases.
    pub(super) async fn take_delivery(&mut self, delivery: Delivery) -> Result<(), RunError> {
        let Delivery { decisions, taken } = delivery;
        let input = Input::Decided(decisions);
        if let Err(refused) = self.run.decide(self.parts.toolbox.catalog(), 0, &input) {
            // A sender that has left does not need the answer.
            let _ = taken.send(Err(refused.into()));
            return Ok(());
        }
        let accepted = self.accept(input).await;
        let _ = taken.send(accepted.clone().map_err(HostError::from));
        accepted
    }
}
