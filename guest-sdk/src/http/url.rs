//! Parsed URLs. The host validates them further.

use super::{Error, ErrorKind};

/// A URL of `http` or `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// `http` or `https`.
    pub scheme: String,
    /// Host and port.
    pub authority: String,
    /// Path and query; begins with a slash.
    pub path: String,
}

impl Url {
    /// Parses a URL. The fragment is dropped.
    ///
    /// # Errors
    /// The text is not an http or https URL.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = || Error::new(ErrorKind::BadRequest, format!("\"{text}\" is not an http or https URL."));
        let text_before_fragment = text.trim().split('#').next().unwrap_or_default();
        let (scheme, rest) = text_before_fragment.split_once("://").ok_or_else(bad)?;
        let scheme = scheme.to_lowercase();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if !matches!(scheme.as_str(), "http" | "https") || authority.is_empty() {
            return Err(bad());
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self { scheme, authority: authority.to_owned(), path: format!("{slash}{path}") })
    }

    /// Returns scheme, host and port.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// Resolves a link on this page; `None` if it does not lead to a page.
    pub fn join(&self, link: &str) -> Option<String> {
        let link = link.trim();
        let origin = self.origin();
        if link.is_empty() || link.starts_with('#') {
            return None;
        }
        if link.starts_with("http://") || link.starts_with("https://") {
            return Some(link.to_owned());
        }
        if let Some(rest) = link.strip_prefix("//") {
            return Some(format!("{}://{rest}", self.scheme));
        }
        if link.starts_with('/') {
            return Some(format!("{origin}{link}"));
        }
        // Links with another scheme (mailto, javascript, data) do not lead to a page.
        if link.split(['/', '?', '#']).next().is_some_and(|start| start.contains(':')) {
            return None;
        }
        let path = self.path.split('?').next().unwrap_or("/");
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Some(format!("{origin}{folder}/{}", link.trim_start_matches("./")))
    }
}

/// Percent-encodes a text for a query or a path segment.
pub fn encode(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) => char::from(b).to_string(),
            b => format!("%{b:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_url_has_three_parts() {
        let url = Url::parse(" HTTPS://a.test:8443?q=1#part ").unwrap();
        assert_eq!((url.origin().as_str(), url.path.as_str()), ("https://a.test:8443", "/?q=1"));
        for text in ["a.test", "ftp://a.test/", "https://", "file:///etc/passwd"] {
            assert_eq!(Url::parse(text).unwrap_err().kind(), ErrorKind::BadRequest, "{text}");
        }
    }

    #[test]
    fn links_lead_from_their_page() {
        let url = Url::parse("https://a.test/docs/page?x=1").unwrap();
        for (link, leads) in [
            ("https://b.test/", Some("https://b.test/")),
            ("//b.test/x", Some("https://b.test/x")),
            ("/top", Some("https://a.test/top")),
            ("next", Some("https://a.test/docs/next")),
            ("./next?y", Some("https://a.test/docs/next?y")),
            ("#part", None),
            ("javascript:alert(1)", None),
            ("mailto:a@b.test", None),
            ("data:text/html,x", None),
        ] {
            assert_eq!(url.join(link).as_deref(), leads, "{link}");
        }
    }

    #[test]
    fn a_query_is_encoded() {
        assert_eq!(encode("a b&c=ü"), "a%20b%26c%3D%C3%BC");
    }
}
