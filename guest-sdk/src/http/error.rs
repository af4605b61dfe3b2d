//! The reasons why a request has no usable response.

use crate::coded::CodedError;
use crate::result::ToolResult;
use std::fmt;

/// The reason why a request has no usable response. As the `E` of a tool's `Result` it
/// becomes [`ToolResult::error_with_code`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    status: Option<u16>,
}

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is not granted, or the call has sent as many as it may.
    Denied,
    /// The method, the URL or a header is malformed.
    BadRequest,
    /// The server cannot be reached, or the connection broke off.
    Unreachable,
    /// The server does not answer in time.
    TimedOut,
    /// The request's body or the answer is larger than allowed.
    TooLarge,
    /// The server does not answer in acceptable HTTP, or not with the expected JSON.
    BadResponse,
    /// The status redirects to another address.
    Redirected,
    /// The status is 404 or 410.
    NotFound,
    /// The status is another one that is not a success.
    Status,
}

impl ErrorKind {
    /// Returns the code, such as `timed_out`. It is the same in every language.
    pub fn code(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::BadRequest => "bad_request",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::TooLarge => "too_large",
            Self::BadResponse => "bad_response",
            Self::Redirected => "redirected",
            Self::NotFound => "not_found",
            Self::Status => "http_status",
        }
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None }
    }

    pub(super) fn of_status(status: u16, location: Option<&str>) -> Self {
        let (kind, message) = match status {
            300..=399 => (
                ErrorKind::Redirected,
                format!("The server redirects to {}.", location.unwrap_or("another place")),
            ),
            404 | 410 => (ErrorKind::NotFound, "The server has nothing at this address.".to_owned()),
            _ => (ErrorKind::Status, format!("The server answered with the status {status}.")),
        };
        Self { kind, message, status: Some(status) }
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the kind's code, such as `timed_out`.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// Returns the sentence for the model.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the server's status, if there is one.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Returns whether the same request may succeed later: the server was not reached or
    /// too slow, or answered with 429, 502, 503 or 504.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, ErrorKind::Unreachable | ErrorKind::TimedOut)
            || matches!(self.status, Some(429 | 502 | 503 | 504))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<Error> for CodedError {
    fn from(error: Error) -> Self {
        Self::new(error.code(), error.message)
    }
}

impl From<Error> for ToolResult {
    fn from(error: Error) -> Self {
        CodedError::from(error).into()
    }
}
