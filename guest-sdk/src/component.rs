//! Several tools in one component.

use crate::arguments::Arguments;
use crate::context::Context;
use crate::descriptor::{ComponentDescriptor, ToolDescriptor};
use crate::error::ToolError;
use crate::key::StateAccess;
use crate::output::ToolOutput;
use crate::tool::Tool;

/// The trait implemented by [`component!`](crate::component!). Tests may use it to call
/// the whole component as a host does.
pub trait Component {
    /// The component's id, `[a-z][a-z0-9-]{0,63}`. Grants and state keys belong to it.
    const ID: &'static str;
    /// The version shown to people; at most 64 bytes.
    const VERSION: &'static str;

    /// Returns the component's tools.
    fn tools() -> &'static [&'static dyn Tool];

    /// Returns the state that the tools use beyond their own declarations.
    fn state() -> Vec<StateAccess> {
        Vec::new()
    }

    /// Returns the description that the host reads when it loads the component.
    fn describe() -> ComponentDescriptor {
        let mut declaration = StateDeclaration::default();
        declaration.extend(Self::state());
        for tool in Self::tools() {
            declaration.extend(tool.state());
        }
        ComponentDescriptor {
            id: Self::ID.to_owned(),
            version: Self::VERSION.to_owned(),
            tools: Self::tools().iter().map(|tool| described(*tool)).collect(),
            state: declaration.0,
        }
    }

    /// Checks arguments for the tool named `tool_name`.
    fn validate_args(tool_name: &str, args: &str) -> Result<(), ToolError> {
        find::<Self>(tool_name)?.validate_args(Arguments::new(args))
    }

    /// Runs the tool named by the context and collects its writes.
    fn execute(args: &str, ctx: &mut Context) -> Result<ToolOutput, ToolError> {
        let tool = find::<Self>(ctx.tool_name())?;
        let mut output = tool.execute(Arguments::new(args), ctx)?;
        ctx.hand_over(&mut output);
        Ok(output)
    }
}

/// Returns the tool's descriptor, with its check of the arguments if it has one.
fn described(tool: &dyn Tool) -> ToolDescriptor {
    let descriptor = tool.descriptor();
    if tool.validates() { descriptor.validates() } else { descriptor }
}

fn find<C: Component + ?Sized>(tool_name: &str) -> Result<&'static dyn Tool, ToolError> {
    C::tools()
        .iter()
        .copied()
        .find(|tool| tool.answers_to(tool_name))
        .ok_or_else(|| ToolError::not_found(format!("`{}` has no tool `{tool_name}`.", C::ID)))
}

/// The state of a component, with each key once.
#[derive(Default)]
struct StateDeclaration(Vec<StateAccess>);

impl StateDeclaration {
    /// Adds the state of another tool. A key used twice gets the powers of both uses.
    fn extend(&mut self, state: Vec<StateAccess>) {
        for access in state {
            match self.0.iter_mut().find(|known| known.key == access.key) {
                Some(known) => {
                    known.read |= access.read;
                    known.write |= access.write;
                    known.defines = known.defines.take().or(access.defines);
                }
                None => self.0.push(access),
            }
        }
    }
}
