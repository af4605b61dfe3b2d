//! The client of an OCI registry.
//!
//! The registry is hostile. Every response has a limit that applies before it is read, every
//! piece of content is checked against the digest that named it, credentials go to the registry's
//! own host and to hosts that were configured, and nothing is reached that is not global unless
//! the user named it.

mod addresses;
mod artifact;
mod auth;
mod credentials;
mod manifest;
mod push;
mod referrers;
mod transport;

pub use artifact::{Artifact, described_by};
pub(crate) use artifact::{LICENCE, licence_in};
pub use credentials::{Credentials, Login};
pub(crate) use manifest::MAX_MANIFEST_BYTES;
pub use push::{NewArtifact, PublishedArtifact};
pub use referrers::{FoundBundle, Referrers, bundle_in, listed_in};
pub use transport::Session;

use crate::MAX_COMPONENT_BYTES;
use crate::error::{Code, Error, Result};
use crate::reference::Reference;
use crate::trust::read_file;
use addresses::GlobalResolver;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tollgate_agent::text::clean;
use url::Url;

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for the next bytes of a response.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest file with certificate authorities, in bytes.
const MAX_AUTHORITIES_BYTES: u64 = 1 << 20;
/// The longest that everything about one artifact may take.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(300);

/// `[registries."HOST"]`: what is configured about one registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSettings {
    /// Another host that may receive the credentials of this registry, to exchange them for a
    /// token.
    pub token_host: Option<String>,
    /// A file with certificate authorities in PEM, which may vouch for this registry and its token
    /// host, in addition to the public ones.
    pub ca: Option<PathBuf>,
    /// Whether requests to a registry on this machine use plain HTTP. By default they do, unless `ca`
    /// is set.
    pub plain_http: Option<bool>,
}

impl HostSettings {
    /// Checks the settings of a registry. A relative path in them begins at `base_dir`.
    ///
    /// # Errors
    /// The host is not one that a reference could name, or plain HTTP is wanted beyond this machine.
    pub fn checked(mut self, host: &str, base_dir: &Path) -> Result<Self> {
        let invalid = |why: &str| {
            let host = clean(host, 200);
            Error::new(Code::InvalidTrust, format!("[registries.\"{host}\"]: {why}"))
        };
        let reference: Reference = format!("{host}/repository").parse().map_err(|_| {
            invalid("the key is not the host of a registry, such as registry.example.com:5000")
        })?;
        if reference.host != host {
            return Err(invalid(&format!("write the host as {}", reference.host)));
        }
        if self.plain_http == Some(true) && !reference.is_loopback() {
            return Err(invalid(
                "`plain_http` is only for registries on this machine; set `ca` for a private one",
            ));
        }
        if self.plain_http == Some(true) && self.ca.is_some() {
            return Err(invalid("`ca` and `plain_http = true` exclude each other; remove one of them"));
        }
        self.ca = self.ca.map(|ca| base_dir.join(ca));
        Ok(self)
    }
}

/// The settings of a client.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Registries by host. Those that are named may have addresses that are not global.
    pub hosts: BTreeMap<String, HostSettings>,
    /// The stored credentials.
    pub credentials: Credentials,
    /// The longest that everything about one artifact may take; 5 minutes if it is `None`.
    pub timeout: Option<Duration>,
}

/// A client of registries and web servers.
#[derive(Debug, Clone)]
pub struct Client {
    /// Reaches global addresses only.
    global: reqwest::Client,
    /// Reaches the hosts that the user named.
    named: reqwest::Client,
    /// Reaches the hosts that have certificate authorities of their own.
    by_host: BTreeMap<String, reqwest::Client>,
    settings: Arc<Settings>,
}

impl Client {
    /// Creates a client. `builder` makes HTTP clients with the roots and the TLS provider of the
    /// program, and with these certificate authorities.
    ///
    /// # Errors
    /// The HTTP client cannot be set up, or a file with certificate authorities cannot be used.
    pub fn new(
        builder: impl Fn(&[CertificateDer<'static>]) -> Result<reqwest::ClientBuilder>,
        settings: Settings,
    ) -> Result<Self> {
        let build = |builder: reqwest::ClientBuilder| {
            let builder = builder
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                // Bodies are hashed exactly as the publisher hashed them, so nothing is decompressed.
                .no_gzip()
                .no_brotli()
                .no_deflate()
                .no_zstd()
                // A proxy would resolve names by itself, past the check of addresses.
                .no_proxy()
                .connect_timeout(CONNECT_TIMEOUT)
                .read_timeout(READ_TIMEOUT);
            let failed = |e| Error::new(Code::Unreachable, format!("the HTTP client cannot be set up: {e}"));
            builder.build().map_err(failed)
        };
        let global = build(builder(&[])?.dns_resolver(Arc::new(GlobalResolver)))?;
        let named = build(builder(&[])?)?;
        let mut by_host = BTreeMap::new();
        for (host, of_host) in &settings.hosts {
            let Some(file) = &of_host.ca else { continue };
            let client = build(builder(&authorities(file)?)?)?;
            by_host.extend(of_host.token_host.clone().map(|token_host| (token_host, client.clone())));
            by_host.insert(host.clone(), client);
        }
        Ok(Self { global, named, by_host, settings: Arc::new(settings) })
    }

    /// Returns whether requests to this registry use plain HTTP.
    fn is_plain(&self, reference: &Reference) -> bool {
        let settings = self.settings.hosts.get(&reference.host);
        let is_wanted = settings.is_none_or(|of_host| of_host.plain_http.unwrap_or(of_host.ca.is_none()));
        is_wanted && reference.is_loopback()
    }

    /// Begins everything that is done about one artifact; the time for it starts to run.
    #[must_use]
    pub fn session(&self, reference: Reference) -> Session {
        let deadline = Instant::now() + self.settings.timeout.unwrap_or(SESSION_TIMEOUT);
        Session::new(self.clone(), reference, deadline)
    }

    /// Asks a registry whether it speaks the protocol, without credentials.
    ///
    /// # Errors
    /// It cannot be reached, or is no registry.
    pub async fn check(&self, host: &str) -> Result<()> {
        let (host, repository) = (host.to_owned(), String::new());
        self.session(Reference { host, repository, tag: None, digest: None }).check().await
    }

    /// Downloads a component from a web server.
    ///
    /// # Errors
    /// It cannot be fetched, or is larger than a component may be.
    pub async fn download(&self, url: &Url) -> Result<Vec<u8>> {
        let deadline = Instant::now() + self.settings.timeout.unwrap_or(SESSION_TIMEOUT);
        Session::of_url(self.clone(), url, deadline).download(url, MAX_COMPONENT_BYTES).await
    }
}

/// Reads certificate authorities from a file.
fn authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let invalid = |why: &str| {
        let what = format!("the certificate authorities in {} cannot be used: {why}", file.display());
        Error::new(Code::InvalidTrust, what)
    };
    let text = read_file(file, MAX_AUTHORITIES_BYTES)?;
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let found = found.map_err(|e| invalid(&e.to_string()))?;
    if found.is_empty() { Err(invalid("it holds no certificate in PEM")) } else { Ok(found) }
}
