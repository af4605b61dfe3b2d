//! Header rules: which fields a guest may not set, which are sent, and which response fields are
//! passed on.

use super::HttpGrant;
use crate::ledger::Ledger;
use crate::meter::Boundary;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::body::Incoming;
use tollgate_agent::egress::Target;
use wasmtime_wasi_http::Error;

/// The maximum size in bytes of a response head, and of one read of its body.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Returns whether a guest may not set this header. Forbidden headers carry credentials, describe
/// message framing, control the connection, or make servers act on a different request than the
/// one that was judged.
pub(crate) fn is_forbidden(name: &HeaderName) -> bool {
    frames(name)
        || [&AUTHORIZATION, &COOKIE].contains(&name)
        || is_forbidden_as_folded(name)
        || redirects(name)
}

/// Returns whether a header is hop-by-hop.
pub(crate) fn frames(name: &HeaderName) -> bool {
    const OTHERS: [&str; 4] = ["keep-alive", "proxy-connection", "http2-settings", "alt-used"];
    [
        CONNECTION,
        EXPECT,
        HOST,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ]
    .contains(name)
        || OTHERS.contains(&name.as_str())
}

/// Servers that map headers to variables treat `_` and `-` alike.
fn is_forbidden_as_folded(name: &HeaderName) -> bool {
    let folded = name.as_str().replace('_', "-");
    let same = folded == name.as_str();
    let other = HeaderName::from_bytes(folded.as_bytes()).ok().filter(|_| !same);
    other.is_some_and(|name| frames(&name) || [AUTHORIZATION, COOKIE, CONTENT_LENGTH].contains(&name))
}

/// Returns whether servers or proxies may treat the header as the request's method, path or host:
/// `X-HTTP-Method-Override` and similar.
fn redirects(name: &HeaderName) -> bool {
    let plain: String = name.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    // CORS preflight headers name a method without changing the request's own.
    let names_method = plain.contains("method") && !plain.starts_with("accesscontrol");
    let names_verb = plain.contains("httpverb") || plain.contains("verboverride");
    let names_place = ["original", "rewrite", "override"].iter().any(|word| plain.contains(word))
        && ["url", "uri", "path", "host"].iter().any(|word| plain.contains(word));
    names_method || names_verb || names_place
}

/// Returns whether the header requests a part of the response.
fn chooses_part(name: &HeaderName) -> bool {
    let plain: String = name.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    ["range", "ifrange", "requestrange", "xrange", "xrequestrange"].contains(&plain.as_str())
}

/// Returns the headers to send, and whether a secret is among them. The length is that of the
/// actual body.
pub(super) fn to_send(
    grant: &HttpGrant,
    target: &Target,
    of_guest: HeaderMap,
) -> Result<(HeaderMap, bool), Error> {
    let mut headers = of_guest;
    remove(&mut headers, |name| is_forbidden(name) || *name == CONTENT_LENGTH);
    let host = HeaderValue::from_str(&target.authority()).map_err(|_| Error::HttpRequestUriInvalid)?;
    headers.insert(HOST, host);
    let joined = grant.secrets.iter().filter(|secret| secret.join(target, &mut headers)).count();
    if joined > 0 {
        // Secrets cannot be redacted in compressed or partial responses.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        remove(&mut headers, chooses_part);
    }
    Ok((headers, joined > 0))
}

fn remove(headers: &mut HeaderMap, unwanted: impl Fn(&HeaderName) -> bool) {
    let unwanted: Vec<HeaderName> = headers.keys().filter(|name| unwanted(name)).cloned().collect();
    for name in unwanted {
        headers.remove(name);
    }
}

/// Returns whether a response holds only a part of the resource.
fn is_partial(response: &http::Response<Incoming>) -> bool {
    let mut types = response.headers().get_all(CONTENT_TYPE).iter();
    response.status() == http::StatusCode::PARTIAL_CONTENT
        || response.headers().contains_key(CONTENT_RANGE)
        || types
            .any(|kind| kind.as_bytes().to_ascii_lowercase().windows(10).any(|part| part == b"byteranges"))
}

/// Limits and redacts the head of a response.
pub(super) fn check_response(
    mut response: http::Response<Incoming>,
    grant: &HttpGrant,
    boundary: &Boundary,
    secret: Option<(&Target, &Ledger)>,
) -> Result<http::Response<Incoming>, Error> {
    if response.status() == http::StatusCode::SWITCHING_PROTOCOLS {
        return Err(Error::HttpUpgradeFailed);
    }
    let is_coded_but = |header: &HeaderName, plain: &[u8]| {
        response.headers().get_all(header).iter().any(|coding| !coding.as_bytes().eq_ignore_ascii_case(plain))
    };
    if let Some((target, ledger)) = secret {
        if is_coded_but(&CONTENT_ENCODING, b"identity") {
            return Err(Error::HttpResponseContentCoding(None));
        }
        if is_partial(&response) {
            ledger.deny(&format!(
                "http {target}: the request carried a secret, so the partial response is rejected"
            ));
            return Err(Error::HttpProtocolError);
        }
    }
    // Compressed transfer encodings cannot be redacted either, and were not requested.
    if is_coded_but(&TRANSFER_ENCODING, b"chunked") {
        return Err(Error::HttpResponseTransferCoding(None));
    }
    let size: usize = response.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if size > MAX_HEAD_BYTES || boundary.enter(size as u64).is_err() {
        return Err(Error::HttpResponseHeaderSectionSize(None));
    }
    let redactor = grant.redactor();
    if !redactor.is_empty() {
        let headers = std::mem::take(response.headers_mut());
        let mut name = None;
        for (next, value) in headers {
            name = next.or(name);
            let Some(name) = name.as_ref().filter(|name| redactor.text(name.as_str()) == name.as_str())
            else {
                continue;
            };
            if let Ok(value) = HeaderValue::from_bytes(&redactor.bytes(value.as_bytes())) {
                response.headers_mut().append(name, value);
            }
        }
    }
    Ok(response)
}

/// Returns the body length that the server announced.
pub(super) fn announced(response: &http::Response<Incoming>) -> Option<u64> {
    response.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn z13_no_header_changes_the_request_that_was_judged() {
        for name in [
            "x-http-method-override",
            "X-HTTP-Method",
            "X-Method-Override",
            "x_http_method_override",
            "x-method",
            "x-forwarded-method",
            "x-original-method",
            "x-http-verb-override",
            "x-original-url",
            "x-rewrite-url",
            "x-original-host",
            "content_length",
            "transfer_encoding",
        ] {
            assert!(is_forbidden(&name.parse().unwrap()), "{name}");
        }
        for name in [
            "accept",
            "content-length",
            "content-type",
            "access-control-request-method",
            "x-request-id",
            "range",
            "x-verbose",
            "x-original-language",
        ] {
            assert!(!is_forbidden(&name.parse().unwrap()), "{name}");
        }
    }
}
