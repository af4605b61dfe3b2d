//! The stable codes of calls that did not succeed.
//!
//! Models, `--json` output, records and the documentation use these words. A code never changes its
//! meaning; new ones may be added.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The reason why a call did not end in a success or a suspension.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code, in the order in which a call can meet them.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// Returns the code as models, records and `--json` spell it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }
        }
    };
}

codes! {
    /// No tool of this name is offered to the agent.
    NotFound = "not_found",
    /// The arguments are not JSON, or do not fit the tool's schema.
    InvalidArguments = "invalid_arguments",
    /// The tool trapped too often in a row. It is disabled until a person or a new version enables
    /// it.
    Disabled = "disabled",
    /// The queue of calls of the host or the tool is full.
    Overloaded = "overloaded",
    /// A gate ended the call and the run.
    Blocked = "blocked",
    /// A gate ended the call.
    Denied = "denied",
    /// Another call of the same turn was blocked before this one could run.
    NotRun = "not_run",
    /// A new message arrived while the call waited for a person.
    Superseded = "superseded",
    /// The run, or this call, was cancelled.
    Cancelled = "cancelled",
    /// The guest used up its fuel.
    OutOfFuel = "out_of_fuel",
    /// The attempt exceeded its time limit.
    TimedOut = "timed_out",
    /// The guest exceeded its memory limit.
    OutOfMemory = "out_of_memory",
    /// The guest exceeded its limit on tables, instances, memories or handles.
    OutOfResources = "out_of_resources",
    /// The guest overflowed its stack.
    StackOverflow = "stack_overflow",
    /// More bytes crossed the boundary than the limit allows.
    TooLarge = "too_large",
    /// The guest's output violates the contract.
    MalformedOutput = "malformed_output",
    /// The guest trapped.
    Trapped = "trapped",
    /// The guest ended itself with `wasi:cli/exit`.
    Exited = "exited",
    /// A mutation was rejected: an undeclared key, an invalid update, or a value that violates the
    /// key's schema.
    BadMutation = "bad_mutation",
    /// Another call of the same batch changed the same key, and this tool may not run twice.
    StateConflict = "state_conflict",
    /// The tool requested an action that is not granted or does not apply here.
    BadAction = "bad_action",
    /// The tool answered `invalid-arguments`.
    ToolInvalidArguments = "tool_invalid_arguments",
    /// The tool answered `execution-failed`.
    ToolFailed = "tool_failed",
    /// The tool answered `denied`.
    ToolDenied = "tool_denied",
    /// The tool answered `not-found`.
    ToolNotFound = "tool_not_found",
    /// The tool answered `internal`. Only the operator sees its message.
    ToolInternal = "tool_internal",
    /// The tool returned a result with the status `error`.
    ToolError = "tool_error",
    /// A hook failed.
    HookFailed = "hook_failed",
    /// The host stopped while the call ran. The call may have had effects.
    Interrupted = "interrupted",
    /// The host itself failed.
    HostFailed = "host_failed",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialization_and_display_agree() {
        for code in Code::ALL {
            let json = serde_json::to_value(code).expect("a code serializes");
            assert_eq!(json, serde_json::json!(code.as_str()));
            assert_eq!(code.to_string(), code.as_str());
        }
    }
}
