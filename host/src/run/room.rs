//! Memory for arguments, reserved before they are parsed.

use super::driver::Driver;
use tollgate_agent::code::Code;
use tollgate_agent::json;
use tollgate_agent::outcome::Fault;
use tollgate_agent::run::{Input, Task};

/// Arguments up to this size are parsed without estimating their size in memory.
const SMALL_BYTES: usize = 4 * 1024;

/// The arguments of one reply may take up to one part in this many of the memory budget.
const REPLY_PART: u64 = 4;

impl Driver {
    /// Returns the input once there is memory for its arguments. A direct call is refused if
    /// there is none; a model's calls wait as long as the run has time. A reply that needs more
    /// than its part of the budget fails: it would block others while it waits, and its own tools
    /// afterwards.
    pub(super) async fn with_room(&mut self, input: Input) -> Input {
        let budget = self.parts.host.memory_budget();
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
                        let fault = overloaded(tool_name, budget.total_bytes());
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
                    return Input::ModelFailed { ask, error: too_large(bytes, budget.total_bytes()) };
                }
                let deadline = self.deadline;
                let reserved = async {
                    match deadline {
                        Some(at) => tokio::time::timeout_at(at, budget.reserve(bytes)).await.ok(),
                        None => Some(budget.reserve(bytes).await),
                    }
                };
                // A cancellation of the run ends the wait.
                match self.parts.cancel.run_until_cancelled(reserved).await {
                    Some(None) => Input::WallTimeUp,
                    reserved => {
                        self.arguments = reserved.flatten();
                        Input::Replied { ask, reply, hooked }
                    }
                }
            }
            other => other,
        }
    }
}

/// Returns the size of the parsed arguments in bytes; 0 if it is too small to count, or if they
/// will not be parsed.
fn parsed_bytes(arguments: &str) -> u64 {
    if arguments.len() <= SMALL_BYTES {
        return 0;
    }
    let measure = json::measure(arguments.as_bytes());
    if measure.nodes > json::MAX_NODES { 0 } else { measure.parsed_bytes }
}

fn too_large(bytes: u64, total_bytes: u64) -> String {
    format!(
        "overloaded: reading the arguments of the model's calls would take {bytes} bytes; one reply may use a \
         quarter of memory_budget_bytes = {total_bytes}, which an operator can raise in tollgate.toml, under \
         [limits]"
    )
}

fn overloaded(tool_name: &str, total_bytes: u64) -> Fault {
    let name = tollgate_agent::text::clean(tool_name, 100);
    let message = format!("The host has no memory to read the arguments of '{name}' now. Try again later.");
    Fault::new(Code::Overloaded, message).with_detail(format!(
        "the limit is memory_budget_bytes = {total_bytes}, of all calls together; an operator can raise it in \
         tollgate.toml, under [limits]"
    ))
}
