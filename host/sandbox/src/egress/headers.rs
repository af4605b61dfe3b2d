//! Header fields: which of them a guest may not write, what is sent, and what of a
//! response's head is passed on.

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

/// Bytes of a response's head, and of what is read of its body at once.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Whether a guest may not set this header: those that carry credentials, that say how a
/// message is framed or what becomes of the connection, and those by which servers act on
/// another request than the one that was judged.
pub(crate) fn is_forbidden(name: &HeaderName) -> bool {
    frames(name)
        || [&AUTHORIZATION, &COOKIE].contains(&name)
        || is_forbidden_as_folded(name)
        || redirects(name)
}

/// Whether a header is between the two ends of a connection.
pub(super) fn frames(name: &HeaderName) -> bool {
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

/// Servers that keep headers in variables take `_` for `-`.
fn is_forbidden_as_folded(name: &HeaderName) -> bool {
    let folded = name.as_str().replace('_', "-");
    let same = folded == name.as_str();
    let other = HeaderName::from_bytes(folded.as_bytes()).ok().filter(|_| !same);
    other.is_some_and(|name| frames(&name) || [AUTHORIZATION, COOKIE, CONTENT_LENGTH].contains(&name))
}

/// Whether servers or the proxies before them may take the header's value for the
/// request's method, path or host: `X-HTTP-Method-Override` and its relatives.
fn redirects(name: &HeaderName) -> bool {
    let plain: String = name.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    // Those that ask for leave of another origin name a method and do not use it.
    let names_method = plain.contains("method") && !plain.starts_with("accesscontrol");
    let names_verb = plain.contains("httpverb") || plain.contains("verboverride");
    let names_place = ["original", "rewrite", "override"].iter().any(|word| plain.contains(word))
        && ["url", "uri", "path", "host"].iter().any(|word| plain.contains(word));
    names_method || names_verb || names_place
}

/// Whether the header chooses a part of the response.
fn chooses_part(name: &HeaderName) -> bool {
    let plain: String = name.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    ["range", "ifrange", "requestrange", "xrange", "xrequestrange"].contains(&plain.as_str())
}

/// The headers that are sent, and whether a secret is among them. The length is the body's
/// own.
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
        // What is compressed or cut could not be blanked.
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

/// Whether a response holds only a part of what was asked for.
fn is_partial(response: &http::Response<Incoming>) -> bool {
    let mut types = response.headers().get_all(CONTENT_TYPE).iter();
    response.status() == http::StatusCode::PARTIAL_CONTENT
        || response.headers().contains_key(CONTENT_RANGE)
        || types
            .any(|kind| kind.as_bytes().to_ascii_lowercase().windows(10).any(|part| part == b"byteranges"))
}

/// Bounds and blanks the head of a response.
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
                "http {target}: a secret joined the request, and a partial response is not read"
            ));
            return Err(Error::HttpProtocolError);
        }
    }
    // What is compressed on the way could not be blanked either, and nobody asked for it.
    if is_coded_but(&TRANSFER_ENCODING, b"chunked") {
        return Err(Error::HttpResponseTransferCoding(None));
    }
    let size: usize = response.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if size > MAX_HEAD_BYTES || boundary.enter(size as u64).is_err() {
        return Err(Error::HttpResponseHeaderSectionSize(None));
    }
    let blanks = grant.blanks();
    if !blanks.is_empty() {
        let headers = std::mem::take(response.headers_mut());
        let mut name = None;
        for (next, value) in headers {
            name = next.or(name);
            let Some(name) = name.as_ref().filter(|name| blanks.text(name.as_str()) == name.as_str()) else {
                continue;
            };
            if let Ok(value) = HeaderValue::from_bytes(&blanks.bytes(value.as_bytes())) {
                response.headers_mut().append(name, value);
            }
        }
    }
    Ok(response)
}

/// The length of the body, as the server announces it.
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
