//! A tool's own error with a code, for functions that use `?`.

use crate::result::ToolResult;
use std::fmt;

/// A tool's answer that it failed: a stable code for programs and a sentence for the
/// model. As the `E` of a tool's `Result` it becomes [`ToolResult::error_with_code`].
///
/// ```
/// use tollgate_sdk::{CodedError, tool};
///
/// /// Divides.
/// #[tool]
/// fn divide(a: i64, b: i64) -> Result<i64, CodedError> {
///     a.checked_div(b)
///         .ok_or_else(|| CodedError::new("division_by_zero", "`b` is zero. Give another."))
/// }
///
/// assert_eq!(divide(1, 0).unwrap_err().code(), "division_by_zero");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodedError {
    code: &'static str,
    message: String,
}

impl CodedError {
    /// Creates an error with this code and message.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Returns the code, such as `not_found`.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// Returns the message: the problem and how to proceed.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for CodedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CodedError {}

impl From<CodedError> for ToolResult {
    fn from(error: CodedError) -> Self {
        Self::error_with_code(error.code, error.message)
    }
}
