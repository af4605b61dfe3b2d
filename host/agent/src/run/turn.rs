//! The calls of one turn of the model, and the batch of them that runs.

use super::call::Call;
use crate::message::ModelReply;
use crate::state::{Snapshot, StateChange};
use smallvec::SmallVec;
use std::sync::Arc;

/// One turn: what the model said, and what became of each call.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    /// What the model said; none for a direct call.
    pub(super) reply: Option<Arc<ModelReply>>,
    /// In the order in which the model asked.
    pub(super) calls: Vec<Call>,
    /// The calls that run at present.
    pub(super) batch: Option<Batch>,
    /// How often the gates were asked.
    pub(super) rounds: u32,
    /// The agent to which one of the calls hands the conversation.
    pub(super) transfer: Option<String>,
}

/// Calls that run at once, on one snapshot, and are applied in their order.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    /// Places in [`Turn::calls`], ascending; those that are not applied yet.
    pub(super) calls: SmallVec<[usize; 2]>,
    /// The state as it stood when the batch began.
    pub(super) snapshot: Snapshot,
    /// What was applied since.
    pub(super) changes: Vec<StateChange>,
}

impl Turn {
    pub(super) fn new(reply: Option<Arc<ModelReply>>) -> Self {
        Self { reply, calls: Vec::new(), batch: None, rounds: 0, transfer: None }
    }

    /// A call joins. Most turns have one, and a call is large.
    pub(super) fn add(&mut self, call: Call) {
        self.calls.reserve_exact(usize::from(self.calls.is_empty()));
        self.calls.push(call);
    }

    pub(super) fn position(&self, call_id: &str) -> Option<usize> {
        self.calls.iter().position(|call| call.id == call_id)
    }

    /// Takes a call out of the batch; a batch without calls is over.
    pub(super) fn leave_batch(&mut self, at: usize) {
        if let Some(batch) = &mut self.batch {
            batch.calls.retain(|other| *other != at);
            if batch.calls.is_empty() {
                self.batch = None;
            }
        }
    }
}
