//! Errors as OpenAI's clients expect them.

use crate::agent_runs::{NOT_VALID, RECORD_LOST};
use crate::problem::Problem;
use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tollgate_agent::run::RunStatus;
use tollgate_agent::text::one_line;

/// The maximum length of a message about a run, in bytes.
const MAX_MESSAGE_BYTES: usize = 1_000;

/// An error in OpenAI's format: `{"error": {"message", "type", "param", "code"}}`.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenAiError {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: String,
    /// Whether OpenAI's libraries must not repeat the request, as they do after a 5xx.
    is_final: bool,
}

impl OpenAiError {
    /// Creates the error for a parameter that is missing, malformed or not supported.
    pub(crate) fn param(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
            param: Some(param.into()),
            code: "invalid_request".to_owned(),
            is_final: false,
        }
    }

    /// Replaces the code.
    pub(crate) fn with_code(mut self, code: &str) -> Self {
        code.clone_into(&mut self.code);
        self
    }

    /// Returns the error for a run that ended without an answer; `None` if it completed or reached
    /// a limit.
    pub(crate) fn of_end(status: &RunStatus) -> Option<Self> {
        let (status, code, message) = match status {
            RunStatus::Completed | RunStatus::Stopped { .. } => return None,
            RunStatus::Blocked { reason } => {
                (StatusCode::FORBIDDEN, "blocked", format!("a gate ended the run: {reason}"))
            }
            RunStatus::Cancelled { reason } => {
                (StatusCode::CONFLICT, "cancelled", format!("the run was cancelled: {reason}"))
            }
            RunStatus::Failed { error } => {
                (StatusCode::BAD_GATEWAY, "failed", format!("the run failed: {error}"))
            }
        };
        let message = one_line(&message, MAX_MESSAGE_BYTES);
        Some(Self { status, message, param: None, code: code.to_owned(), is_final: true })
    }

    /// Returns the error for a run that no process continues.
    pub(crate) fn lost() -> Self {
        Self {
            status: StatusCode::BAD_GATEWAY,
            message: "the run does not continue: its process stopped; its calls may have taken effect, so have an operator \
                 resume it (`tollgate resume`) before you repeat the message"
                .to_owned(),
            param: None,
            code: "interrupted".to_owned(),
            is_final: true,
        }
    }

    /// Returns the error for a run that has called a tool without a record of it.
    pub(crate) fn record_lost() -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            message: RECORD_LOST.to_owned(),
            param: None,
            code: "record_lost".to_owned(),
            is_final: true,
        }
    }

    /// Returns the error at the end of a stream whose key is no longer valid.
    pub(crate) fn unauthorized() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            message: NOT_VALID.to_owned(),
            param: None,
            code: "unauthorized".to_owned(),
            is_final: true,
        }
    }

    /// Returns the error as the JSON of a body or of a stream's event.
    pub(crate) fn to_json(&self) -> Value {
        let kind = match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        json!({"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}})
    }
}

impl From<Problem> for OpenAiError {
    fn from(problem: Problem) -> Self {
        let Problem { status, code, detail, .. } = problem;
        // The tool has run, so a repeated request would run it twice.
        let is_final = code == "record_lost";
        Self { status, message: detail, param: None, code: code.to_owned(), is_final }
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.to_json())).into_response();
        if self.is_final {
            let name = HeaderName::from_static("x-should-retry");
            response.headers_mut().insert(name, HeaderValue::from_static("false"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a9_a_request_whose_record_is_lost_is_not_repeated_by_libraries() {
        for (code, is_final) in [("record_lost", true), ("internal", false)] {
            let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code, "No.");
            let response = OpenAiError::from(problem).into_response();
            let retries = response.headers().get("x-should-retry").map(HeaderValue::as_bytes);
            assert_eq!(retries, is_final.then_some(&b"false"[..]), "{code}");
        }
    }

    #[test]
    fn a_run_that_stopped_is_not_simply_sent_again() {
        let lost = OpenAiError::lost();
        assert!(lost.message.contains("may have taken effect") && lost.is_final, "{lost:?}");
        assert!(!lost.message.contains("send the message again"), "{lost:?}");
    }
}
