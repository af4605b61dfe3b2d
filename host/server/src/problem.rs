//! Errors of requests that started no run, as problem documents (RFC 9457).

use crate::auth::Scope;
use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

/// A refused request: a status, a stable code, and what failed and what to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// The stable code, in snake case; it ends the `type` URI `/problems/{code}`.
    pub code: &'static str,
    /// A sentence about what failed, why, and how to fix it.
    pub detail: String,
    /// Further members of the document.
    pub members: Map<String, Value>,
}

impl Problem {
    /// Creates a problem without further members.
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), members: Map::new() }
    }

    /// Creates the problem of a request without a valid credential.
    #[must_use]
    pub fn unauthenticated() -> Self {
        let detail = "send a key as `Authorization: Bearer tg_…`; `tollgate keys add NAME` makes one";
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
    }

    /// Creates the problem of a credential that lacks a scope.
    #[must_use]
    pub fn scope_missing(scope: Scope) -> Self {
        let detail = format!("this key lacks the scope `{}`", scope.as_str());
        let mut problem = Self::new(StatusCode::FORBIDDEN, "scope_missing", detail);
        problem.members.insert("scope".to_owned(), Value::from(scope.as_str()));
        problem
    }

    /// Creates the problem of a resource that does not exist for this principal: either it does not
    /// exist, or it belongs to another principal.
    #[must_use]
    pub fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no such {what}"))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": format!("/problems/{}", self.code),
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "code": self.code,
        });
        if let Some(body) = body.as_object_mut() {
            body.extend(self.members);
        }
        (self.status, [(header::CONTENT_TYPE, "application/problem+json")], Json(body)).into_response()
    }
}
