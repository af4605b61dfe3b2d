//! Requests: where they may go, how often they are repeated, and how much of a response is read.

use super::credentials::Authorization;
use super::{Client, addresses};
use crate::error::{Code, Error, Result};
use crate::reference::{Reference, is_loopback};
use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use ring::rand::SecureRandom as _;
use std::time::Duration;
use tokio::time::Instant;
use tollgate_agent::text::clean;
use url::Url;

/// The most redirects that are followed in one request.
const MAX_REDIRECTS: usize = 5;
/// How often a request is repeated that the registry cannot answer now.
const MAX_RETRIES: u32 = 3;
/// The longest wait that a registry can ask for before a request is repeated.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// The first wait if the registry does not name one; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The most that is read of a response that reports an error, in bytes.
const MAX_ERROR_BYTES: u64 = 4 << 10;

/// Everything that is done about one artifact: it shares a deadline and an authorization.
#[derive(Debug)]
pub struct Session {
    pub(super) client: Client,
    pub(super) reference: Reference,
    /// The artifact's name in messages.
    name: String,
    pub(super) authorization: Option<Authorization>,
    /// Whether tokens are asked for that allow pushing.
    pub(super) writes: bool,
    deadline: Instant,
    requests: u32,
}

/// A request to a registry.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    /// The most that is read of the response, in bytes.
    pub(super) limit: u64,
    /// Whether it may be sent again if the server cannot answer now.
    pub(super) is_repeatable: bool,
}

/// A response that was read.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// The URL that answered, after redirects.
    pub(super) url: Url,
}

impl Request {
    pub(super) fn get(url: Url, accept: &'static str, limit: u64) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        Self { method: Method::GET, url, headers, body: None, limit, is_repeatable: true }
    }

    /// A form that is sent in the body, so that no secret is in the URL.
    pub(super) fn form(url: Url, fields: &[(&str, &str)], limit: u64) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        Self { method: Method::POST, url, headers, body: Some(body.into()), limit, is_repeatable: false }
    }
}

impl Reply {
    pub(super) fn text_header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Session {
    pub(super) fn new(client: Client, reference: Reference, deadline: Instant) -> Self {
        Self {
            client,
            name: reference.to_string(),
            reference,
            authorization: None,
            writes: false,
            deadline,
            requests: 0,
        }
    }

    /// The number of requests that were sent, redirects and repetitions not counted.
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Asks for tokens that allow pushing from now on.
    pub(crate) fn begin_to_write(&mut self) {
        if !self.writes {
            self.writes = true;
            self.authorization = None;
        }
    }

    /// The artifact that this is about.
    #[must_use]
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// The URL of a path below the repository.
    pub(super) fn url(&self, path: &str) -> Result<Url> {
        let host = match self.reference.host.as_str() {
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        let scheme = if self.client.is_plain(&self.reference) { "http" } else { "https" };
        let text = format!("{scheme}://{host}/v2/{}/{path}", self.reference.repository);
        let invalid = |e| Error::new(Code::InvalidReference, format!("{text} is not a valid URL: {e}"));
        Url::parse(&text).map_err(invalid)
    }

    /// Returns whether this URL may be reached by plain HTTP: the registry and the URL are on this
    /// machine.
    pub(super) fn allows_http(&self, url: &Url) -> bool {
        url.scheme() == "http" && self.client.is_plain(&self.reference) && is_loopback(url)
    }

    /// A session with a web server. It is a registry with neither repository nor credentials.
    pub(super) fn of_url(client: Client, url: &Url, deadline: Instant) -> Self {
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let reference = Reference { host, repository: String::new(), tag: None, digest: None };
        Self { name: url.to_string(), ..Self::new(client, reference, deadline) }
    }

    /// Asks the registry for a sign of life. One that wants credentials for everything is alive.
    pub(super) async fn check(&mut self) -> Result<()> {
        let root = self.url("")?;
        let root = root.join("/v2/").unwrap_or(root);
        let reply = self.send_with_deadline(&Request::get(root, "*/*", MAX_ERROR_BYTES), None).await?;
        match reply.status.is_success() || reply.status == StatusCode::UNAUTHORIZED {
            true => Ok(()),
            false => Err(self.failure(&reply)),
        }
    }

    /// Downloads a file that is not a part of a registry.
    pub(super) async fn download(&mut self, url: &Url, limit: u64) -> Result<Vec<u8>> {
        let request = Request::get(url.clone(), "*/*", limit);
        let reply = self.send_with_deadline(&request, None).await?;
        if reply.status.is_success() { Ok(reply.body) } else { Err(self.failure(&reply)) }
    }

    /// Sends a request to the registry. If the registry asks for authentication, that is done
    /// once and the request is repeated once.
    pub(super) async fn send(&mut self, request: Request) -> Result<Reply> {
        let reply = self.send_with_deadline(&request, self.authorization.clone()).await?;
        if reply.status != StatusCode::UNAUTHORIZED {
            return Ok(reply);
        }
        if self.authorization.is_some() || reply.url.origin() != self.url("")?.origin() {
            return Err(self.failure(&reply));
        }
        self.authorization = Some(self.authorize(&reply).await?);
        let reply = self.send_with_deadline(&request, self.authorization.clone()).await?;
        if reply.status == StatusCode::UNAUTHORIZED { Err(self.failure(&reply)) } else { Ok(reply) }
    }

    /// Sends a request with this authorization, follows redirects, and repeats it if the server
    /// cannot answer now.
    pub(super) async fn send_with_deadline(
        &mut self,
        request: &Request,
        authorization: Option<Authorization>,
    ) -> Result<Reply> {
        self.requests += 1;
        let host = self.reference.host.clone();
        let late = |_| Error::new(Code::TimedOut, format!("{host} took too long to answer"));
        tokio::time::timeout_at(self.deadline, self.repeat(request, authorization)).await.map_err(late)?
    }

    async fn repeat(&self, request: &Request, authorization: Option<Authorization>) -> Result<Reply> {
        let mut retries = 0;
        loop {
            let reply = self.follow(request, authorization.as_ref()).await?;
            let busy = matches!(reply.status.as_u16(), 429 | 502 | 503);
            if !busy || !request.is_repeatable || retries == MAX_RETRIES {
                return Ok(reply);
            }
            let asked = reply.text_header("retry-after").and_then(|text| retry_after(text, Timestamp::now()));
            if asked.is_some_and(|asked| asked > MAX_RETRY_AFTER) {
                return Ok(reply);
            }
            // Clients that receive the same time do not all come back at once.
            let wait = jittered(asked.unwrap_or(FIRST_WAIT * 2_u32.pow(retries)));
            if asked.is_some_and(|asked| !asked.is_zero()) {
                let (host, status) = (&self.reference.host, reply.status.as_u16());
                let seconds = asked.unwrap_or_default().as_secs();
                tracing::warn!("{host} answered {status}; asking again in {seconds} s, as it wants");
            }
            tokio::time::sleep(wait).await;
            retries += 1;
        }
    }

    async fn follow(&self, request: &Request, authorization: Option<&Authorization>) -> Result<Reply> {
        let mut url = request.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let http = self.client_for(&url)?;
            let mut builder =
                http.request(request.method.clone(), url.clone()).headers(request.headers.clone());
            // The authorization is added or left out at each hop.
            if let Some(authorization) = authorization
                && url.origin() == request.url.origin()
            {
                builder = builder.header(header::AUTHORIZATION, authorization.header());
            }
            if let Some(body) = &request.body {
                builder = builder.body(body.clone());
            }
            let response = self.begin(builder, &url).await?;
            let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            if !is_redirect || !matches!(request.method, Method::GET | Method::HEAD) {
                return self.read(response, request, url).await;
            }
            url = self.redirected(&url, &response)?;
        }
        let what = format!("{} redirects more than {MAX_REDIRECTS} times", self.reference.host);
        Err(Error::new(Code::TooManyRedirects, what))
    }

    /// The client that may reach this URL.
    fn client_for(&self, url: &Url) -> Result<&reqwest::Client> {
        let host = url.host_str().unwrap_or_default();
        let with_port = url.port().map(|port| format!("{host}:{port}"));
        let by_host = &self.client.by_host;
        if let Some(client) =
            with_port.as_ref().and_then(|name| by_host.get(name)).or_else(|| by_host.get(host))
        {
            return Ok(client);
        }
        let hosts = &self.client.settings.hosts;
        let is_configured = |name: &str| {
            hosts.contains_key(name)
                || hosts.values().any(|settings| settings.token_host.as_deref() == Some(name))
        };
        let is_named = is_configured(host) || with_port.as_ref().is_some_and(|name| is_configured(name));
        // The user who names this machine as a registry may be sent to other servers on it.
        if is_named || (self.reference.is_loopback() && is_loopback(url)) {
            return Ok(&self.client.named);
        }
        match addresses::refused(url) {
            Some(why) => Err(address_refused(&why, &with_port.unwrap_or_else(|| host.to_owned()))),
            None => Ok(&self.client.global),
        }
    }

    async fn begin(&self, builder: RequestBuilder, url: &Url) -> Result<Response> {
        builder.send().await.map_err(|error| {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            let host = format!("{}{port}", clean(url.host_str().unwrap_or_default(), 200));
            let causes = causes(&error);
            if let Some(at) = causes.find(addresses::REFUSED) {
                return address_refused(&causes[at..], &host);
            }
            match error.is_timeout() {
                true => Error::new(Code::TimedOut, format!("{host} did not answer in time")),
                false => Error::new(Code::Unreachable, format!("{host} cannot be reached: {causes}")),
            }
        })
    }

    fn redirected(&self, from: &Url, response: &Response) -> Result<Url> {
        let refused = |why: &str| {
            let host = clean(from.host_str().unwrap_or_default(), 200);
            Error::new(Code::RedirectRefused, format!("{host} sent a redirect that is refused: {why}"))
        };
        let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        let location = location.ok_or_else(|| refused("it names no place"))?;
        let to = from.join(location).map_err(|_| refused("its place is not a valid URL"))?;
        if to.scheme() != "https" && !self.allows_http(&to) {
            return Err(refused("it leads away from https"));
        }
        if !to.username().is_empty() || to.password().is_some() {
            return Err(refused("it holds credentials"));
        }
        Ok(to)
    }

    async fn read(&self, mut response: Response, request: &Request, url: Url) -> Result<Reply> {
        let (status, headers) = (response.status(), response.headers().clone());
        let host = clean(url.host_str().unwrap_or_default(), 200);
        let is_success = status.is_success();
        let limit = if is_success { request.limit } else { MAX_ERROR_BYTES };
        let too_large = || {
            let what = format!("{host} sent more than {limit} bytes, which is the limit for this response");
            Error::new(Code::TooLarge, what)
        };
        let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
        if headers.get(header::CONTENT_ENCODING).is_some_and(|value| !is_plain(value)) {
            let what = format!("{host} sent a compressed response, which was not asked for");
            return Err(Error::new(Code::EncodedResponse, what));
        }
        if request.method == Method::HEAD {
            return Ok(Reply { status, headers, body: Vec::new(), url });
        }
        let declared = response.content_length();
        if is_success && declared.is_some_and(|declared| declared > limit) {
            return Err(too_large());
        }
        // Memory that is not written to is not used.
        let mut body = Vec::with_capacity(declared.unwrap_or_default().min(limit).try_into().unwrap_or(0));
        loop {
            let chunk = response.chunk().await.map_err(|error| {
                let what = format!("the connection to {host} broke: {}", causes(&error));
                let code = if error.is_timeout() { Code::TimedOut } else { Code::Unreachable };
                Error::new(code, what)
            })?;
            let Some(chunk) = chunk else { break };
            let room = usize::try_from(limit).unwrap_or(usize::MAX) - body.len();
            if chunk.len() > room {
                if is_success {
                    return Err(too_large());
                }
                body.extend_from_slice(&chunk[..room]);
                break;
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Reply { status, headers, body, url })
    }

    /// The failure that a response reports.
    pub(super) fn failure(&self, reply: &Reply) -> Error {
        let host = clean(reply.url.host_str().unwrap_or_default(), 200);
        let said = said(&reply.body);
        let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
        let what = &self.name;
        let has_login = self.authorization.as_ref().is_some_and(|authorization| authorization.is_login());
        match reply.status.as_u16() {
            404 => {
                // A web server has no tags.
                let part = if self.reference.repository.is_empty() { "address" } else { "name and tag" };
                Error::new(Code::NotFound, format!("{what} was not found{said}; check its {part}"))
            }
            401 | 403 => {
                let (what, registry, place) = (&self.name, &self.reference.host, self.reference.origin());
                let (doing, may_push) = match self.writes {
                    true => ("publishing", format!(" with permission to push to {place}")),
                    false => ("reading", String::new()),
                };
                match has_login {
                    true => {
                        let fix = format!("use credentials{may_push}: docker login {registry}");
                        Error::new(Code::AccessDenied, format!("{host} denied {doing} {what}{said}; {fix}"))
                    }
                    false => {
                        let fix = format!("log in{may_push}: docker login {registry}");
                        let what =
                            format!("{host} does not allow {doing} {what} without credentials{said}; {fix}");
                        Error::new(Code::CredentialsMissing, what)
                    }
                }
            }
            429 => Error::new(Code::RateLimited, format!("{host} asks to wait{said}; try again later")),
            status if status >= 500 => Error::new(
                Code::RegistryFailed,
                format!("{host} failed with status {status}{said}; try again later"),
            ),
            status => {
                Error::new(Code::UnexpectedStatus, format!("{host} answered with status {status}{said}"))
            }
        }
    }
}

/// The words of a registry about a failure, cleaned.
fn said(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Errors {
        errors: Vec<One>,
    }
    #[derive(serde::Deserialize)]
    struct One {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let Ok(Errors { errors }) = serde_json::from_slice(body) else { return String::new() };
    let words: Vec<_> = errors.iter().take(3).map(|one| format!("{} {}", one.code, one.message)).collect();
    clean(words.join("; ").trim(), 300)
}

fn address_refused(why: &str, host: &str) -> Error {
    let host = clean(host, 200);
    let what =
        format!("{why}; if you trust it, add a table for it to the configuration: [registries.\"{host}\"]");
    Error::new(Code::AddressRefused, what)
}

/// The wait that a server asks for: a number of seconds, or a date. A date that has passed asks for none.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = rfc2822::parse(text).ok()?.timestamp();
    Some(at.duration_since(now).try_into().unwrap_or_default())
}

/// A wait that is longer by up to a half of it.
fn jittered(wait: Duration) -> Duration {
    let mut byte = [0_u8];
    // Without randomness the wait is only less spread.
    let _ = ring::rand::SystemRandom::new().fill(&mut byte);
    wait + wait * u32::from(byte[0]) / 512
}

/// An error and its causes, without the URL, which may hold a signature.
fn causes(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    if causes.is_empty() { "the request failed".to_owned() } else { clean(&causes.join(": "), 500) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_server_names_its_wait_in_seconds_or_by_a_date() {
        let now = "1994-11-06T08:49:30Z".parse().unwrap();
        for (text, seconds) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 10:49:30 GMT", Some(7_200)),
            ("soon", None),
            ("-1", None),
        ] {
            assert_eq!(retry_after(text, now), seconds.map(Duration::from_secs), "{text}");
        }
        let wait = Duration::from_secs(2);
        assert!((wait..wait * 2).contains(&jittered(wait)) && jittered(Duration::ZERO).is_zero());
    }
}
