//! Decisions for a run that is at work on other calls.

use crate::error::HostError;
use tokio::sync::{mpsc, oneshot};
use tollgate_agent::run::Decision;

/// The maximum number of deliveries that wait for a run.
pub(super) const MAX_DELIVERIES: usize = 16;

/// Decisions for a run, and the sender's answer: whether they are committed.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) decisions: Vec<Decision>,
    pub(crate) taken: oneshot::Sender<Result<(), HostError>>,
}

/// The receiving end of a run; `None` if no client can reach the run.
pub(crate) type Inbox = Option<mpsc::Receiver<Delivery>>;

/// Returns the next delivery.
pub(crate) async fn next(inbox: &mut Inbox) -> Delivery {
    if let Some(receiver) = inbox
        && let Some(delivery) = receiver.recv().await
    {
        return delivery;
    }
    std::future::pending().await
}
