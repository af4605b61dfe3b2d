//! The checks of every request before anything else sees it: the names under which it was sent,
//! the origin of the page that sent it, and the connection on which it came.

use crate::parts::Parts;
use crate::problem::Problem;
use crate::protocol_errors::in_own_form;
use crate::state::{ServerState, Shared};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tollgate_mcp::ClientConnection;
use tower_http::cors::{AllowHeaders, CorsLayer};

/// The names of the loopback.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// The maximum number of digits of a port.
const MAX_PORT_DIGITS: usize = 5;
/// How long a browser may remember the answer to a preflight request.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);
/// The headers of answers that pages of allowed origins may read.
const READABLE: [HeaderName; 8] = [
    header::LOCATION,
    header::LINK,
    header::ETAG,
    header::RETRY_AFTER,
    HeaderName::from_static("x-should-retry"),
    HeaderName::from_static("idempotency-replayed"),
    HeaderName::from_static("tollgate-ignored"),
    HeaderName::from_static("mcp-session-id"),
];

/// The origin of a checked request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestOrigin {
    /// Whether a page of this server sent it, as far as the browser reports.
    same_origin: bool,
}

impl RequestOrigin {
    /// Requires that a page of this server sent the request.
    pub(crate) fn require_same_origin(&self) -> Result<(), Problem> {
        if self.same_origin {
            return Ok(());
        }
        let detail =
            "a page of another site sent this request with your session; use a key for such requests";
        Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail))
    }
}

/// Checks the names and the origin of a request.
///
/// # Errors
/// A header that decides is missing, repeated or wrong.
pub(crate) fn check(state: &ServerState, request: &Request) -> Result<RequestOrigin, Problem> {
    let headers = request.headers();
    check_peer(state, request)?;
    let host = only(headers, &header::HOST)?.or_else(|| request.uri().authority().map(|a| a.as_str()));
    let Some(host) = host else {
        return Err(Problem::bad_request("the request has no Host header; send one"));
    };
    if !is_known_host(state, host) {
        let detail = format!(
            "this server does not answer for the host `{}`; add it to `hosts` in [serve] if it is a name of this server",
            tollgate_agent::text::clean(host, 100)
        );
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail));
    }
    let origin = only(headers, &header::ORIGIN)?;
    let site = only(headers, &HeaderName::from_static("sec-fetch-site"))?;
    let Some(origin) = origin else {
        let same_origin = matches!(site, Some("same-origin" | "none"));
        return Ok(RequestOrigin { same_origin });
    };
    if is_own_origin(state, origin, host) {
        let same_origin = site.is_none_or(|site| site == "same-origin");
        return Ok(RequestOrigin { same_origin });
    }
    if state.config.origins.iter().any(|known| known == origin) {
        return Ok(RequestOrigin { same_origin: false });
    }
    let detail = format!(
        "pages of `{}` may not use this server; add it to `origins` in [serve] if they should; if it is the \
         address of this server, let the proxy pass on the Host header with its port",
        tollgate_agent::text::clean(origin, 100)
    );
    Err(Problem::new(StatusCode::FORBIDDEN, "wrong_origin", detail))
}

/// The parts of the server that the guard of a route needs.
pub(crate) type GuardState = (Shared, Arc<Parts>);

/// Checks the names and the origin of each request before its route answers it.
pub(crate) async fn guard(
    State((state, parts)): State<GuardState>,
    mut request: Request,
    next: Next,
) -> Response {
    let uri = request.uri().clone();
    let response = match check(&state, &request) {
        Ok(origin) => {
            request.extensions_mut().insert(origin);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    // Errors have the form of the path's protocol.
    let mut response = in_own_form(&parts, uri.path(), response);
    secure(response.headers_mut(), &state);
    response
}

/// Returns the layer that lets pages of the allowed origins read answers; `None` if there are none. It
/// comes before authentication: browsers send preflight requests without the key. Pages may send
/// any header, such as those that SDKs add to each request: no header but `Authorization` gives
/// access. With this layer, every request with the method OPTIONS is answered as a preflight request.
pub(crate) fn cross_origin(origins: &[String]) -> Option<CorsLayer> {
    // `*` is no origin, and would let the pages of every site read answers.
    let named = origins.iter().filter(|origin| *origin != "*");
    let origins: Vec<_> = named.filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([Method::GET, Method::POST, Method::DELETE])
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(READABLE)
            .max_age(PREFLIGHT_AGE)
            .vary([header::ORIGIN, header::ACCESS_CONTROL_REQUEST_HEADERS])
    })
}

/// Adds the headers that every answer has unless its route set others.
fn secure(headers: &mut HeaderMap, state: &ServerState) {
    let usual = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    headers.reserve(usual.len());
    for (name, value) in usual {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if state.is_behind_proxy() {
        headers
            .entry(header::STRICT_TRANSPORT_SECURITY)
            .or_insert(HeaderValue::from_static("max-age=31536000"));
    }
}

/// Requires that a request came through the proxy, if there is one: others are not encrypted.
fn check_peer(state: &ServerState, request: &Request) -> Result<(), Problem> {
    let Some(proxy) = state.behind_proxy else { return Ok(()) };
    let peer = request.extensions().get::<ConnectInfo<ClientConnection>>();
    let Some(peer) = peer.map(|ConnectInfo(connection)| connection.peer().ip().to_canonical()) else {
        return Ok(());
    };
    if comes_through(proxy, peer) {
        return Ok(());
    }
    let detail = "this server is only reachable through its proxy; use the proxy's address";
    Err(Problem::new(StatusCode::FORBIDDEN, "not_from_proxy", detail))
}

/// Returns whether a connection is the proxy's or this machine's. Headers such as `Forwarded` play no
/// part: anyone can send them.
fn comes_through(proxy: IpAddr, peer: IpAddr) -> bool {
    peer == proxy || peer.is_loopback()
}

fn is_known_host(state: &ServerState, host: &str) -> bool {
    let Some(name) = without_port(host).map(str::to_ascii_lowercase) else { return false };
    let whole = host.to_ascii_lowercase();
    let configured = |known: &String| *known == name || *known == whole;
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip == state.address.ip());
    LOOPBACK.contains(&name.as_str()) || is_address || state.config.hosts.iter().any(configured)
}

/// Returns the host without its port; `None` if anything but a port follows it, because addresses in answers
/// would repeat that. Colons within brackets belong to an IPv6 address.
fn without_port(host: &str) -> Option<&str> {
    let end = host.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = host[end..].find(':').map(|at| end + at) else { return Some(host) };
    let port = &host[colon + 1..];
    let is_port = port.len() <= MAX_PORT_DIGITS && port.bytes().all(|digit| digit.is_ascii_digit());
    is_port.then_some(&host[..colon])
}

/// Returns whether an origin is that of this server, as the request names it. A proxy may speak
/// TLS.
fn is_own_origin(state: &ServerState, origin: &str, host: &str) -> bool {
    let schemes: &[&str] = if state.is_behind_proxy() { &["https"] } else { &["http"] };
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let plain = |named: &str| {
        let port = if scheme == "https" { ":443" } else { ":80" };
        named.strip_suffix(port).unwrap_or(named).to_ascii_lowercase()
    };
    schemes.contains(&scheme) && plain(authority) == plain(host)
}

/// Returns the single value of a header; `None` if it is absent. Duplicates are rejected, because
/// intermediaries may disagree about which one counts.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value
            .to_str()
            .map(Some)
            .map_err(|_| Problem::bad_request(format!("the header {name} is not text"))),
        (Some(_), Some(_)) => {
            Err(Problem::bad_request(format!("the request has more than one header {name}; send one")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{comes_through, without_port};

    #[test]
    fn only_the_proxy_and_this_machine_connect_behind_a_proxy() {
        let proxy = [10, 0, 0, 2].into();
        for (peer, may) in
            [([10, 0, 0, 2], true), ([127, 0, 0, 1], true), ([10, 0, 0, 3], false), ([203, 0, 113, 9], false)]
        {
            assert_eq!(comes_through(proxy, peer.into()), may, "{peer:?}");
        }
    }

    #[test]
    fn ports_are_left_out() {
        for (host, name) in [
            ("a:1", "a"),
            ("a", "a"),
            ("a:", "a"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("", ""),
            (":80", ""),
        ] {
            assert_eq!(without_port(host), Some(name));
        }
    }

    #[test]
    fn what_follows_a_host_is_a_port() {
        let long = format!("localhost:{}", "1".repeat(300_000));
        for host in ["localhost:80@evil.example", "localhost:80/path", "[::1]:x", "a:b:1", &long] {
            assert_eq!(without_port(host), None);
        }
    }
}
