//! The memory of models' replies, reserved from the host's budget. A run keeps its replies until it
//! rests.

use crate::models::{ModelReply, ReplyMemory};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tollgate_agent::json::written_bytes;
use tollgate_sandbox::{MemoryBudget, Reservation};

/// A reply up to this size is kept without a reservation, in bytes.
const SMALL_BYTES: u64 = 256 * 1024;

/// The copies of a reply in memory: in the run, and in the record that is being stored.
const COPIES: u64 = 2;

/// The memory of one reply.
#[derive(Debug)]
pub(super) struct ReservedReply {
    budget: MemoryBudget,
    held: Mutex<Option<Reservation>>,
}

impl ReservedReply {
    pub(super) fn new(budget: &MemoryBudget) -> Arc<Self> {
        Arc::new(Self { budget: budget.clone(), held: Mutex::default() })
    }

    /// Returns the memory of the whole reply, without the memory that only reading it took; `None` if
    /// the reply is small.
    ///
    /// # Errors
    /// There is no memory for a reply that its model did not reserve.
    pub(super) fn hand_over(&self, reply: &ModelReply) -> Result<Option<Reservation>, String> {
        let Some(bytes) = memory_of_reply(reply) else {
            drop(self.held().take());
            return Ok(None);
        };
        self.reserve(bytes)?;
        let mut held = self.held().take();
        if let Some(held) = &mut held {
            held.shrink_to(bytes);
        }
        Ok(held)
    }

    fn held(&self) -> MutexGuard<'_, Option<Reservation>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplyMemory for ReservedReply {
    fn reserve(&self, bytes: u64) -> Result<(), String> {
        let mut held = self.held();
        let is_reserved = match held.as_mut() {
            Some(held) => held.try_grow(bytes.saturating_sub(held.bytes())),
            None => {
                *held = self.budget.try_reserve(bytes);
                held.is_some()
            }
        };
        is_reserved.then_some(()).ok_or_else(|| {
            format!(
                "overloaded: the host has no memory for the model's reply, which takes at least {bytes} bytes; the \
                 limit is memory_budget_bytes = {}, of all runs and calls together, which an operator can raise in \
                 tollgate.toml, under [limits]",
                self.budget.total_bytes()
            )
        })
    }
}

/// Returns the memory that a run needs for a reply, in bytes; `None` if the reply is small.
pub(crate) fn memory_of_reply(reply: &ModelReply) -> Option<u64> {
    let bytes = COPIES * bytes_of(reply);
    (bytes > SMALL_BYTES).then_some(bytes)
}

fn bytes_of(reply: &ModelReply) -> u64 {
    let message = &reply.message;
    let calls = message.calls.iter().map(|call| {
        let data = call.provider_data.as_ref().map_or(0, written_bytes);
        call.id.len() + call.name.len() + call.arguments.len() + data
    });
    let text = message.text.len() + message.reasoning.as_ref().map_or(0, String::len);
    (text + calls.sum::<usize>()) as u64
}
