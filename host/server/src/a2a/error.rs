//! Errors of A2A, as JSON-RPC and as HTTP+JSON write them.

use crate::problem::Problem;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// The kinds of errors that the protocol defines, and those of this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorKind {
    TaskNotFound,
    TaskNotCancelable,
    PushNotificationNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
    ExtendedCardNotConfigured,
    VersionNotSupported,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    Parse,
}

/// The error of a request that did not lead to a task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct A2aError {
    status: StatusCode,
    /// The name of the gRPC status.
    grpc: &'static str,
    /// The reason that the protocol defines, in upper snake case.
    reason: &'static str,
    /// The code of this server; `None` if the reason says all.
    code: Option<&'static str>,
    /// The code in JSON-RPC.
    rpc_code: i32,
    message: String,
}

impl A2aError {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        use ErrorKind as Kind;
        let (status, grpc, reason, rpc_code) = match kind {
            Kind::TaskNotFound => (404, "NOT_FOUND", "TASK_NOT_FOUND", -32001),
            Kind::TaskNotCancelable => (400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE", -32002),
            Kind::PushNotificationNotSupported => {
                (400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003)
            }
            Kind::UnsupportedOperation => (400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", -32004),
            Kind::ContentTypeNotSupported => (400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", -32005),
            Kind::ExtendedCardNotConfigured => {
                (400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007)
            }
            Kind::VersionNotSupported => (400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED", -32009),
            Kind::InvalidParams => (400, "INVALID_ARGUMENT", "INVALID_PARAMS", -32602),
            Kind::InvalidRequest => (400, "INVALID_ARGUMENT", "INVALID_REQUEST", -32600),
            Kind::MethodNotFound => (404, "NOT_FOUND", "METHOD_NOT_FOUND", -32601),
            Kind::Parse => (400, "INVALID_ARGUMENT", "PARSE_ERROR", -32700),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        Self { status, grpc, reason, code: None, rpc_code, message: message.into() }
    }

    pub(super) fn task_not_found() -> Self {
        Self::new(ErrorKind::TaskNotFound, "there is no such task")
    }

    fn details(&self) -> Value {
        let mut info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.reason,
            "domain": "a2a-protocol.org",
        });
        if let Some(code) = self.code {
            info["metadata"] = json!({"code": code});
        }
        json!([info])
    }

    /// Returns the error as the answer to a JSON-RPC request.
    pub(super) fn rpc(&self, id: &Value) -> Value {
        let error = json!({"code": self.rpc_code, "message": self.message, "data": self.details()});
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }
}

impl A2aError {
    /// Returns the error as the body of an HTTP answer.
    pub(super) fn http(&self) -> Value {
        json!({"error": {
            "code": self.status.as_u16(),
            "status": self.grpc,
            "message": self.message,
            "details": self.details(),
        }})
    }
}

impl From<Problem> for A2aError {
    fn from(problem: Problem) -> Self {
        // SDKs show the message only of reasons that they know.
        let (grpc, reason, rpc_code) = match problem.status.as_u16() {
            400 | 422 => ("INVALID_ARGUMENT", "INVALID_PARAMS", -32602),
            401 => ("UNAUTHENTICATED", "INVALID_REQUEST", -32600),
            403 => ("PERMISSION_DENIED", "INVALID_REQUEST", -32600),
            404 => ("NOT_FOUND", "INVALID_PARAMS", -32602),
            409 => ("FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", -32004),
            413 | 429 | 503 | 507 => ("RESOURCE_EXHAUSTED", "INTERNAL_ERROR", -32603),
            _ => ("INTERNAL", "INTERNAL_ERROR", -32603),
        };
        let code = Some(problem.code);
        Self { status: problem.status, grpc, reason, code, rpc_code, message: problem.detail }
    }
}

impl IntoResponse for A2aError {
    fn into_response(self) -> Response {
        let body = self.http().to_string();
        (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}
