//! The interface through which the host runs child agents for a call.

use futures::future::BoxFuture;
use tollgate_agent::child::{ChildError, ChildOutcome, ChildRequest};

/// Runs child agents for one attempt of one call.
pub trait ChildRunner: Send + Sync {
    /// Starts the child, or picks up the one that the call already has at this position among its
    /// requests, and waits until it ends or waits for a person.
    ///
    /// The future resolves to an error if there is no such child.
    fn run_child(&self, request: ChildRequest) -> BoxFuture<'_, Result<ChildOutcome, ChildError>>;
}

/// Runs no children.
impl ChildRunner for () {
    fn run_child(&self, request: ChildRequest) -> BoxFuture<'_, Result<ChildOutcome, ChildError>> {
        Box::pin(std::future::ready(Err(ChildError::not_granted(&request.agent_id))))
    }
}
