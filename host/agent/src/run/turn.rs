//! The calls of one turn of the model, and the batch of them that runs.

use super::call::Call;
use crate::message::ModelReply;
use crate::state::{Snapshot, StateChange};
use std::sync::Arc;

/// One turn: the model's reply and the state of each call.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    /// The model's reply; `None` for a direct call.
    pub(super) reply: Option<Arc<ModelReply>>,
    /// The calls in the order in which the model asked for them.
    pub(super) calls: Vec<Call>,
    /// The batch of calls that is running.
    pub(super) batch: Option<Batch>,
    /// The number of rounds of questions to the gates.
    pub(super) rounds: u32,
    /// The agent to which one of the calls hands the conversation.
    pub(super) transfer: Option<String>,
}

/// Calls that run at once on one snapshot and are applied in order.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    /// Positions in [`Turn::calls`] that are not applied yet, in ascending order.
    pub(super) calls: Vec<usize>,
    /// The state at the start of the batch.
    pub(super) snapshot: Snapshot,
    /// The changes applied since.
    pub(super) changes: Vec<StateChange>,
}

impl Turn {
    pub(super) fn new(reply: Option<Arc<ModelReply>>) -> Self {
        Self { reply, calls: Vec::new(), batch: None, rounds: 0, transfer: None }
    }

    /// Adds a call. Most turns have one, and a call is large.
    pub(super) fn add(&mut self, call: Call) {
        self.calls.reserve_exact(usize::from(self.calls.is_empty()));
        self.calls.push(call);
    }

    pub(super) fn position(&self, call_id: &str) -> Option<usize> {
        self.calls.iter().position(|call| call.id == call_id)
    }

    /// Removes a call from the batch. A batch without calls is over.
    pub(super) fn leave_batch(&mut self, at: usize) {
        if let Some(batch) = &mut self.batch {
            batch.calls.retain(|other| *other != at);
            if batch.calls.is_empty() {
                self.batch = None;
            }
        }
    }
}
