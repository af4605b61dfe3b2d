//! The interface through which the host runs child agents for a call.

use futures::future::BoxFuture;
use tollgate_agent::child::{ChildError, ChildOutcome, ChildRequest};

/// Runs child agents for one attempt of one call.
pub trait ChildRunner: Send + Sync {
    /// Returns why a request to this agent is refused before anything else of it is read; `None` if
    /// it may be passed to [`run_child`](Self::run_child).
    ///
    /// A refused request still takes a position among the call's requests. The answer is immediate, so
    /// the call's clock does not stop for it.
    fn refuse(&self, agent_id: &str) -> Option<ChildError>;

    /// Starts the child, or picks up the one that the call already has at this position among its
    /// requests, and waits until it ends or waits for a person.
    ///
    /// The future resolves to an error if the child cannot be run: it is not granted, exceeds a limit, or
    /// its request is invalid.
    fn run_child(&self, request: ChildRequest) -> BoxFuture<'_, Result<ChildOutcome, ChildError>>;
}

/// Runs no children.
impl ChildRunner for () {
    fn refuse(&self, agent_id: &str) -> Option<ChildError> {
        Some(ChildError::not_granted(agent_id))
    }

    fn run_child(&self, request: ChildRequest) -> BoxFuture<'_, Result<ChildOutcome, ChildError>> {
        Box::pin(std::future::ready(Err(ChildError::not_granted(&request.agent_id))))
    }
}
