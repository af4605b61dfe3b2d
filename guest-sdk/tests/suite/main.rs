//! The SDK from the perspective of a tool's author. Tests are named by the behaviour
//! that they require of the SDK.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod attributes;
mod children;
mod context;
mod errors;
mod functions;
mod guide;
mod results;
mod returned;
mod schemas;
mod state;

use tollgate_sdk::{Arguments, Context, Tool, ToolError, ToolOutput, Value};

/// Returns the schema that the model sees of a tool.
fn schema(tool: &dyn Tool) -> Value {
    tool.descriptor().parameters
}

/// Calls a tool as a host does.
fn call(tool: &dyn Tool, args: &Value) -> Result<ToolOutput, ToolError> {
    tool.execute(Arguments::new(&args.to_string()), &mut Context::for_test())
}
