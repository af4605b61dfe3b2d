//! A request that a tool wants to send, parsed once and strictly.

use super::{Host, ParseError};
use crate::text::clean;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// The longest path including its query, in bytes.
const MAX_PATH_BYTES: usize = 8 * 1024;
/// How many times a server might decode a path.
const DECODINGS: usize = 3;

/// The scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Plain text.
    Http,
    /// TLS.
    Https,
}

impl Scheme {
    /// Returns the scheme as written in a URL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// Returns the port of a URL that names none.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "http" => Some(Scheme::Http),
            "https" => Some(Scheme::Https),
            _ => None,
        }
    }
}

/// The destination and method of a request. The host sends exactly what it has checked here and
/// does not parse the guest's text again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The method, in upper case.
    pub method: String,
    /// The scheme.
    pub scheme: Scheme,
    /// The host.
    pub host: Host,
    /// The port; the scheme's default if the request names none.
    pub port: u16,
    /// The path, without the query.
    pub path: String,
    /// The query, with its question mark; empty if the request has none.
    pub query: String,
}

impl Target {
    /// Parses a request's method, scheme, authority and path with query.
    ///
    /// # Errors
    /// A part is not in its one canonical form: credentials before the host, an address that could
    /// be read in two ways, a path that climbs out of its apparent directory, or a method that
    /// opens a tunnel.
    pub fn parse(
        method: &str,
        scheme: &str,
        authority: &str,
        path_and_query: &str,
    ) -> Result<Self, ParseError> {
        let scheme = Scheme::parse(scheme).ok_or_else(|| {
            ParseError(format!("the scheme \"{}\" is not supported; use https or http", clean(scheme, 40)))
        })?;
        check_method(method)?;
        let (host, port) = host_and_port(authority, scheme.default_port())?;
        let (path, query) = match path_and_query.find('?') {
            Some(at) => path_and_query.split_at(at),
            None => (path_and_query, ""),
        };
        check_path(path, path_and_query.len())?;
        Ok(Self {
            method: method.to_owned(),
            scheme,
            host,
            port,
            path: if path.is_empty() { "/".to_owned() } else { path.to_owned() },
            query: query.to_owned(),
        })
    }

    /// Returns host and port in the form of the `Host` header.
    #[must_use]
    pub fn authority(&self) -> String {
        match self.port == self.scheme.default_port() {
            true => self.host.to_string(),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Returns scheme, host and port, to which a secret is bound.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme.as_str(), self.authority())
    }

    /// Returns path and query in the form of the request line.
    #[must_use]
    pub fn path_and_query(&self) -> String {
        format!("{}{}", self.path, self.query)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.method, self.origin(), self.path)
    }
}

/// Scheme, host and port, to which a secret is bound.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(String);

impl Origin {
    /// Returns whether the request goes to this origin.
    #[must_use]
    pub fn is_of(&self, target: &Target) -> bool {
        self.0 == target.origin()
    }
}

impl FromStr for Origin {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let url = text.trim();
        let (scheme, authority) = url
            .split_once("://")
            .map(|(scheme, rest)| (scheme, rest.strip_suffix('/').unwrap_or(rest)))
            .filter(|(_, authority)| !authority.contains(['/', '?', '#', '*']))
            .ok_or_else(|| {
                ParseError(format!(
                    "\"{}\" is not one host with its scheme; write one such as \"https://api.example.com\"",
                    clean(text, 100)
                ))
            })?;
        Target::parse("GET", scheme, authority, "/").map(|target| Self(target.origin()))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses `HOST` or `HOST:PORT`.
pub(super) fn host_and_port(authority: &str, default_port: u16) -> Result<(Host, u16), ParseError> {
    let shown = clean(authority, 100);
    if authority.contains('@') {
        return Err(ParseError(format!(
            "\"{shown}\" has credentials before the host; remove them, and bind them as a secret"
        )));
    }
    // The last colon, unless it is part of an address in brackets.
    let (host, port) = match authority.rfind(':') {
        Some(at) if !authority[at..].contains(']') => (&authority[..at], Some(&authority[at + 1..])),
        _ => (authority, None),
    };
    let port = match port {
        None => default_port,
        Some(port) => Some(port)
            .filter(|port| port.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|port| port.parse().ok())
            .filter(|port| *port != 0)
            .ok_or_else(|| {
                ParseError(format!("\"{shown}\" has no valid port after its colon; write 1 to 65535"))
            })?,
    };
    Ok((Host::parse(host)?, port))
}

/// Checks that the method makes a request to a host. CONNECT would turn the host into a tunnel, and
/// TRACE echoes the headers that were added to the request.
pub(super) fn check_method(method: &str) -> Result<(), ParseError> {
    let is_method = (1..=32).contains(&method.len())
        && method.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
    if is_method && method != "CONNECT" && method != "TRACE" {
        return Ok(());
    }
    Err(ParseError(format!(
        "\"{}\" is not a supported method; write GET, POST or another in capitals (not CONNECT or TRACE)",
        clean(method, 40)
    )))
}

fn check_path(path: &str, whole_bytes: usize) -> Result<(), ParseError> {
    let shown = clean(path, 100);
    if whole_bytes > MAX_PATH_BYTES {
        return Err(ParseError(format!("the path is longer than {MAX_PATH_BYTES} bytes")));
    }
    if !(path.is_empty() || path.starts_with('/')) {
        return Err(ParseError(format!("the path \"{shown}\" does not begin with /")));
    }
    if path.bytes().any(|b| b <= b' ' || b == 0x7f || b == b'#') {
        return Err(ParseError(format!(
            "the path \"{shown}\" contains characters that must be percent-encoded"
        )));
    }
    if climbs(path) {
        return Err(ParseError(format!(
            "the path \"{shown}\" has . or .. segments; write the resulting path"
        )));
    }
    Ok(())
}

/// Returns whether a server that decodes the path, up to [`DECODINGS`] times, would find `.` or
/// `..` among its segments.
pub(super) fn climbs(path: &str) -> bool {
    let mut path = Cow::Borrowed(path.as_bytes());
    for _ in 0..=DECODINGS {
        let dots =
            |part: &[u8]| matches!(part, b"." | b"..") || part.starts_with(b"..;") || part.starts_with(b".;");
        if path.split(|b| matches!(b, b'/' | b'\\')).any(dots) {
            return true;
        }
        path = Cow::Owned(decode(&path));
    }
    false
}

/// Replaces every `%XX` by the byte that it encodes.
fn decode(text: &[u8]) -> Vec<u8> {
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let byte = match (first, after) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    decoded
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_request_is_read_once() {
        let target = Target::parse("GET", "HTTPS", "Example.com.:443", "/a%2Fb?q=../x").unwrap();
        assert_eq!((target.origin().as_str(), target.port), ("https://example.com", 443));
        assert_eq!((target.path.as_str(), target.query.as_str()), ("/a%2Fb", "?q=../x"));
        let target = Target::parse("POST", "http", "[::1]:8080", "").unwrap();
        assert_eq!(target.to_string(), "POST http://[::1]:8080/");
        assert_eq!(Target::parse("GET", "http", "a.test", "?q").unwrap().path_and_query(), "/?q");
    }

    #[test]
    fn credentials_odd_ports_and_schemes_are_refused() {
        for (scheme, authority) in [
            ("http", "allowed.example@169.254.169.254"),
            ("http", "user:pass@host.example"),
            ("http", "host.example:0"),
            ("http", "host.example:"),
            ("http", "host.example:65536"),
            ("http", "host.example:+80"),
            ("http", "host.example:80:90"),
            ("http", ""),
            ("file", "host.example"),
            ("ws", "host.example"),
        ] {
            assert!(Target::parse("GET", scheme, authority, "/").is_err(), "{scheme}://{authority}");
        }
    }

    #[test]
    fn methods_that_do_more_than_ask_are_refused() {
        for method in ["CONNECT", "TRACE", "get", "", "GET ", "GET\r\nX: y"] {
            assert!(Target::parse(method, "http", "a.test", "/").is_err(), "{method}");
        }
        assert!(Target::parse("PROPFIND", "http", "a.test", "/").is_ok());
    }

    #[test]
    fn an_origin_is_a_host_with_its_scheme_and_port() {
        let origin: Origin = "https://API.example.com:443/".parse().unwrap();
        assert_eq!(origin.to_string(), "https://api.example.com");
        let of = |scheme, authority| origin.is_of(&Target::parse("GET", scheme, authority, "/x").unwrap());
        assert!(of("https", "api.example.com"));
        assert!(
            !of("http", "api.example.com")
                && !of("https", "api.example.com:444")
                && !of("https", "example.com")
        );
        for text in [
            "api.example.com",
            "https://a.test/path",
            "https://*.a.test",
            "https://u@a.test",
            "https://a.test?q",
        ] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_does_not_climb() {
        for path in [
            "/v1/../admin",
            "/..",
            "/.",
            "/v1/./x",
            "/v1/%2e%2e/admin",
            "/v1/.%2E/admin",
            "/v1%2f..%2fadmin",
            "/v1/..%5cadmin",
            "/v1\\..\\admin",
            "/v1/%252e%252e/admin",
            "/v1/%25252e%25252e/x",
            "/v1/..;/admin",
            "no/slash",
            "/a b",
            "/a\nb",
            "/a#b",
            "*",
        ] {
            assert!(Target::parse("GET", "http", "a.test", path).is_err(), "{path}");
        }
        for path in ["/", "/a..b", "/...", "/.well-known/x", "/a%2Fb", "/100%", "/%zz", "/ä"] {
            assert!(Target::parse("GET", "http", "a.test", path).is_ok(), "{path}");
        }
        assert!(Target::parse("GET", "http", "a.test", &format!("/{}", "a".repeat(9_000))).is_err());
    }
}
