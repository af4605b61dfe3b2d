//! Requests that cannot be answered, as pages.

use super::document;
use super::sign_in::SIGN_IN_PATH;
use crate::Problem;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use tollgate::HostError;
use tollgate::store::StoreError;
use tollgate_agent::text::sentence;

/// The reason why a page cannot be shown.
#[derive(Debug)]
pub(super) enum Failure {
    /// No person is signed in.
    SignedOut,
    /// The request is refused.
    Refused(Problem),
}

impl Failure {
    /// Returns the failure for something that does not exist, or belongs to another principal.
    pub(super) fn missing(kind: &'static str) -> Self {
        Failure::Refused(Problem::not_found(kind))
    }

    /// Returns the failure for a request that does not make sense.
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Failure::Refused(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_form", detail))
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure::Refused(problem)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Refused(error.into())
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        let (status, code) = match &error {
            HostError::Store(_) | HostError::Run(_) => return Failure::Refused(error.into()),
            HostError::Setup(_) => {
                tracing::error!("a request of the console failed: {error}");
                let detail = "the host failed; the server's log has the reason";
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                return Failure::Refused(Problem::new(status, "host_failed", detail));
            }
            HostError::Busy(_) => (StatusCode::CONFLICT, "thread_busy"),
            HostError::Waiting(_) => (StatusCode::CONFLICT, "waiting"),
            HostError::Overloaded { .. } => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            HostError::StoreFull(_) => (StatusCode::INSUFFICIENT_STORAGE, "store_full"),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, "refused"),
        };
        Failure::Refused(Problem::new(status, code, error.to_string()))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let problem = match self {
            Failure::SignedOut => return Redirect::to(SIGN_IN_PATH).into_response(),
            Failure::Refused(problem) => problem,
        };
        let title = problem.status.canonical_reason().unwrap_or("Error");
        let page = document::bare(
            title,
            html! {
                h1 { (title) }
                p.lead { (super::text::line(&sentence(&problem.detail), 1_000)) }
                p.muted { "Code " code { (problem.code) } }
                p { a href="/console" { "Back to the overview" } }
            },
        );
        (problem.status, page).into_response()
    }
}
