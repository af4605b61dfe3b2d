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
pub use credentials::{Credentials, Login};
pub(crate) use manifest::MAX_MANIFEST_BYTES;
pub use push::{NewArtifact, Published};
pub use referrers::{FoundBundle, Referrers};
pub use transport::Session;

use crate::MAX_COMPONENT_BYTES;
use crate::error::{Code, Error, Result};
use crate::reference::Reference;
use addresses::GlobalOnly;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for the next bytes of a response.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest that everything about one artifact may take.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(300);

/// `[registries."HOST"]`: what is configured about one registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSettings {
    /// Another host that may receive the credentials of this registry, to exchange them for a
    /// token.
    pub token_host: Option<String>,
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
    settings: Arc<Settings>,
}

impl Client {
    /// Creates a client. `builder` makes HTTP clients with the roots and the TLS provider of the
    /// program.
    ///
    /// # Errors
    /// The HTTP client cannot be set up.
    pub fn new(builder: impl Fn() -> reqwest::ClientBuilder, settings: Settings) -> Result<Self> {
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
        let global = build(builder().dns_resolver(Arc::new(GlobalOnly)))?;
        Ok(Self { global, named: build(builder())?, settings: Arc::new(settings) })
    }

    /// Begins everything that is done about one artifact; the time for it starts to run.
    #[must_use]
    pub fn session(&self, reference: Reference) -> Session {
        let deadline = Instant::now() + self.settings.timeout.unwrap_or(SESSION_TIMEOUT);
        Session::new(self.clone(), reference, deadline)
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
