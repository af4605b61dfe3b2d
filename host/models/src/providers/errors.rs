//! Provider errors: what failed, in the provider's words, and whether it is transient.

use super::retry_after;
use crate::ModelFault;
use crate::http_client::causes;
use genai::webc::StreamTimeout;
use genai::{BoxError, Error};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;
use tollgate_agent::text::sentence;

/// The beginning of the message about an address that the provider does not have.
pub(super) const NOT_FOUND: &str = "The provider answered 404";
/// The beginning of the message about a key that the provider refuses.
pub(super) const UNAUTHORIZED: &str = "The provider answered 401";
/// The beginning of the message about a server to which there is no connection.
pub(super) const UNREACHABLE: &str = "The provider cannot be reached";

/// The longest explanation that is parsed, in bytes: small values take up to a hundred times as much
/// memory as their text. Of a longer one, the beginning is shown as it is.
const MAX_PARSED_BYTES: usize = 64 * 1024;
/// The beginning of an explanation that is not JSON, in characters. A fault keeps fewer.
const MAX_PLAIN_CHARS: usize = 4_000;

/// Converts an error of the library to a fault.
pub(super) fn of(error: Error) -> ModelFault {
    match error {
        Error::WebStream { error, .. } => of_transport(error),
        Error::HttpError { status, body, headers, .. } => of_response(status, &headers, &body),
        Error::ChatResponse { body, .. } => of_event(&body),
        Error::StreamParse { serde_error, .. } => broken(&format!("a chunk is not JSON ({serde_error})")),
        Error::JsonValueExt(e) => broken(&format!("a chunk has another shape than expected ({e})")),
        Error::SerdeJson(e) => broken(&format!("a chunk has another shape than expected ({e})")),
        other => ModelFault::permanent(&other.to_string()),
    }
}

/// Returns the fault of a request that was answered with an error whose body is too long to be read.
pub(super) fn of_long_response(status: StatusCode) -> ModelFault {
    of_response(status, &HeaderMap::new(), "its explanation is too long to be read")
}

/// Returns the fault of a stream that ended before the reply did.
pub(super) fn cut_off(frames: usize) -> ModelFault {
    match frames {
        0 => broken(
            "it ended without a single event. If this happens again, check that `base_url` in [model] is \
             the base of an API",
        ),
        _ => broken("it ended before the reply did"),
    }
}

fn broken(how: &str) -> ModelFault {
    ModelFault::transient(&format!("The provider's stream broke: {}", sentence(how)), None)
}

fn of_transport(error: BoxError) -> ModelFault {
    let error = match error.downcast::<Error>() {
        Ok(inner) => return of(*inner),
        Err(other) => other,
    };
    if let Some(phase) = error.downcast_ref::<StreamTimeout>() {
        let key = match phase {
            StreamTimeout::Headers => "first_byte_timeout_ms",
            StreamTimeout::Read => "idle_timeout_ms",
        };
        return ModelFault::transient(
            &format!("The provider was silent for too long. The limit is `{key}` in [model]."),
            None,
        );
    }
    match error.downcast::<reqwest::Error>() {
        Ok(error) => of_connection(*error),
        Err(other) => broken(&other.to_string()),
    }
}

pub(super) fn of_connection(error: reqwest::Error) -> ModelFault {
    let (is_builder, is_connect) = (error.is_builder(), error.is_connect());
    let words = causes(error);
    match is_builder {
        true => ModelFault::permanent(&words),
        false if is_connect => ModelFault::transient(&format!("{UNREACHABLE}: {}", sentence(&words)), None),
        false => broken(&words),
    }
}

fn of_response(status: StatusCode, headers: &HeaderMap, body: &str) -> ModelFault {
    let parsed = (body.len() <= MAX_PARSED_BYTES).then(|| serde_json::from_str(body).ok()).flatten();
    let said = parsed.unwrap_or_else(|| Value::String(body.trim().chars().take(MAX_PLAIN_CHARS).collect()));
    let message = match words(&said) {
        words if words.is_empty() => format!("The provider answered {status}."),
        words => format!("The provider answered {status}: {words}"),
    };
    match is_transient(status, headers, &said) {
        true => ModelFault::transient(&message, retry_after::read(headers, jiff::Timestamp::now())),
        false => ModelFault::permanent(&message),
    }
}

/// Converts an error that the provider sent in mid-stream, after a status of 200.
fn of_event(body: &Value) -> ModelFault {
    let message = match words(body) {
        words if words.is_empty() => "The provider aborted the reply without a reason.".to_owned(),
        words => format!("The provider aborted the reply: {words}"),
    };
    match is_refusal(body) {
        true => ModelFault::permanent(&message),
        false => ModelFault::transient(&message, None),
    }
}

/// Returns whether the same request may succeed later. The provider's own statement is decisive.
fn is_transient(status: StatusCode, headers: &HeaderMap, said: &Value) -> bool {
    match headers.get("x-should-retry").map(reqwest::header::HeaderValue::as_bytes) {
        Some(b"true") => return true,
        Some(b"false") => return false,
        _ => {}
    }
    let is_quota_spent = code(said).is_some_and(|code| code == "insufficient_quota");
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => true,
        StatusCode::TOO_MANY_REQUESTS => !is_quota_spent,
        StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => false,
        status => status.is_server_error(),
    }
}

/// Returns whether an error in mid-stream is a refusal, by its status or the words of its code. All
/// others, such as an overload, may pass.
fn is_refusal(said: &Value) -> bool {
    let status = inner(said).get("code").and_then(Value::as_u64).unwrap_or(0);
    let refuses = matches!(status, 400..=407 | 409..=428 | 430..=499);
    refuses
        || code(said).is_some_and(|code| {
            ["invalid", "authentication", "permission", "not_found", "quota", "billing", "unsupported"]
                .iter()
                .any(|word| code.to_ascii_lowercase().contains(word))
        })
}

/// Returns the machine-readable error: a code, or else a type.
fn code(said: &Value) -> Option<&str> {
    let error = inner(said);
    let word = |key| error.get(key).and_then(Value::as_str);
    word("code").or_else(|| word("type")).or_else(|| word("status"))
}

/// Returns the human-readable message, wherever this provider puts it.
fn words(said: &Value) -> String {
    let error = inner(said);
    let sentence = ["message", "detail", "error"]
        .iter()
        .find_map(|key| error.get(key).and_then(Value::as_str))
        .or_else(|| error.as_str());
    match sentence {
        Some(sentence) => sentence.to_owned(),
        None if error.is_null() => String::new(),
        None => error.to_string(),
    }
}

/// Unwraps `{"error": {...}}`, `[{"error": {...}}]` and the bare error.
fn inner(said: &Value) -> &Value {
    let said = said.get(0).unwrap_or(said);
    match said.get("error") {
        Some(inner @ Value::Object(_)) => inner,
        _ => said,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::FaultKind;
    use serde_json::json;

    fn response(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> ModelFault {
        let headers =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        of_response(StatusCode::from_u16(status).unwrap(), &headers, body)
    }

    fn is_transient(fault: &ModelFault) -> bool {
        matches!(fault.kind(), FaultKind::Transient { .. })
    }

    #[test]
    fn a6_the_providers_words_are_found_wherever_they_stand() {
        let said = |body: &str| response(400, &[], body).message().to_owned();
        let expected = "The provider answered 400 Bad Request: no";
        for body in [
            r#"{"error":{"message":"no","type":"x"}}"#,
            r#"{"type":"error","error":{"type":"x","message":"no"}}"#,
            r#"[{"error":{"code":400,"message":"no"}}]"#,
            r#"{"error":"no"}"#,
            r#"{"message":"no"}"#,
            r#"{"detail":"no"}"#,
            "\"no\"",
            " no\n",
        ] {
            assert_eq!(said(body), expected, "{body}");
        }
        assert_eq!(said(""), "The provider answered 400 Bad Request.");
    }

    #[test]
    fn z3_a_long_explanation_is_shown_and_not_parsed() {
        let body =
            |values: usize| format!(r#"{{"error":{{"message":"no"}},"x":[{}0]}}"#, "0,".repeat(values));
        assert!(response(400, &[], &body(1_000)).message().ends_with(": no"));
        let long = response(400, &[], &body(100_000));
        assert!(long.message().contains(r#"{"error":{"message":"no"}"#), "{}", long.message());
    }

    #[test]
    fn a6_what_may_pass_is_told_from_what_stays() {
        for status in [408, 429, 500, 502, 503, 504, 529] {
            assert!(is_transient(&response(status, &[], "")), "{status}");
        }
        for status in [307, 400, 401, 403, 404, 413, 422, 501] {
            assert!(!is_transient(&response(status, &[], "")), "{status}");
        }
        assert!(!is_transient(&response(429, &[], r#"{"error":{"code":"insufficient_quota"}}"#)));
        assert!(!is_transient(&response(500, &[("x-should-retry", "false")], "")));
        assert!(is_transient(&response(409, &[("x-should-retry", "true")], "")));
    }

    #[test]
    fn a6_errors_in_mid_stream_are_judged_by_their_code() {
        let overloaded =
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        let refused = json!({"message": "too long", "type": "invalid_request_error", "code": null});
        let numbered = json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "later"}});
        assert!(is_transient(&of_event(&overloaded)) && is_transient(&of_event(&numbered)));
        assert!(!is_transient(&of_event(&refused)));
        assert_eq!(of_event(&overloaded).message(), "The provider aborted the reply: Overloaded");
        assert!(!is_transient(&of_event(&json!({"code": 400, "message": "no"}))));
    }
}
