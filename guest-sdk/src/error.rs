//! How a call ends without an answer of the tool's own.

use std::fmt;

/// Ends the call, and nothing that it wrote commits.
///
/// The model reads the kind and the message; of [`ToolError::Internal`] it reads
/// the kind alone, and the message goes to the operator. A tool that wants to
/// answer "this did not work" in its own words, and keep what it wrote, returns
/// [`ToolResult::error`](crate::ToolResult::error) instead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments are wrong in a way that the schema does not say.
    InvalidArguments(String),
    /// It was tried and did not work.
    ExecutionFailed(String),
    /// The tool itself does not allow it.
    Denied(String),
    /// What the arguments name does not exist.
    NotFound(String),
    /// A fault of the tool. The message goes to the operator alone.
    Internal(String),
}

impl ToolError {
    /// The arguments are wrong in a way that the schema does not say.
    pub fn invalid_arguments(message: impl fmt::Display) -> Self {
        Self::InvalidArguments(message.to_string())
    }

    /// It was tried and did not work.
    pub fn execution_failed(message: impl fmt::Display) -> Self {
        Self::ExecutionFailed(message.to_string())
    }

    /// The tool itself does not allow it.
    pub fn denied(message: impl fmt::Display) -> Self {
        Self::Denied(message.to_string())
    }

    /// What the arguments name does not exist.
    pub fn not_found(message: impl fmt::Display) -> Self {
        Self::NotFound(message.to_string())
    }

    /// A fault of the tool. The message goes to the operator alone.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::Internal(message.to_string())
    }

    /// What it says, without its kind.
    pub fn message(&self) -> &str {
        match self {
            Self::InvalidArguments(message)
            | Self::ExecutionFailed(message)
            | Self::Denied(message)
            | Self::NotFound(message)
            | Self::Internal(message) => message,
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for ToolError {}
