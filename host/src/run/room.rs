//! Memory for arguments, reserved before they are parsed, and for the copies of a large state.

use super::conversation_memory::{PATIENCE, overloaded};
use super::driver::Driver;
use std::sync::Arc;
use tokio::time::Instant;
use tokio::time::error::Elapsed;
use tollgate_agent::code::Code;
use tollgate_agent::json;
use tollgate_agent::outcome::Fault;
use tollgate_agent::run::{Input, Task};
use tollgate_sandbox::{MemoryBudget, Reservation};

/// Arguments up to this size are parsed without estimating their size in memory.
const SMALL_BYTES: usize = 4 * 1024;

/// A state up to this size is copied without a reservation, in bytes. Calls at one time share the
/// state that they read.
const SMALL_STATE_BYTES: usize = 256 * 1024;
/// Memory per byte of a large state: values take up to four times their size, and one call may
/// hold the state before and after its changes.
const STATE_COPIES: u64 = 2 * 4;

/// The arguments of one reply may take up to one part in this many of the memory budget.
const REPLY_PART: u64 = 4;

impl Driver {
    /// Returns the input once there is memory for its arguments. A direct call is refused if
    /// there is none; a model's calls wait as long as the run has time. A reply that needs more
    /// than its part of the budget fails: it would block others while it waits, and its own tools
    /// afterwards.
    pub(super) async fn with_room(&mut self, input: Input) -> Input {
        let input = self.with_room_for_state(input).await;
        let budget = &self.parts.services.memory_budget;
        match input {
            Input::Start(spec) => {
                let Task::Call { arguments, tool_name } = &spec.task else { return Input::Start(spec) };
                let bytes = parsed_bytes(arguments);
                if bytes == 0 {
                    return Input::Start(spec);
                }
                match budget.try_reserve(bytes) {
                    Some(memory) => {
                        self.arguments = Some(memory);
                        Input::Start(spec)
                    }
                    None => {
                        let fault = no_memory("the arguments", tool_name, budget);
                        Input::StartRefused(spec, fault)
                    }
                }
            }
            Input::Replied { ask, reply, hooked } => {
                let bytes = reply.message.calls.iter().map(|call| parsed_bytes(&call.arguments)).sum();
                self.arguments = None;
                if bytes == 0 {
                    return Input::Replied { ask, reply, hooked };
                }
                if bytes > budget.total_bytes() / REPLY_PART {
                    return Input::ModelFailed { ask, error: too_large(bytes, budget) };
                }
                match self.reserved(bytes).await {
                    Err(_) => Input::WallTimeUp,
                    Ok(memory) => {
                        self.arguments = memory;
                        Input::Replied { ask, reply, hooked }
                    }
                }
            }
            other => other,
        }
    }

    /// Waits for memory; `None` if the run is cancelled meanwhile.
    ///
    /// # Errors
    /// The time of the run is up.
    async fn reserved(&mut self, bytes: u64) -> Result<Option<Reservation>, Elapsed> {
        let budget = &self.parts.services.memory_budget;
        let reserved = async {
            match self.deadline {
                Some(at) => tokio::time::timeout_at(at, budget.reserve(bytes)).await,
                None => Ok(budget.reserve(bytes).await),
            }
        };
        self.parts.cancel.run_until_cancelled(reserved).await.transpose()
    }

    /// Reserves memory for a large state, and more as it grows, until the run rests. A direct call is
    /// refused at its start if there is none. Others wait, and end if they are cancelled or their time is
    /// up. A run that holds memory does not queue for more, because such runs would wait for each other: it
    /// looks again for a while, and then its model's reply fails.
    async fn with_room_for_state(&mut self, input: Input) -> Input {
        let state_bytes = self.run.state().bytes();
        if state_bytes <= SMALL_STATE_BYTES {
            return input;
        }
        let budget = &self.parts.services.memory_budget;
        let bytes = (state_bytes as u64 * STATE_COPIES).min(budget.total_bytes() / REPLY_PART);
        let held = self.state_memory.as_ref().map_or(0, Reservation::bytes);
        if bytes <= held || budget.try_grow_to(&mut self.state_memory, bytes) {
            return input;
        }
        if let Input::Start(spec) = &input
            && let Task::Call { tool_name, .. } = &spec.task
        {
            let fault = no_memory("the state of its thread", tool_name, budget);
            return Input::StartRefused(Arc::clone(spec), fault);
        }
        if held == 0 {
            // Without the memory, the run ends by itself: its next step sees the cancellation or the time.
            self.state_memory = self.reserved(bytes).await.unwrap_or_default();
            return input;
        }
        let time_left = self.deadline.map_or(PATIENCE, |at| at.saturating_duration_since(Instant::now()));
        let more = budget.reserve_unqueued(bytes - held, time_left.min(PATIENCE));
        let more = self.parts.cancel.run_until_cancelled(more).await.flatten();
        match (more, &mut self.state_memory, input) {
            (Some(more), Some(held), input) => {
                held.absorb(more);
                input
            }
            // The calls of the reply would change the state further.
            (_, _, Input::Replied { ask, .. }) => {
                let what = format!("the state of the thread, which takes {bytes} bytes");
                Input::ModelFailed { ask, error: overloaded(&what, budget) }
            }
            (_, _, input) => input,
        }
    }
}

/// Returns the size of the parsed arguments in bytes, or of their text if they will not be parsed; 0 if
/// it is too small to count.
fn parsed_bytes(arguments: &str) -> u64 {
    if arguments.len() <= SMALL_BYTES {
        return 0;
    }
    let measure = json::measure(arguments.as_bytes());
    if measure.nodes > json::MAX_NODES { arguments.len() as u64 } else { measure.parsed_bytes }
}

fn too_large(bytes: u64, budget: &MemoryBudget) -> String {
    let (total_bytes, place) = (budget.total_bytes(), budget.limit_place());
    format!(
        "overloaded: reading the arguments of the model's calls would take {bytes} bytes; one reply may use a \
         quarter of memory_budget_bytes = {total_bytes}, which an operator can raise{place}"
    )
}

/// Returns the fault of a direct call for which there is no memory.
pub(crate) fn no_memory(what: &str, tool_name: &str, budget: &MemoryBudget) -> Fault {
    let (name, total_bytes) = (tollgate_agent::text::clean(tool_name, 100), budget.total_bytes());
    let message = format!("The host has no memory to read {what} for '{name}' now. Try again later.");
    Fault::new(Code::Overloaded, message).with_detail(format!(
        "the limit is memory_budget_bytes = {total_bytes}, of all calls together; an operator can raise it{}",
        budget.limit_place()
    ))
}
