//! The trait for tools written by hand.

use crate::arguments::Arguments;
use crate::context::Context;
use crate::descriptor::ToolDescriptor;
use crate::error::ToolError;
use crate::key::StateAccess;
use crate::output::ToolOutput;

/// The trait implemented by [`#[tool]`](macro@crate::tool); implement it by hand for
/// full control.
///
/// A hand-written tool is a unit struct, listed in [`component!`](crate::component!)
/// beside the tools made of functions.
///
/// ```
/// use tollgate_sdk::{Arguments, Context, Tool, ToolDescriptor, ToolError, ToolOutput, ToolResult};
///
/// struct Echo;
///
/// impl Tool for Echo {
///     fn descriptor(&self) -> ToolDescriptor {
///         ToolDescriptor::new("echo", "echo", "Says it again.")
///     }
///
///     fn execute(&self, args: Arguments<'_>, _: &mut Context) -> Result<ToolOutput, ToolError> {
///         Ok(ToolResult::success(args.value()?).into())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "does not implement `Tool`",
    note = "put `#[tool]` on a function, or implement `tollgate_sdk::Tool` by hand"
)]
pub trait Tool {
    /// Returns the tool's description. Called once, when the component is loaded.
    fn descriptor(&self) -> ToolDescriptor;

    /// Returns whether `tool_name` names this tool. The default builds the descriptor
    /// to find out; a tool that has to be fast compares a constant.
    fn answers_to(&self, tool_name: &str) -> bool {
        self.descriptor().name == tool_name
    }

    /// Returns the state that the tool uses beyond what its component declares.
    fn state(&self) -> Vec<StateAccess> {
        Vec::new()
    }

    /// Returns whether the host calls [`Self::validate_args`]. It does by default, which
    /// costs an instance for each call; a tool without a check of its own returns
    /// `false`, as those made by [`#[tool]`](macro@crate::tool) do.
    fn validates(&self) -> bool {
        true
    }

    /// Checks constraints that the schema cannot express. The host denies it every power.
    fn validate_args(&self, _args: Arguments<'_>) -> Result<(), ToolError> {
        Ok(())
    }

    /// Runs the tool. Writes through `ctx` are added to the output's own; an error
    /// drops both.
    fn execute(&self, args: Arguments<'_>, ctx: &mut Context) -> Result<ToolOutput, ToolError>;
}
