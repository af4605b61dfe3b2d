//! Sources of components: references to an OCI registry, URLs and files.

use crate::digest::Digest;
use crate::error::{Code, Error, Result};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tollgate_agent::text::clean;
use url::{Host, Url};

/// The longest URL, in bytes.
const MAX_URL_BYTES: usize = 500;
/// The longest host of a registry with its port, in bytes.
const MAX_HOST_BYTES: usize = 260;
/// The longest reference, in bytes: more than its parts can have together, so that each can be read again.
const MAX_BYTES: usize = 1_000;

/// The source of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A repository of an OCI registry.
    Registry(Reference),
    /// A file on a web server.
    Url(Url),
    /// A local file.
    File(PathBuf),
}

impl Source {
    /// Returns the source without tag and digest, as it appears in the lock file and the policy.
    #[must_use]
    pub fn origin(&self) -> String {
        match self {
            Self::Registry(reference) => reference.origin(),
            Self::Url(url) => url.to_string(),
            Self::File(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                format!("file:{}", clean(&name, 200))
            }
        }
    }
}

impl FromStr for Source {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.starts_with("https://") || text.starts_with("http://") {
            return url_source(text);
        }
        if text.starts_with("oci://") {
            return text.parse().map(Self::Registry);
        }
        // `weather.wasm` is a file even if it does not exist: the error about a missing file helps more
        // than one about an invalid reference.
        let is_path = text.starts_with(['.', '/', '~']) || Path::new(text).is_file();
        if is_path || (Path::new(text).extension().is_some_and(|end| end == "wasm") && !text.contains(':')) {
            return Ok(Self::File(text.into()));
        }
        text.parse().map(Self::Registry)
    }
}

/// Returns the source for a URL. It must use HTTPS, except on this machine, and contain no
/// credentials.
fn url_source(text: &str) -> Result<Source> {
    let invalid = |why: &str| {
        let shown = clean(text, 200);
        Error::new(Code::InvalidReference, format!("the URL {shown} {why}"))
    };
    if text.len() > MAX_URL_BYTES {
        return Err(invalid("is too long; use a shorter one"));
    }
    let not_valid =
        |e| invalid(&format!("is not valid: {e}; write one such as https://tools.example.com/weather.wasm"));
    let mut url = Url::parse(text).map_err(not_valid)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("holds credentials; leave them out"));
    }
    if url.scheme() != "https" && !is_loopback(&url) {
        return Err(invalid("is not protected; use https"));
    }
    url.set_fragment(None);
    Ok(Source::Url(url))
}

/// Returns whether the URL leads to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// A reference to an artifact in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The registry, with its port if there is one: `ghcr.io`, `localhost:5000`.
    pub host: String,
    /// The repository: `acme/weather`.
    pub repository: String,
    /// The tag; `latest` if the reference has neither tag nor digest.
    pub tag: Option<String>,
    /// The digest of the manifest.
    pub digest: Option<Digest>,
}

impl Reference {
    /// Returns the repository without tag and digest: `oci://ghcr.io/acme/weather`.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("oci://{}/{}", self.host, self.repository)
    }

    /// Returns the manifest's name in the registry: the digest if there is one, otherwise the tag.
    pub(crate) fn name(&self) -> &str {
        let tag = || self.tag.as_deref().unwrap_or("latest");
        self.digest.as_ref().map_or_else(tag, Digest::as_str)
    }

    /// Returns a reference to the same artifact with this digest.
    #[must_use]
    pub fn at(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// Returns a reference to the same repository with this tag.
    ///
    /// # Errors
    /// The text is not a tag.
    pub fn with_tag(&self, tag: &str) -> Result<Self> {
        if !is_tag(tag) {
            let what = format!("\"{}\" is not a valid tag; write one such as 1.2", clean(tag, 200));
            return Err(Error::new(Code::InvalidReference, what));
        }
        Ok(Self { tag: Some(tag.to_owned()), digest: None, ..self.clone() })
    }

    /// Returns whether the registry is on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        Url::parse(&format!("http://{}/", self.host)).is_ok_and(|url| is_loopback(&url))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin())?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = |why: &str| {
            let shown = clean(text, 200);
            let why = format!("\"{shown}\" {why}; write a reference such as ghcr.io/acme/weather:1.2");
            Error::new(Code::InvalidReference, why)
        };
        let rest = text.strip_prefix("oci://").unwrap_or(text);
        if rest.len() > MAX_BYTES {
            return Err(invalid("is too long"));
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse()?)),
            None => (rest, None),
        };
        let (host, path) = rest.split_once('/').ok_or_else(|| invalid("does not name a repository"))?;
        let (repository, tag) = match path.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (path, None),
        };
        let host = host.to_ascii_lowercase();
        if !could_be_registry(&host) || !is_host(&host) {
            return Err(invalid("does not begin with the host of a registry"));
        }
        if !is_repository(repository) {
            return Err(invalid("does not name a valid repository"));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(invalid("does not name a valid tag"));
        }
        let tag = tag.map(str::to_owned).or_else(|| digest.is_none().then(|| "latest".to_owned()));
        let is_docker = matches!(host.as_str(), "docker.io" | "index.docker.io");
        // A registry has a single spelling, so that one rule of a policy covers it.
        let without_usual_port = host.strip_suffix(":443").filter(|host| could_be_registry(host));
        let host = if is_docker { "docker.io" } else { without_usual_port.unwrap_or(&host) }.to_owned();
        let repository = match is_docker && !repository.contains('/') {
            true => format!("library/{repository}"),
            false => repository.to_owned(),
        };
        Ok(Self { host, repository, tag, digest })
    }
}

/// Returns whether the first part of a reference is the host of a registry and not a part of a name.
fn could_be_registry(host: &str) -> bool {
    host.contains(['.', ':']) || host == "localhost"
}

/// Returns whether the text is a host with an optional port, and is the same when parsed in a URL.
fn is_host(host: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".-:[]".contains(&b);
    if host.is_empty() || host.len() > MAX_HOST_BYTES || !host.bytes().all(plain) {
        return false;
    }
    let Ok(url) = Url::parse(&format!("https://{host}/")) else { return false };
    let Some(parsed) = url.host_str() else { return false };
    let is_address = parsed.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let is_domain = parsed.split('.').all(|label| !label.is_empty() && !label.starts_with('-'));
    // An unusual spelling of an address changes when it is parsed.
    parsed == without_port(host, &url) && url.path() == "/" && (is_address || is_domain)
}

fn without_port<'a>(host: &'a str, url: &Url) -> &'a str {
    host.strip_suffix(&format!(":{}", url.port().unwrap_or(443))).unwrap_or(host)
}

/// Returns whether the text is a repository: parts separated by `/`, in lower case.
fn is_repository(name: &str) -> bool {
    let is_part = |part: &str| {
        let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = part.as_bytes();
        ends(bytes.first())
            && ends(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(b))
            && !part.contains("..")
    };
    name.len() <= 255 && name.split('/').all(is_part)
}

/// Returns whether the text is a tag: up to 128 letters, digits, `_`, `.` and `-`, of which the first
/// is a letter, a digit or `_`.
pub(crate) fn is_tag(tag: &str) -> bool {
    let bytes = tag.as_bytes();
    (1..=128).contains(&bytes.len())
        && (bytes[0].is_ascii_alphanumeric() || bytes[0] == b'_')
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn references_are_read_and_written() {
        let hex = "a".repeat(64);
        for (text, shown) in [
            ("ghcr.io/acme/weather:1.2", "oci://ghcr.io/acme/weather:1.2"),
            ("oci://ghcr.io/acme/weather", "oci://ghcr.io/acme/weather:latest"),
            ("localhost:5000/tool:1", "oci://localhost:5000/tool:1"),
            ("[::1]:5000/tool:1", "oci://[::1]:5000/tool:1"),
            ("docker.io/tool:1", "oci://docker.io/library/tool:1"),
            ("ghcr.io:443/acme/tool:1", "oci://ghcr.io/acme/tool:1"),
            ("GHCR.io/acme/tool:1", "oci://ghcr.io/acme/tool:1"),
            ("registry:443/acme/tool:1", "oci://registry:443/acme/tool:1"),
            ("[::1]:443/tool:1", "oci://[::1]/tool:1"),
            (&format!("ghcr.io/a/b@sha256:{hex}"), &format!("oci://ghcr.io/a/b@sha256:{hex}")),
            (&format!("ghcr.io/a/b:1@sha256:{hex}"), &format!("oci://ghcr.io/a/b:1@sha256:{hex}")),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), shown);
            assert_eq!(shown.parse::<Reference>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn a_reference_of_the_greatest_length_is_read_again() {
        let host = format!("{}io", format!("{}.", "x".repeat(60)).repeat(4));
        let repository = "a".repeat(255);
        let text = format!("oci://{host}/{repository}:{}@sha512:{}", "t".repeat(128), "0".repeat(128));
        assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
    }

    #[test]
    fn references_that_could_be_read_in_two_ways_are_refused() {
        for text in [
            "weather",
            "acme/weather:1",
            "ghcr.io",
            "ghcr.io/",
            "ghcr.io/Acme/tool",
            "ghcr.io/a/../b",
            "ghcr.io/a//b",
            "ghcr.io/a:b:c",
            "ghcr.io/a:",
            "ghcr.io/a@sha256:00",
            "ghcr.io/a@md5:00",
            "user@ghcr.io/a:1",
            "ghcr.io?x=/a:1",
            "ghcr.io#/a:1",
            "gh cr.io/a:1",
            "0x7f.1/a:1",
            "127.1/a:1",
            "ghcr.io:99999/a:1",
            "ghcr.io/a:\u{1b}[31m",
            "-x.io/a:1",
            "ghcr.io%2f/a:1",
            "..io/a:1",
        ] {
            let error = text.parse::<Reference>().expect_err(text);
            assert!(matches!(error.code, Code::InvalidReference | Code::UnsupportedDigest), "{text}");
        }
        assert!(format!("{}.io/a:1", "x".repeat(300)).parse::<Reference>().is_err());
        assert!("http://example.com/tool.wasm".parse::<Source>().is_err());
        assert!("https://user:word@example.com/tool.wasm".parse::<Source>().is_err());
    }

    #[test]
    fn sources_are_told_apart() {
        assert!(matches!("./tool.wasm".parse(), Ok(Source::File(_))));
        assert!(matches!("tool.wasm".parse(), Ok(Source::File(_))));
        assert!(matches!("ghcr.io/acme/tool:1".parse(), Ok(Source::Registry(_))));
        assert!(matches!("https://example.com/tool.wasm".parse(), Ok(Source::Url(_))));
    }
}
