//! Errors of requests that became no run, in the form of the protocol that the client speaks.
//!
//! Handlers and the layers before them refuse with a [`Problem`]. The native API answers with the
//! problem document; the routes of a protocol answer with that protocol's own error. The status
//! and the headers stay.

use crate::problem::Problem;
use crate::{a2a, openai::OpenAiError};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::{Value, json};

/// Rewrites the problem documents of the routes of protocols.
pub(crate) async fn in_own_form(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let response = next.run(request).await;
    let Some(body) = response.extensions().get::<Problem>().and_then(|problem| form_of(&path, problem))
    else {
        return response;
    };
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, Body::from(body.to_string()))
}

/// Returns an error in the form of the path's protocol; `None` for the native API and the console,
/// and for the AI SDK, whose clients show the body of a refused request as it is.
fn form_of(path: &str, problem: &Problem) -> Option<Value> {
    let (first, rest) = path.strip_prefix('/')?.split_once('/')?;
    match first {
        "v1" => Some(OpenAiError::from(problem.clone()).to_json()),
        "a2a" => Some(a2a::error_of(problem.clone(), !rest.contains('/'))),
        "ag-ui" => Some(json!({"type": "RUN_ERROR", "message": problem.detail, "code": problem.code})),
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
        let form = |path| form_of(path, &problem);
        assert_eq!(form("/v1/models").unwrap()["error"]["type"], "authentication_error");
        assert_eq!(form("/a2a/assistant").unwrap()["jsonrpc"], "2.0");
        assert_eq!(form("/a2a/assistant/tasks").unwrap()["error"]["status"], "UNAUTHENTICATED");
        assert_eq!(form("/ag-ui/assistant").unwrap()["type"], "RUN_ERROR");
        for native in ["/", "/v1", "/api/v1/runs", "/ai-sdk/assistant", "/console/waiting", "/v10/models"] {
            assert_eq!(form(native), None, "{native}");
        }
    }
}
