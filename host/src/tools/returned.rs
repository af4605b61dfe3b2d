//! The return types of closures and their conversion.

use serde::Serialize;
use serde_json::Value;
use std::fmt::Display;
use tollgate_agent::code::Code;
use tollgate_agent::outcome::{Fault, ToolOutput, ToolResult};

/// The types that a closure of a tool may return.
///
/// | returned | means |
/// |---|---|
/// | text, a [`Value`], [`Json`] of a type | success, with this data |
/// | [`ToolResult`] | the given result: success, an error, a question to a person |
/// | [`ToolOutput`] | a result, with changes of state and requests to the loop |
/// | `Err(E)`, any `E: Display` | the tool's own error: the model reads it |
pub trait IntoOutput {
    /// Converts the value to the output of the call.
    ///
    /// # Errors
    /// The call has no answer; the host supplies one.
    fn into_output(self) -> Result<ToolOutput, Fault>;
}

/// A success whose data is a value of a custom type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoOutput for Json<T> {
    fn into_output(self) -> Result<ToolOutput, Fault> {
        match serde_json::to_value(self.0) {
            Ok(data) => data.into_output(),
            Err(why) => Err(Fault::new(Code::ToolInternal, "The tool failed.").with_detail(why.to_string())),
        }
    }
}

impl IntoOutput for ToolOutput {
    fn into_output(self) -> Result<ToolOutput, Fault> {
        Ok(self)
    }
}

impl IntoOutput for ToolResult {
    fn into_output(self) -> Result<ToolOutput, Fault> {
        Ok(self.into())
    }
}

impl IntoOutput for Value {
    fn into_output(self) -> Result<ToolOutput, Fault> {
        ToolResult::success(self).into_output()
    }
}

impl IntoOutput for String {
    fn into_output(self) -> Result<ToolOutput, Fault> {
        ToolResult::success(self).into_output()
    }
}

impl IntoOutput for &str {
    fn into_output(self) -> Result<ToolOutput, Fault> {
        ToolResult::success(self).into_output()
    }
}

impl<T: IntoOutput, E: Display> IntoOutput for Result<T, E> {
    fn into_output(self) -> Result<ToolOutput, Fault> {
        match self {
            Ok(returned) => returned.into_output(),
            Err(error) => ToolResult::error(error.to_string()).into_output(),
        }
    }
}
