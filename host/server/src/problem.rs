//! Errors of requests that started no run, as problem documents (RFC 9457).

use crate::scope::Scope;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tollgate::HostError;
use tollgate::run::{RunError, UnrecordedEffect};
use tollgate::store::{Remedy, StoreError, StoreErrorKind};

/// A refused request: a status, a stable code, and what failed and what to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// The stable code, in snake case; it ends the `type` URI `/problems/{code}`.
    pub code: &'static str,
    /// The failure, its cause, and the remedy.
    pub detail: String,
    /// Further members of the document.
    pub members: Map<String, Value>,
}

/// A problem document (RFC 9457). Some codes have further members.
#[derive(Debug, serde::Serialize, utoipa::ToSchema)]
pub struct ProblemDocument {
    /// `/problems/{code}`, which explains the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of the status.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The failure, its cause, and the remedy.
    pub detail: String,
    /// The stable code.
    pub code: String,
}

/// Every code with its meaning, as `/problems/{code}` explains it.
pub const CODES: &[(&str, &str)] = &[
    (
        "already_decided",
        "The question was answered before. The members `by` and `at_ms` name who did and when.",
    ),
    ("already_ended", "The run has ended, so it cannot be cancelled or continued."),
    ("bad_request", "A header, a query parameter or the body does not have the expected form."),
    ("busy", "Another part of the run or thread is at work. Try again in a moment."),
    ("cross_site", "A page of another site sent the request with the cookie of a session."),
    ("does_not_fit", "The answer does not fit the question's schema. The member `errors` lists the places."),
    (
        "host_failed",
        "The host could not do what the page of the console asked for. The detail says why, and what to do.",
    ),
    ("internal", "The server failed. Its log has the reason."),
    ("invalid_form", "An entry of a form is missing or does not fit. The detail names it."),
    (
        "key_reused",
        "The Idempotency-Key was sent before with another request. Use a new key for a new request.",
    ),
    ("method_not_allowed", "The path exists, but not with this method."),
    (
        "missing_scope",
        "The key or session lacks a scope, which the member `scope` names. `tollgate keys add NAME --scope SCOPE` \
         makes a key with it.",
    ),
    ("not_acceptable", "The route answers with a stream of events only. Send `Accept: text/event-stream`."),
    (
        "not_found",
        "Nothing of this name exists for this key: it does not exist, or it belongs to another principal. List \
         what there is, such as GET /api/v1/runs or /api/v1/tools; the scope `read` shows what belongs to others.",
    ),
    ("not_from_proxy", "The server accepts connections of its proxy only."),
    (
        "not_kept",
        "An answer for always counts for its thread only, because the configuration file cannot be changed.",
    ),
    ("overloaded", "The server has no room for more work now. Try again after the time in Retry-After."),
    (
        "own_question",
        "Questions of own runs are answered by others: [serve] has `decides = \"others\"`, or the run was asked for by A2A.",
    ),
    ("owned_elsewhere", "Another process drives the run. Send the request to that process."),
    (
        "record_lost",
        "A tool has run, but the store could not record it. Check what it did, and do not repeat the call.",
    ),
    ("refused", "The host refused what the page of the console asked for. The detail says why."),
    (
        "response_not_found",
        "`previous_response_id` names no response of this key. Continue one of its own, or begin without it.",
    ),
    (
        "run_waiting",
        "A run of the thread was interrupted and now waits for an answer. The message was not sent.",
    ),
    ("store_damaged", "A record that the request needs is damaged. The server's log has the reason."),
    ("store_failed", "The store cannot be read or written now. Try again after the time in Retry-After."),
    ("store_full", "There is no room for more records. An operator has to free some, or raise a limit."),
    (
        "thread_busy",
        "Another run of the thread is at work. Wait for its end; the native API also takes `\"on_busy\": \"queue\"`.",
    ),
    ("too_large", "The body is longer than the server reads."),
    (
        "too_many_requests",
        "This principal has too much in progress. Try again after the time in Retry-After.",
    ),
    ("too_slow", "The body did not arrive in time."),
    ("unauthenticated", "The request has no valid key or session."),
    ("unprocessable", "The request is well-formed, but its content cannot be accepted."),
    (
        "unsupported",
        "The request asks for a feature that this endpoint does not have. The detail names it; send the request \
         without it.",
    ),
    ("unsupported_media_type", "The body is not JSON. Send Content-Type: application/json."),
    ("waiting", "The run waits for an answer. Answer its question first; GET /api/v1/questions lists them."),
    ("wrong_code", "The sign-in code or key is not valid. A code works once, for five minutes."),
    ("wrong_host", "The Host header names a host that is not configured."),
    ("wrong_origin", "A page of this origin may not use the server."),
];

impl Problem {
    /// Creates a problem without further members.
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), members: Map::new() }
    }

    /// Creates the problem of a principal that answers a question of its own run, where others decide.
    #[must_use]
    pub fn own_question() -> Self {
        let detail = "another principal answers the questions of your runs (`decides = \"others\"`)";
        Self::new(StatusCode::FORBIDDEN, "own_question", detail)
    }

    /// Creates the problem of a principal that answers a gate's question of a run that it asked for as
    /// an agent.
    #[must_use]
    pub fn agents_question() -> Self {
        let detail = "an agent never approves itself: another principal answers the gates' questions of runs that \
                      were asked for by A2A";
        Self::new(StatusCode::FORBIDDEN, "own_question", detail)
    }

    /// Adds a member to the document.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.members.insert(member.to_owned(), value.into());
        self
    }

    /// The request has no valid credential.
    #[must_use]
    pub fn unauthenticated() -> Self {
        let detail = "send a key as `Authorization: Bearer tg_…`; `tollgate keys add NAME` makes one";
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
    }

    /// The request has a key, which is not valid. The three reasons are not told apart.
    #[must_use]
    pub fn invalid_key() -> Self {
        let detail =
            "the key of this request is unknown, expired or revoked; `tollgate keys add NAME` makes another";
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
    }

    /// Creates the problem of a credential that lacks a scope.
    #[must_use]
    pub fn scope_missing(scope: Scope) -> Self {
        let name = scope.as_str();
        let detail = format!(
            "this key lacks the scope `{name}`; `tollgate keys add NAME --scope {name}` makes a key with it"
        );
        Self::new(StatusCode::FORBIDDEN, "missing_scope", detail).with("scope", scope.as_str())
    }

    /// The named thing does not exist for this principal: either it does not exist, or it belongs
    /// to another principal.
    #[must_use]
    pub fn not_found(what: &str) -> Self {
        let list = match what {
            "agent" => "; GET /api/v1/agents lists them",
            "question" => "; GET /api/v1/questions lists the open ones",
            "run" => "; GET /api/v1/runs lists them",
            "session" => "; GET /api/v1/sessions lists them",
            "thread" => "; GET /api/v1/threads lists them",
            "tool" => "; GET /api/v1/tools lists them",
            _ => "",
        };
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no such {what}{list}"))
    }

    /// The request does not have the expected form.
    #[must_use]
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    /// The request is well-formed, but its content cannot be accepted.
    #[must_use]
    pub fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "unprocessable", detail)
    }

    /// The principal has too much in progress.
    #[must_use]
    pub fn too_many(what: &str) -> Self {
        let detail = format!("too many {what}; retry after some have completed");
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail)
    }

    /// The server has no room for the work now.
    #[must_use]
    pub fn overloaded(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail)
    }

    /// The server failed. The reason is logged and not sent, because it may contain paths.
    #[must_use]
    pub fn internal(why: &dyn std::fmt::Display) -> Self {
        tracing::error!("a request failed: {why}");
        let detail = "the server failed; its log has the reason";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// The store failed. The reason is logged and not sent, because it may contain paths and
    /// addresses.
    fn of_store(why: &StoreError) -> Self {
        Self::of_failure(why.kind(), why)
    }

    /// A run cannot be continued. The client learns what it has to know about its tools.
    #[must_use]
    pub fn of_run(why: &RunError) -> Self {
        match why.effect() {
            UnrecordedEffect::Unknown => Self::of_failure(why.kind(), why),
            UnrecordedEffect::NothingRan => {
                let mut problem = Self::of_failure(why.kind(), why);
                problem.detail = format!("nothing was run: {}", problem.detail);
                problem
            }
            UnrecordedEffect::Ran => {
                tracing::error!("a request failed: {why}");
                let detail =
                    "the tool has run, but its record is lost; check what it did, and do not repeat the call";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "record_lost", detail)
            }
        }
    }

    fn of_failure(kind: StoreErrorKind, why: &dyn std::fmt::Display) -> Self {
        let (status, code, detail) = match kind {
            StoreErrorKind::UnknownRun => return Self::not_found("run"),
            StoreErrorKind::Full => (
                StatusCode::INSUFFICIENT_STORAGE,
                "store_full",
                "the store has no room for more records; the server's log names the limit",
            ),
            StoreErrorKind::Damaged => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "store_damaged",
                "a record cannot be read; the server's log has the reason",
            ),
            StoreErrorKind::Unusable | StoreErrorKind::Other => return Self::internal(why),
            StoreErrorKind::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "store_failed",
                "the store cannot be read or written now; try again, or read the server's log",
            ),
        };
        tracing::error!("a request failed: {why}");
        Self::new(status, code, detail)
    }
}

impl From<HostError> for Problem {
    fn from(error: HostError) -> Self {
        let shown = tollgate_agent::text::clean(&error.to_string(), 2_000);
        match error {
            HostError::UnknownAgent { .. }
            | HostError::UnknownTool { .. }
            | HostError::UnknownRun(_)
            | HostError::UnknownQuestion(_) => Self::new(StatusCode::NOT_FOUND, "not_found", shown),
            HostError::AlreadyDecided { decision, .. } => {
                let problem = Self::new(StatusCode::CONFLICT, "already_decided", shown);
                let Some(made) = decision else { return problem };
                let problem = problem.with("at_ms", made.at_ms);
                match made.by {
                    Some(by) => problem.with("by", by),
                    None => problem,
                }
            }
            HostError::AlreadyEnded(_) => Self::new(StatusCode::CONFLICT, "already_ended", shown),
            HostError::OwnedElsewhere(_) => Self::new(StatusCode::CONFLICT, "owned_elsewhere", shown),
            HostError::DoesNotFit { violations, .. } => {
                let places = violations
                    .iter()
                    .map(|violation| json!({"pointer": violation.pointer, "detail": violation.problem}));
                let places: Vec<Value> = places.collect();
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "does_not_fit", shown).with("errors", places)
            }
            HostError::Refused(_) | HostError::Setup(_) => Self::unprocessable(shown),
            HostError::Busy(_) => {
                let detail = "another run of the thread is at work; send the message again after its end";
                Self::new(StatusCode::CONFLICT, "thread_busy", detail)
            }
            HostError::Waiting(run_id) => {
                Self::new(StatusCode::CONFLICT, "run_waiting", shown).with("run_id", run_id)
            }
            HostError::Overloaded { .. } => Self::overloaded(shown),
            HostError::StoreFull(why) => {
                let remedy = match why.remedy() {
                    Some(Remedy::MakeRoom) => {
                        ". An operator can change the limit in [store] of tollgate.toml, or remove old runs with \
                         `tollgate prune`"
                    }
                    _ => "",
                };
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "store_full", format!("{shown}{remedy}"))
            }
            HostError::Store(why) => Self::of_store(&why),
            HostError::Run(why) => Self::of_run(&why),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::of_store(&error)
    }
}

impl IntoResponse for Problem {
    /// The answer carries the problem, so that a protocol can answer in its own form.
    fn into_response(self) -> Response {
        let problem = self.clone();
        let retry = matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
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
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if retry {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response.extensions_mut().insert(problem);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds the codes of problems in a directory of source files.
    fn collect_codes(directory: &std::path::Path, codes: &mut std::collections::BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                collect_codes(&path, codes);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            for name in ["Problem::new(", "Self::new(StatusCode::"] {
                for after in text.split(name).skip(1) {
                    // The code is the first text that follows, as the second argument.
                    let Some(code) = after.split('"').nth(1) else { continue };
                    let is_near = after.find('"').is_some_and(|at| at < 120);
                    let is_code = code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                    if is_near && is_code && !code.is_empty() {
                        codes.insert(code.to_owned());
                    }
                }
            }
        }
    }

    #[test]
    fn every_code_is_explained() {
        let mut codes = std::collections::BTreeSet::new();
        collect_codes(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut codes);
        assert!(codes.len() > 25 && codes.contains("not_kept") && codes.contains("busy"), "{codes:?}");
        let unknown: Vec<_> =
            codes.iter().filter(|code| !CODES.iter().any(|(known, _)| known == code)).collect();
        assert!(unknown.is_empty(), "/problems/CODE does not explain {unknown:?}");
        assert!(CODES.is_sorted_by_key(|(code, _)| *code), "the list is in order");
    }

    #[test]
    fn the_kind_of_a_store_error_decides_the_answer() {
        let answers = [
            (StoreErrorKind::Unavailable, 503, "store_failed", Some("1")),
            (StoreErrorKind::Other, 500, "internal", None),
            (StoreErrorKind::Full, 507, "store_full", None),
            (StoreErrorKind::Damaged, 500, "store_damaged", None),
            (StoreErrorKind::Unusable, 500, "internal", None),
            (StoreErrorKind::UnknownRun, 404, "not_found", None),
        ];
        for (kind, status, code, retry) in answers {
            let why = || StoreError::new(kind, "cannot write to the store /secret/place");
            for problem in [Problem::from(why()), Problem::from(HostError::Store(why()))] {
                assert_eq!((problem.status.as_u16(), problem.code), (status, code), "{kind:?}");
                assert!(!problem.detail.contains("secret"), "{}", problem.detail);
                assert!(CODES.iter().any(|(known, _)| *known == code), "{code} is explained");
                let response = problem.into_response();
                let after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
                assert_eq!(after, retry, "{kind:?}");
            }
        }
    }
}
