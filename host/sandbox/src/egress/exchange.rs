//! One request and its response, over a connection of its own.

use super::body::Bounded;
use super::{HttpGrant, Patience};
use crate::ledger::Ledger;
use crate::meter::Boundary;
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, COOKIE, EXPECT, HOST,
    HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use std::sync::Arc;
use tollgate_agent::egress::Target;
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, spawn};
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{Error, WasiBody};

/// Header fields of a response; one with more is refused.
const MAX_HEADERS: usize = 128;
/// Bytes of a response's head, and of what is read of its body at once.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// A request that was let through, with what it takes to send it.
pub(crate) struct Exchange {
    pub(super) grant: Arc<HttpGrant>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) boundary: Boundary,
    pub(super) body_bytes: u64,
    pub(super) patience: Patience,
    pub(super) target: Target,
    pub(super) request: http::Request<WasiBody>,
}

/// What goes on beside a response: the connection that its body comes from.
type Connection = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// Whether a guest may not set this header: those that carry credentials, and those
/// that say how a message is framed or what becomes of the connection.
pub(crate) fn is_forbidden(name: &HeaderName) -> bool {
    frames(name) || [&AUTHORIZATION, &COOKIE].contains(&name)
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

impl Exchange {
    /// Sends the request and waits for the head of its response.
    pub(crate) async fn run(self) -> Result<(http::Response<WasiBody>, Connection), Error> {
        let Self { grant, ledger, boundary, body_bytes, patience, target, request } = self;
        let (head, body) = request.into_parts();
        // The body is taken whole before anything is sent, so that what is announced
        // is what follows.
        let body = collect(body, body_bytes).await?;
        let (headers, has_secret) = headers(&grant, &target, head.headers)?;
        let mut sent = http::Request::new(Full::new(body));
        *sent.method_mut() = head.method;
        *sent.uri_mut() = target.path_and_query().parse().map_err(|_| Error::HttpRequestUriInvalid)?;
        *sent.headers_mut() = headers;

        let stream = grant.connect(&target, &ledger, patience.connect).await?;
        let mut http = http1::Builder::new();
        http.max_headers(MAX_HEADERS).max_buf_size(MAX_HEAD_BYTES);
        let (mut sender, connection) = http.handshake(TokioIo::new(stream)).await.map_err(|e| broken(&e))?;
        let connection: AbortOnDropJoinHandle<_> = spawn(connection);
        let response = tokio::time::timeout(patience.first_byte, sender.send_request(sent))
            .await
            .map_err(|_| Error::ConnectionReadTimeout)?
            .map_err(|e| broken(&e))?;

        let response = check_head(response, &grant, &boundary, has_secret)?;
        if announced(&response).is_some_and(|bytes| bytes > body_bytes) {
            return Err(Error::HttpResponseBodySize(Some(body_bytes)));
        }
        let stream = grant.blanks().stream();
        let response = response.map(|incoming| {
            Bounded::new(incoming, stream, boundary, body_bytes, patience.between_bytes).boxed_unsync()
        });
        Ok((response, Box::new(async move { connection.await.map_err(|e| broken(&e)) })))
    }
}

async fn collect(body: WasiBody, limit: u64) -> Result<Bytes, Error> {
    let bytes = usize::try_from(limit).unwrap_or(usize::MAX);
    match Limited::new(body, bytes).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(why) if why.is::<LengthLimitError>() => Err(Error::HttpRequestBodySize(Some(limit))),
        Err(why) => match why.downcast::<Error>() {
            Ok(why) => Err(*why),
            Err(_) => Err(Error::HttpProtocolError),
        },
    }
}

/// The headers that are sent, and whether a secret is among them.
fn headers(grant: &HttpGrant, target: &Target, of_guest: HeaderMap) -> Result<(HeaderMap, bool), Error> {
    let mut headers = of_guest;
    let unwanted: Vec<HeaderName> =
        headers.keys().filter(|name| is_forbidden(name) || **name == CONTENT_LENGTH).cloned().collect();
    for name in unwanted {
        headers.remove(name);
    }
    let host = HeaderValue::from_str(&target.authority()).map_err(|_| Error::HttpRequestUriInvalid)?;
    headers.insert(HOST, host);
    let joined = grant.secrets.iter().filter(|secret| secret.join(target, &mut headers)).count();
    if joined > 0 {
        // What is compressed could not be blanked.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    Ok((headers, joined > 0))
}

/// Bounds and blanks the head of a response.
fn check_head(
    mut response: http::Response<Incoming>,
    grant: &HttpGrant,
    boundary: &Boundary,
    has_secret: bool,
) -> Result<http::Response<Incoming>, Error> {
    if response.status() == http::StatusCode::SWITCHING_PROTOCOLS {
        return Err(Error::HttpUpgradeFailed);
    }
    let is_coded_but = |header: &HeaderName, plain: &[u8]| {
        response.headers().get_all(header).iter().any(|coding| !coding.as_bytes().eq_ignore_ascii_case(plain))
    };
    if has_secret && is_coded_but(&CONTENT_ENCODING, b"identity") {
        return Err(Error::HttpResponseContentCoding(None));
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

fn announced(response: &http::Response<Incoming>) -> Option<u64> {
    response.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// What hyper says of a connection, in the words of `wasi:http`.
pub(super) fn broken(why: &hyper::Error) -> Error {
    if why.is_parse_too_large() {
        Error::HttpResponseHeaderSectionSize(None)
    } else if why.is_incomplete_message() || why.is_closed() {
        Error::HttpResponseIncomplete
    } else if why.is_timeout() {
        Error::HttpResponseTimeout
    } else {
        Error::HttpProtocolError
    }
}
