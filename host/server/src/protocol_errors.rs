//! Errors of requests that became no run, in the form of the protocol that the client speaks.
//!
//! Handlers and the layers before them refuse with a [`Problem`]. The native API answers with the
//! problem document; the routes of a protocol answer with that protocol's own error. The status
//! and the headers stay.

use crate::parts::{Part, Parts};
use crate::problem::Problem;
use crate::{a2a, openai::OpenAiError};
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde_json::{Value, json};

/// Returns the answer of a path. The problem document of a protocol's route is rewritten.
pub(crate) fn in_own_form(parts: &Parts, path: &str, response: Response) -> Response {
    let problem = response.extensions().get::<Problem>();
    let Some(body) = problem.and_then(|problem| form_of(parts, path, problem)) else { return response };
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, Body::from(body.to_string()))
}

/// Returns an error in the form of the path's protocol; `None` for the native API and the console,
/// for the AI SDK, whose clients show the body of a refused request as it is, and for a protocol
/// that the server does not offer.
fn form_of(parts: &Parts, path: &str, problem: &Problem) -> Option<Value> {
    let (first, rest) = path.strip_prefix('/')?.split_once('/')?;
    match first {
        "v1" if parts.has(Part::OpenAi) => Some(OpenAiError::from(problem.clone()).to_json()),
        "a2a" if parts.has(Part::A2a) => Some(a2a::error_of(problem.clone(), !rest.contains('/'))),
        "ag-ui" if parts.has(Part::AgUi) => {
            Some(json!({"type": "RUN_ERROR", "message": problem.detail, "code": problem.code}))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_protocol_has_its_own_form() {
        let problem = Problem::unauthenticated();
        let form = |path| form_of(&Parts::all(), path, &problem);
        assert_eq!(form("/v1/models").unwrap()["error"]["type"], "authentication_error");
        assert_eq!(form("/a2a/assistant").unwrap()["jsonrpc"], "2.0");
        assert_eq!(form("/a2a/assistant/tasks").unwrap()["error"]["status"], "UNAUTHENTICATED");
        assert_eq!(form("/ag-ui/assistant").unwrap()["type"], "RUN_ERROR");
        for native in ["/", "/v1", "/api/v1/runs", "/ai-sdk/assistant", "/console/waiting", "/v10/models"] {
            assert_eq!(form(native), None, "{native}");
        }
        let none = Parts::all().without(Part::ALL);
        for path in ["/v1/models", "/a2a/assistant", "/ag-ui/assistant"] {
            assert_eq!(form_of(&none, path, &problem), None, "{path}");
        }
    }
}
