//! Errors that end a call without an answer of the tool's own.

use std::fmt;

/// An error that ends the call; nothing that the call wrote commits.
///
/// The model reads the kind and the message. For [`ToolError::Internal`] it reads only
/// the kind, and the message goes to the operator. A tool that wants to report a
/// failure in its own words and keep its writes returns
/// [`ToolResult::error`](crate::ToolResult::error) instead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments are wrong in a way that the schema does not express.
    InvalidArguments(String),
    /// The attempt failed.
    ExecutionFailed(String),
    /// The tool itself does not allow the call.
    Denied(String),
    /// The arguments name something that does not exist.
    NotFound(String),
    /// The tool has a bug. Only the operator sees the message.
    Internal(String),
}

impl ToolError {
    /// The arguments are wrong in a way that the schema does not express.
    pub fn invalid_arguments(message: impl fmt::Display) -> Self {
        Self::InvalidArguments(message.to_string())
    }

    /// The attempt failed.
    pub fn execution_failed(message: impl fmt::Display) -> Self {
        Self::ExecutionFailed(message.to_string())
    }

    /// The tool itself does not allow the call.
    pub fn denied(message: impl fmt::Display) -> Self {
        Self::Denied(message.to_string())
    }

    /// The arguments name something that does not exist.
    pub fn not_found(message: impl fmt::Display) -> Self {
        Self::NotFound(message.to_string())
    }

    /// The tool has a bug. Only the operator sees the message.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::Internal(message.to_string())
    }

    /// Returns the message without the kind.
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
