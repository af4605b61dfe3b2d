//! Bodies of requests, which are bounded in size, depth and time.

use crate::load::ClientShare;
use crate::problem::Problem;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use futures::StreamExt as _;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::time::Duration;
use tollgate_mcp::{HTTP_PATH, RequestPermit, SharedMemory};

/// The maximum length of a body, in bytes.
pub const MAX_BODY_BYTES: usize = 4 << 20;
/// How long a body may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);

/// A JSON body, with the text from which it was read.
#[derive(Debug, Clone)]
pub struct JsonBody<T> {
    /// The value.
    pub value: T,
    /// The body as it was sent.
    pub sent: Bytes,
}

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let is_json = is_json(&parts.headers);
        let mut sent = arrived_body(parts);
        if sent.is_empty() {
            // A request without a body has no members to send.
            sent = Bytes::from_static(b"{}");
        } else if !is_json {
            let detail = "the body is not JSON; send it with Content-Type: application/json";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail));
        }
        if !sent.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(&sent).is_ok() {
            return Err(Problem::unprocessable("the body is not an object; send one"));
        }
        let value = serde_json::from_slice(&sent).map_err(|e| {
            let shown = tollgate_agent::text::clean(&e.to_string(), 300);
            if e.is_data() {
                return Problem::unprocessable(format!("the body does not have the expected form: {shown}"));
            }
            Problem::bad_request(format!("the body is not valid JSON: {shown}"))
        })?;
        Ok(Self { value, sent })
    }
}

/// A JSON body as it was sent, for protocols that read it themselves.
#[derive(Debug, Clone)]
pub(crate) struct SentBody(pub(crate) Bytes);

impl<S: Sync> FromRequestParts<S> for SentBody {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let is_json = is_json(&parts.headers);
        let sent = arrived_body(parts);
        if is_json || sent.is_empty() {
            return Ok(Self(sent));
        }
        let detail = "the body is not JSON; send it with Content-Type: application/json";
        Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail))
    }
}

/// The body of a request that has arrived.
#[derive(Debug, Clone)]
struct ArrivedBody(Bytes);

/// Returns the body of a request that has [arrived]; empty if it has none.
fn arrived_body(parts: &Parts) -> Bytes {
    parts.extensions.get::<ArrivedBody>().map(|ArrivedBody(bytes)| bytes.clone()).unwrap_or_default()
}

/// Reads a whole body of at most this many bytes, of a client without a principal.
///
/// # Errors
/// The body is longer, is cut off or too slow.
pub(crate) async fn read_short(request: Request, max_bytes: usize) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    Ok(read_body(&parts.headers, body, None, max_bytes).await?.0)
}

/// Reads a whole body before its request is handled, within the limits of its principal, and
/// reserves the memory of its parsed form, which is returned beside the request.
///
/// # Errors
/// The body is longer than [`MAX_BODY_BYTES`], is cut off or too slow, the principal has too many
/// bytes in flight or in memory, or the host has no memory for it.
pub(crate) async fn read_whole(
    request: Request,
    share: &ClientShare,
) -> Result<(Request, Option<SharedMemory>), Problem> {
    let (mut parts, body) = request.into_parts();
    if body.is_end_stream() {
        return Ok((Request::from_parts(parts, body), None));
    }
    let (bytes, claimed) = read_body(&parts.headers, body, Some(share.clone()), MAX_BODY_BYTES).await?;
    // The Model Context Protocol weighs its messages itself, because it parses them in another way.
    let memory = match parts.uri.path() {
        HTTP_PATH => None,
        _ => share.weigh(&bytes).await?,
    };
    // Afterwards the parsed request is in the memory of its run.
    drop(claimed);
    parts.extensions.insert(ArrivedBody(bytes.clone()));
    Ok((Request::from_parts(parts, bytes.into()), memory))
}

/// Reads a whole body. Returns it with its share of the bytes in flight, if it has a principal.
async fn read_body(
    headers: &HeaderMap,
    body: Body,
    share: Option<ClientShare>,
    max_bytes: usize,
) -> Result<(Bytes, Option<RequestPermit>), Problem> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let declared: Option<usize> = declared.and_then(|length| length.parse().ok());
    let too_large = || {
        let detail = format!("the body is longer than {max_bytes} bytes; send less");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    if declared.is_some_and(|length| length > max_bytes) {
        return Err(too_large());
    }
    let claimed = share.map(|share| share.claim_bytes(declared.unwrap_or(max_bytes))).transpose()?;
    let (mut chunks, mut bytes) = (body.into_data_stream(), Vec::new());
    let all = async {
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| Problem::bad_request("the body was cut off"))?;
            if bytes.len() + chunk.len() > max_bytes {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(())
    };
    match tokio::time::timeout(ARRIVAL, all).await {
        Ok(read) => read?,
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", ARRIVAL.as_secs());
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", detail));
        }
    }
    if let Some(claimed) = &claimed {
        claimed.shrink(bytes.len());
    }
    Ok((bytes.into(), claimed))
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json") || kind.eq_ignore_ascii_case("application/a2a+json")
}
