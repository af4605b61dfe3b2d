//! The patterns with which an operator permits requests: `GET https://api.example.com/v1/`.

use super::target::{check_method, climbs, host_and_port};
use super::{Host, ParseError, Scheme, Target};
use crate::text::clean;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A set of requests: methods, scheme, host, port and a prefix of the path. Written as
/// `METHOD,METHOD SCHEME://HOST:PORT/PATH`. The defaults are the methods GET and HEAD, the scheme's
/// port and every path. A `*` matches every method, every host, or every port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpPattern {
    methods: Methods,
    scheme: Scheme,
    host: HostPattern,
    /// `None` matches every port.
    port: Option<u16>,
    /// Starts with a slash.
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Methods {
    Every,
    These(BTreeSet<String>),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum HostPattern {
    Every,
    This(Host),
    /// Every subdomain of this name.
    Below(String),
}

impl HttpPattern {
    /// Returns whether the pattern matches the request.
    #[must_use]
    pub fn permits(&self, target: &Target) -> bool {
        let method = match &self.methods {
            Methods::Every => true,
            Methods::These(methods) => methods.contains(&target.method),
        };
        let host = match (&self.host, &target.host) {
            (HostPattern::Every, _) => true,
            (HostPattern::This(this), host) => this == host,
            (HostPattern::Below(parent), Host::Name(name)) => is_below(name, parent),
            (HostPattern::Below(_), Host::Address(_)) => false,
        };
        method
            && host
            && self.scheme == target.scheme
            && self.port.is_none_or(|port| port == target.port)
            && begins_with(&target.path, &self.path)
    }

    /// Returns whether every request that the other pattern matches is matched by this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let methods = match (&self.methods, &other.methods) {
            (Methods::Every, _) => true,
            (Methods::These(_), Methods::Every) => false,
            (Methods::These(these), Methods::These(others)) => these.is_superset(others),
        };
        let host = match (&self.host, &other.host) {
            (HostPattern::Every, _) => true,
            (HostPattern::Below(parent), HostPattern::Below(other)) => {
                parent == other || is_below(other, parent)
            }
            (HostPattern::Below(parent), HostPattern::This(Host::Name(name))) => is_below(name, parent),
            (this, other) => this == other,
        };
        methods
            && host
            && self.scheme == other.scheme
            && (self.port.is_none() || self.port == other.port)
            && begins_with(&other.path, &self.path)
    }

    /// Returns the meaning of the pattern in plain words, such as `any request to any host`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let scheme = if self.scheme == Scheme::Http { "unencrypted " } else { "" };
        let methods = match &self.methods {
            Methods::Every => format!("any {scheme}request"),
            Methods::These(methods) if methods.iter().eq(["GET", "HEAD"]) => {
                format!("{scheme}reading requests")
            }
            Methods::These(methods) => {
                let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
                format!("{scheme}{} requests", methods.join(" and "))
            }
        };
        let host = match &self.host {
            HostPattern::Every => "any host".to_owned(),
            HostPattern::This(host) => host.to_string(),
            HostPattern::Below(parent) => format!("any host below {parent}"),
        };
        let port = match self.port {
            None => ", at any port".to_owned(),
            Some(port) if port != self.scheme.default_port() => format!(", at port {port}"),
            Some(_) => String::new(),
        };
        let path = if self.path == "/" { String::new() } else { format!(", below {}", self.path) };
        format!("{methods} to {host}{port}{path}")
    }

    /// Returns whether the host is this very address, not a name that may resolve to it.
    #[must_use]
    pub fn names(&self, address: IpAddr) -> bool {
        self.host == HostPattern::This(Host::Address(address))
    }
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|below| below.len() > 1 && below.ends_with('.'))
}

/// Returns whether the path is the prefix or below it: `/v1` contains `/v1/x`, not `/v10`.
fn begins_with(path: &str, prefix: &str) -> bool {
    let Some(rest) = path.strip_prefix(prefix) else { return false };
    rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/')
}

impl FromStr for HttpPattern {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let shown = clean(text, 200);
        let (methods, url) = match text.trim().rsplit_once(' ') {
            Some((methods, url)) => (read_methods(methods)?, url),
            None => (Methods::These(["GET", "HEAD"].map(str::to_owned).into()), text.trim()),
        };
        let Some((scheme, rest)) = url.split_once("://") else {
            let (scheme, rest) = misspelled_scheme(url).unwrap_or((Scheme::Https, url));
            return Err(ParseError(format!(
                "\"{shown}\" has no scheme; write \"{}://{}\"",
                scheme.as_str(),
                clean(rest.trim_start_matches('/'), 100)
            )));
        };
        let scheme = Scheme::parse(scheme).ok_or_else(|| {
            ParseError(format!("\"{shown}\" has a scheme other than https or http; write https://"))
        })?;
        if let Some(at) = rest.find(['?', '#']) {
            return Err(ParseError(format!(
                "\"{shown}\" has a query or fragment, which is not compared; write \"{}://{}\"",
                scheme.as_str(),
                clean(&rest[..at], 100)
            )));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = read_host(authority, scheme, &shown)?;
        Ok(Self { methods, scheme, host, port, path: read_path(path, &shown)? })
    }
}

/// Splits `https//host` and `http:/host`, whose `://` is incomplete.
fn misspelled_scheme(url: &str) -> Option<(Scheme, &str)> {
    let of = |scheme: Scheme| {
        let rest = url.strip_prefix(scheme.as_str()).filter(|rest| rest.starts_with([':', '/']))?;
        Some((scheme, rest.trim_start_matches([':', '/'])))
    };
    of(Scheme::Https).or_else(|| of(Scheme::Http))
}

fn read_methods(text: &str) -> Result<Methods, ParseError> {
    if text.trim() == "*" {
        return Ok(Methods::Every);
    }
    let methods = text.split(',').map(|method| {
        let method = method.trim();
        check_method(method).map(|()| method.to_owned())
    });
    methods.collect::<Result<_, _>>().map(Methods::These)
}

fn read_host(authority: &str, scheme: Scheme, shown: &str) -> Result<(HostPattern, Option<u16>), ParseError> {
    if let Some(host) = authority.strip_suffix(":*") {
        return read_host(host, scheme, shown).map(|(host, _)| (host, None));
    }
    let port_of =
        |rest: &str| host_and_port(&format!("x{rest}"), scheme.default_port()).map(|(_, port)| port);
    if let Some(rest) = authority.strip_prefix('*').filter(|rest| rest.is_empty() || rest.starts_with(':')) {
        return Ok((HostPattern::Every, Some(port_of(rest)?)));
    }
    let below = authority.strip_prefix("*.");
    let named = below.unwrap_or(authority);
    if named.contains('*') {
        return Err(ParseError(format!(
            "\"{shown}\" has a misplaced *; use it for the whole host, or in front as in *.example.com"
        )));
    }
    let (host, port) = host_and_port(named, scheme.default_port())?;
    match (below, host) {
        (None, host) => Ok((HostPattern::This(host), Some(port))),
        (Some(_), Host::Name(name)) if name.contains('.') => Ok((HostPattern::Below(name), Some(port))),
        (Some(_), _) => Err(ParseError(format!(
            "\"{shown}\" would permit requests to a whole top-level domain; name a domain, as in *.example.com"
        ))),
    }
}

fn read_path(path: &str, shown: &str) -> Result<String, ParseError> {
    if path.contains('*') {
        return Err(ParseError(format!(
            "\"{shown}\" has a * in its path; a path already matches everything below it, so remove the *"
        )));
    }
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~!$&()+,;=:@%".contains(&b);
    if climbs(path) || !path.bytes().all(is_plain) {
        return Err(ParseError(format!(
            "\"{shown}\" has a path that is not canonical; remove . and .., and percent-encode other characters"
        )));
    }
    Ok(if path.is_empty() { "/".to_owned() } else { path.to_owned() })
}

impl fmt::Display for HttpPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.methods {
            Methods::Every => f.write_str("* ")?,
            Methods::These(methods) if methods.iter().eq(["GET", "HEAD"]) => {}
            Methods::These(methods) => {
                let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
                write!(f, "{} ", methods.join(","))?;
            }
        }
        write!(f, "{}://", self.scheme.as_str())?;
        match &self.host {
            HostPattern::Every => f.write_str("*")?,
            HostPattern::This(host) => write!(f, "{host}")?,
            HostPattern::Below(parent) => write!(f, "*.{parent}")?,
        }
        match self.port {
            None => f.write_str(":*")?,
            Some(port) if port != self.scheme.default_port() => write!(f, ":{port}")?,
            Some(_) => {}
        }
        f.write_str(&self.path)
    }
}

impl Serialize for HttpPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HttpPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn permits(pattern: &str, method: &str, url: &str) -> bool {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let pattern: HttpPattern = pattern.parse().unwrap();
        pattern.permits(&Target::parse(method, scheme, authority, path).unwrap())
    }

    #[test]
    fn a_pattern_is_compared_part_by_part() {
        let v1 = "POST,GET https://api.example.com/v1/";
        assert!(permits(v1, "POST", "https://API.example.com:443/v1/x?y"));
        for (method, url) in [
            ("PUT", "https://api.example.com/v1/x"),
            ("GET", "http://api.example.com/v1/x"),
            ("GET", "https://api.example.com:8443/v1/x"),
            ("GET", "https://api.example.com/v1"),
            ("GET", "https://api.example.com/v10/x"),
            ("GET", "https://api.example.com.evil.example/v1/x"),
            ("GET", "https://xapi.example.com/v1/x"),
        ] {
            assert!(!permits(v1, method, url), "{method} {url}");
        }
    }

    #[test]
    fn a_pattern_has_words_for_people() {
        for (pattern, words) in [
            ("* https://*", "any request to any host"),
            ("https://*", "reading requests to any host"),
            (
                "GET,POST https://*.example.com/v1/",
                "GET and POST requests to any host below example.com, below /v1/",
            ),
            ("* http://127.0.0.1:*/", "any unencrypted request to 127.0.0.1, at any port"),
            ("https://a.example:8443", "reading requests to a.example, at port 8443"),
        ] {
            assert_eq!(pattern.parse::<HttpPattern>().unwrap().in_words(), words);
        }
    }

    #[test]
    fn a_scheme_that_is_misspelled_is_not_repeated() {
        for (typed, meant) in [
            ("https//a.example", "write \"https://a.example\""),
            ("http:/a.example/x", "write \"http://a.example/x\""),
            ("https.example", "write \"https://https.example\""),
            ("//a.example", "write \"https://a.example\""),
        ] {
            let why = typed.parse::<HttpPattern>().unwrap_err().to_string();
            assert!(why.ends_with(meant), "{why}");
        }
    }

    #[test]
    fn without_methods_it_is_for_reading() {
        assert!(permits("https://a.example", "GET", "https://a.example/any/where"));
        assert!(permits("https://a.example", "HEAD", "https://a.example"));
        assert!(!permits("https://a.example", "POST", "https://a.example/"));
        assert!(permits("* https://a.example", "DELETE", "https://a.example/"));
    }

    #[test]
    fn a_prefix_ends_at_a_part_of_the_path() {
        assert!(permits("https://a.example/v1", "GET", "https://a.example/v1"));
        assert!(permits("https://a.example/v1", "GET", "https://a.example/v1/x"));
        assert!(!permits("https://a.example/v1", "GET", "https://a.example/v1x"));
    }

    #[test]
    fn a_star_stands_for_names_below() {
        let pattern = "https://*.example.com/";
        assert!(permits(pattern, "GET", "https://a.example.com/"));
        assert!(permits(pattern, "GET", "https://a.b.example.com/"));
        for url in ["https://example.com/", "https://evilexample.com/", "https://1.2.3.4/"] {
            assert!(!permits(pattern, "GET", url), "{url}");
        }
        assert!(permits("http://*:8080/", "GET", "http://1.2.3.4:8080/"));
        assert!(!permits("http://*:8080/", "GET", "http://1.2.3.4/"));
        assert!(permits("http://*:*/", "GET", "http://1.2.3.4:81/"));
        assert!(permits("http://a.test:*/", "GET", "http://a.test/"));
    }

    #[test]
    fn a_pattern_covers_what_is_narrower() {
        let covers = |one: &str, other: &str| {
            one.parse::<HttpPattern>().unwrap().covers(&other.parse::<HttpPattern>().unwrap())
        };
        for (one, other) in [
            ("https://*", "https://a.example/x"),
            ("* https://a.example/", "DELETE https://a.example/x"),
            ("https://*.example.com", "https://*.b.example.com"),
            ("https://*.example.com", "https://b.example.com"),
            ("https://a.example/v1", "https://a.example/v1/x"),
        ] {
            assert!(covers(one, other), "{one} covers {other}");
            assert!(!covers(other, one), "{other} does not cover {one}");
            assert!(covers(one, one));
        }
        assert!(!covers("https://a.example", "http://a.example"));
        assert!(!covers("GET https://a.example", "POST https://a.example"));
    }

    #[test]
    fn patterns_read_back_as_they_are_shown() {
        for (text, shown) in [
            ("https://A.example", "https://a.example/"),
            ("GET,HEAD https://a.example:443/x", "https://a.example/x"),
            ("POST https://*.a.example:8443/", "POST https://*.a.example:8443/"),
            ("* http://[::1]:80/", "* http://[::1]/"),
            ("https://*:*", "https://*:*/"),
        ] {
            let pattern: HttpPattern = text.parse().unwrap();
            assert_eq!(pattern.to_string(), shown);
            assert_eq!(shown.parse::<HttpPattern>().unwrap(), pattern);
        }
    }

    #[test]
    fn what_is_no_pattern_says_what_to_type() {
        for (text, words) in [
            ("api.example.com", "write \"https://api.example.com\""),
            ("ftp://a.example/", "write https://"),
            ("https://a.example/x?key=1", "write \"https://a.example/x\""),
            ("get https://a.example/", "GET, POST or another in capitals"),
            ("CONNECT https://a.example/", "not CONNECT or TRACE"),
            ("https://user:pw@a.example/", "bind them as a secret"),
            ("https://a.*.example/", "*.example.com"),
            ("https://*.com/", "top-level domain"),
            ("https://a.example/v1/*", "remove the *"),
            ("https://a.example/v1/../x", "remove . and .."),
            ("https://a.example/it's", "percent-encode other characters"),
            ("https://0177.0.0.1/", "a canonical address"),
            ("https://a.example:0/", "1 to 65535"),
            ("https:///x", "not a host name"),
        ] {
            let why = text.parse::<HttpPattern>().unwrap_err().to_string();
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}
