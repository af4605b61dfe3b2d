//! A tool, by hand.

use crate::arguments::Arguments;
use crate::context::Context;
use crate::descriptor::ToolDescriptor;
use crate::error::ToolError;
use crate::key::StateAccess;
use crate::output::ToolOutput;

/// What [`#[tool]`](macro@crate::tool) implements, for full control.
///
/// A tool by hand is a unit struct, listed in [`component!`](crate::component!)
/// beside those made of functions.
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
    message = "`{Self}` is no tool",
    label = "does not implement `Tool`",
    note = "put `#[tool]` on a function, or implement `tollgate_sdk::Tool` by hand"
)]
pub trait Tool {
    /// What the tool is. Asked once, when the component is loaded.
    fn descriptor(&self) -> ToolDescriptor;

    /// Whether the model means this tool by `tool_name`. The default builds the
    /// descriptor to find out; a tool that has to be fast compares a constant.
    fn answers_to(&self, tool_name: &str) -> bool {
        self.descriptor().name == tool_name
    }

    /// The state that the tool uses, beside what its component declares.
    fn state(&self) -> Vec<StateAccess> {
        Vec::new()
    }

    /// Checks what the schema cannot say. Called only where the descriptor says
    /// so ([`ToolDescriptor::validates`]), and with every power refused.
    fn validate_args(&self, _args: Arguments<'_>) -> Result<(), ToolError> {
        Ok(())
    }

    /// Does it. What was written through `ctx` is handed back beside what the
    /// output holds; an error drops both.
    fn execute(&self, args: Arguments<'_>, ctx: &mut Context) -> Result<ToolOutput, ToolError>;
}
