//! `tollgate:tool/http-client`: requests without handles. Each is judged and sent by
//! [`egress`](crate::egress), as those of `wasi:http` are.

use crate::admission::Charge;
use crate::admission::Slot;
use crate::charge::{PassedSize, charge, leave};
use crate::egress::{Exchange, HttpAnswer, frames, is_forbidden};
use crate::instance::{GuestStore, Instance};
use crate::meter::Stop;
use crate::v0_1_0::{self, http_client as wit};
use bytes::Bytes;
use futures::future::{Either, join_all};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http_body_util::{BodyExt as _, Full};
use std::sync::Arc;
use std::time::Duration;
use tollgate_agent::text::clean;
use wasmtime::component::{ComponentType, Lift, Linker, WasmList, WasmStr};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

/// The host's memory for a request or a response in addition to its texts, in bytes; the same
/// for each header field, which has two texts.
const EACH_BYTES: usize = 128;
/// The longest part of a URL that an error quotes, in bytes.
const MAX_SHOWN_BYTES: usize = 200;
/// The most headers of one request.
const MAX_HEADERS: usize = 1_024;
/// The most bytes of the names and values of these headers.
const MAX_HEADERS_BYTES: usize = 64 * 1024;
/// The longest method, in bytes.
const MAX_METHOD_BYTES: usize = 32;

type HttpResult = Result<wit::Response, wit::Error>;

/// A request that still lies in the guest's memory.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct GuestRequest {
    method: WasmStr,
    url: WasmStr,
    headers: WasmList<GuestHeader>,
    body: WasmList<u8>,
    #[component(name = "timeout-ms")]
    timeout_ms: Option<u32>,
    #[component(name = "max-body-bytes")]
    max_body_bytes: Option<u32>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct GuestHeader {
    name: WasmStr,
    value: WasmStr,
}

impl GuestRequest {
    /// Charges the request, and adds its size, before any of it is copied.
    fn measure(&self, store: &mut GuestStore<'_>, size: &mut PassedSize) -> wasmtime::Result<()> {
        size.add(store, &self.method)?;
        if self.has_too_many_headers() {
            return Ok(());
        }
        size.add(store, &self.url)?;
        size.add_bytes(store, self.body.len())?;
        for at in 0..self.headers.len() {
            if let Some(header) = self.headers.get(&mut *store, at).transpose()? {
                size.add(store, &header.name)?;
                size.add(store, &header.value)?;
            }
        }
        Ok(())
    }

    fn has_too_many_headers(&self) -> bool {
        self.headers.len() > MAX_HEADERS
    }

    /// Copies the request. It must have been [measured](Self::measure) and its memory reserved.
    ///
    /// # Errors
    /// It has too many headers.
    fn lift(&self, store: &mut GuestStore<'_>) -> wasmtime::Result<Result<wit::Request, wit::Error>> {
        if self.has_too_many_headers() {
            let message = format!("A request has at most {MAX_HEADERS} headers, not {}.", self.headers.len());
            return Ok(Err(bad_request(message)));
        }
        let mut headers = Vec::with_capacity(self.headers.len());
        for at in 0..self.headers.len() {
            if let Some(header) = self.headers.get(&mut *store, at).transpose()? {
                let name = header.name.to_str(&*store)?.into_owned();
                headers.push(wit::Header { name, value: header.value.to_str(&*store)?.into_owned() });
            }
        }
        Ok(Ok(wit::Request {
            method: self.method.to_str(&*store)?.into_owned(),
            url: self.url.to_str(&*store)?.into_owned(),
            headers,
            body: self.body.as_le_slice(&*store).to_vec(),
            timeout_ms: self.timeout_ms,
            max_body_bytes: self.max_body_bytes,
        }))
    }
}

pub(crate) fn add(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    let mut client = linker.instance(&format!("tollgate:tool/http-client@{}", v0_1_0::VERSION))?;
    client.func_wrap_async("send", |store, (requests,): (WasmList<GuestRequest>,)| {
        Box::new(async move { Ok((send(store, requests).await?,)) })
    })
}

async fn send(mut store: GuestStore<'_>, given: WasmList<GuestRequest>) -> wasmtime::Result<Vec<HttpResult>> {
    // No call sends more than its limit, so the others are neither read nor judged.
    let surplus = given.len().saturating_sub(store.data().http_requests() as usize);
    let judged = given.len() - surplus;
    leave(&mut store, given.len() * EACH_BYTES)?;
    let mut size = PassedSize::new(EACH_BYTES / 2);
    for at in 0..judged {
        if let Some(request) = given.get(&mut store, at).transpose()? {
            request.measure(&mut store, &mut size)?;
        }
    }
    let slot = store.data().serves.as_ref().map(|serves| Arc::clone(&serves.slot));
    let _requests =
        slot.as_ref().map(|slot| slot.charge_while(size.bytes())).transpose().map_err(Stop::from)?;
    let most_bytes = store.data().crossing_bytes();
    let mut exchanges = Vec::with_capacity(judged);
    for at in 0..judged {
        let Some(request) = given.get(&mut store, at).transpose()? else { continue };
        let request = request.lift(&mut store)?;
        let admitted = request.and_then(|request| admit(store.data_mut(), request, most_bytes));
        exchanges.push(admitted.map(Box::new));
    }
    if surplus > 0 {
        let limit = store.data().http_requests();
        let what = format!(
            "http: {judged} of {} requests at once; the limit is http_requests = {limit}",
            judged + surplus
        );
        store.data().boundary.ledger().deny(&what);
    }
    let mut answers = join_all(exchanges.into_iter().map(|admitted| match admitted {
        Ok(admitted) => Either::Left(Box::pin(admitted.run(slot.as_ref()))),
        Err(refused) => Either::Right(std::future::ready(Err(refused))),
    }))
    .await;
    let too_many = || explain(&Error::ConnectionLimitReached, "");
    let refused_bytes = surplus * (EACH_BYTES + too_many().message.len());
    if refused_bytes as u64 > most_bytes {
        return Err(Stop::Crossing.into());
    }
    answers.extend((0..surplus).map(|_| Err(too_many())));
    let (answers, _charges): (Vec<HttpResult>, Vec<_>) = answers
        .into_iter()
        .map(|answer| match answer {
            Ok((response, charges)) => (Ok(response), charges),
            Err(error) => (Err(error), Vec::new()),
        })
        .unzip();
    // The bytes of bodies and headers were counted as they arrived.
    let bytes: usize = answers.iter().map(size_of_answer).sum();
    if bytes as u64 > most_bytes {
        return Err(Stop::Crossing.into());
    }
    charge(&mut store, bytes)?;
    Ok(answers)
}

fn size_of_answer(answer: &HttpResult) -> usize {
    EACH_BYTES
        + match answer {
            Ok(response) => size_of_headers(&response.headers) + response.body.len(),
            Err(error) => error.message.len(),
        }
}

fn size_of_headers(headers: &[wit::Header]) -> usize {
    headers.iter().map(|header| EACH_BYTES + header.name.len() + header.value.len()).sum()
}

/// A request that may be sent, and the limits of its response.
struct AdmittedRequest {
    exchange: Exchange,
    /// Scheme and host, for errors.
    origin: String,
    timeout: Option<Duration>,
    most_bytes: u64,
}

fn admit(
    instance: &mut Instance,
    request: wit::Request,
    most_bytes: u64,
) -> Result<AdmittedRequest, wit::Error> {
    let timeout = request.timeout_ms.map(|ms| Duration::from_millis(ms.into()));
    let most_bytes = request.max_body_bytes.map_or(most_bytes, |most| most_bytes.min(most.into()));
    let options = RequestOptions {
        connect_timeout: timeout,
        first_byte_timeout: timeout,
        between_bytes_timeout: timeout,
    };
    let request = read(request)?;
    let origin = origin_of(request.uri());
    let admitted = instance.egress().admit(request, Some(options));
    match admitted {
        Ok(exchange) => Ok(AdmittedRequest { exchange, origin, timeout, most_bytes }),
        Err(why) => Err(explain(&why, &origin)),
    }
}

/// Reads a guest's request.
///
/// # Errors
/// Its method, URL or a header is malformed.
fn read(request: wit::Request) -> Result<http::Request<WasiBody>, wit::Error> {
    let uri: http::Uri = request.url.parse().map_err(|_| bad_url(&request.url))?;
    if uri.host().is_none_or(str::is_empty) || !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(bad_url(&request.url));
    }
    let name = Some(&request.method).filter(|name| name.len() <= MAX_METHOD_BYTES);
    let method = name
        .and_then(|name| http::Method::from_bytes(name.as_bytes()).ok())
        .ok_or_else(|| bad_request(format!("\"{}\" is not an HTTP method.", shown(&request.method))))?;
    let bytes: usize = request.headers.iter().map(|header| header.name.len() + header.value.len()).sum();
    if bytes > MAX_HEADERS_BYTES {
        let message =
            format!("The headers of a request have at most {MAX_HEADERS_BYTES} bytes, not {bytes}.");
        return Err(bad_request(message));
    }
    let mut headers = HeaderMap::new();
    for header in &request.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_bytes(header.value.as_bytes());
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(bad_request(format!("The header \"{}\" is malformed.", shown(&header.name))));
        };
        if frames(&name) {
            continue;
        }
        if is_forbidden(&name) {
            let message =
                format!("The header \"{name}\" may not be set by a tool: the host adds credentials.");
            return Err(wit::Error { kind: wit::ErrorKind::Denied, message });
        }
        headers.append(name, value);
    }
    headers.insert(CONTENT_LENGTH, request.body.len().into());
    let body = Full::new(Bytes::from(request.body)).map_err(|never| match never {}).boxed_unsync();
    let mut read = http::Request::new(body);
    (*read.method_mut(), *read.uri_mut(), *read.headers_mut()) = (method, uri, headers);
    Ok(read)
}

fn origin_of(uri: &http::Uri) -> String {
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    // Credentials precede an `@`.
    let host = authority.rsplit('@').next().unwrap_or_default();
    shown(&format!("{}://{host}", uri.scheme_str().unwrap_or_default()))
}

fn shown(text: &str) -> String {
    clean(text, MAX_SHOWN_BYTES)
}

impl AdmittedRequest {
    async fn run(self, slot: Option<&Arc<Slot>>) -> Result<(wit::Response, Vec<Charge>), wit::Error> {
        let Self { exchange, origin, timeout, most_bytes } = self;
        let answer = exchange.collect(most_bytes, slot);
        let answer = match timeout {
            Some(timeout) => {
                tokio::time::timeout(timeout, answer).await.unwrap_or(Err(Error::HttpResponseTimeout))
            }
            None => answer.await,
        };
        let HttpAnswer { head, body, truncated, charges } = answer.map_err(|why| explain(&why, &origin))?;
        let header = |(name, value): (&HeaderName, &HeaderValue)| wit::Header {
            name: name.as_str().to_owned(),
            value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
        };
        let headers = head.headers.iter().map(header).collect();
        Ok((wit::Response { status: head.status.as_u16(), headers, body: body.into(), truncated }, charges))
    }
}

fn bad_url(url: &str) -> wit::Error {
    bad_request(format!("\"{}\" is not an http or https URL.", shown(url)))
}

fn bad_request(message: String) -> wit::Error {
    wit::Error { kind: wit::ErrorKind::BadRequest, message }
}

/// Explains a failed request to the model.
fn explain(why: &Error, origin: &str) -> wit::Error {
    use wit::ErrorKind::{BadRequest, BadResponse, Denied, TimedOut, TooLarge, Unreachable};
    let unreachable = |why: &str| (Unreachable, format!("{origin} cannot be reached: {why}."));
    let (kind, message) = match why {
        Error::HttpRequestDenied | Error::DestinationIpProhibited => {
            (Denied, format!("The host does not allow this request to {origin}. An operator can grant it."))
        }
        Error::ConnectionLimitReached => {
            (Denied, "This call may not send more requests, or the host has too many connections.".to_owned())
        }
        Error::HttpRequestUriInvalid | Error::HttpRequestUriTooLong | Error::HttpRequestMethodInvalid => {
            (BadRequest, format!("The URL of {origin} or the method is not in its usual form."))
        }
        Error::DnsTimeout
        | Error::ConnectionTimeout
        | Error::ConnectionReadTimeout
        | Error::ConnectionWriteTimeout
        | Error::HttpResponseTimeout => (TimedOut, format!("{origin} does not answer in time.")),
        Error::HttpRequestBodySize(_) => {
            (TooLarge, "The request's body is larger than the host allows.".to_owned())
        }
        Error::HttpResponseBodySize(_) => {
            (TooLarge, format!("The answer of {origin} is larger than the host allows."))
        }
        Error::DnsError { .. } | Error::DestinationNotFound => unreachable("its name is not known"),
        Error::ConnectionRefused => unreachable("it refuses connections"),
        Error::TlsProtocolError
        | Error::TlsCertificateError
        | Error::TlsAlertReceived { .. }
        | Error::Tls(_) => unreachable("its TLS certificate or protocol is not acceptable"),
        Error::HttpResponseIncomplete => unreachable("the connection broke off"),
        Error::DestinationUnavailable
        | Error::DestinationIpUnroutable
        | Error::ConnectionTerminated
        | Error::Connect(_) => unreachable("the connection failed"),
        _ => (BadResponse, format!("{origin} does not answer in acceptable HTTP.")),
    };
    wit::Error { kind, message }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Each part of a request is copied several times until it is sent.
    #[test]
    fn z3_long_methods_and_headers_are_refused_before_they_are_copied_again() {
        let problem = |method: &str, value_bytes: usize| {
            let header = wit::Header { name: "x".to_owned(), value: "v".repeat(value_bytes) };
            let request = wit::Request {
                method: method.to_owned(),
                url: "http://example.com/".to_owned(),
                headers: vec![header.clone(), header],
                body: Vec::new(),
                timeout_ms: None,
                max_body_bytes: None,
            };
            read(request).err().map(|error| error.message)
        };
        assert_eq!(problem("GET", 30_000), None);
        assert!(problem("GET", 40_000).unwrap().contains("at most 65536 bytes, not 80002"));
        assert!(problem(&"A".repeat(100), 1).unwrap().contains("is not an HTTP method"));
    }
}
