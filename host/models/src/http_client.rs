//! HTTP clients with one TLS provider and one set of root certificates, both compiled in.

use reqwest::redirect;
use std::sync::Arc;
use std::time::Duration;

/// The reason why an HTTP client cannot be set up.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct HttpClientError(String);

/// Returns an HTTP client for the service at an address, with the TLS and the certificate
/// authorities that the model clients use. It follows no redirects, requests to this machine never
/// go through a proxy, and it accepts no compressed answers, which could expand a thousandfold.
///
/// # Errors
/// TLS or the client cannot be set up.
pub fn http_client(
    url: &reqwest::Url,
    connect_timeout: Duration,
) -> Result<reqwest::Client, HttpClientError> {
    builder(url, connect_timeout).and_then(build).map_err(HttpClientError)
}

/// Returns the settings that all clients share.
pub(super) fn builder(
    url: &reqwest::Url,
    connect_timeout: Duration,
) -> Result<reqwest::ClientBuilder, String> {
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls_with(&[]).map_err(|e| format!("TLS cannot be set up: {e}."))?)
        .connect_timeout(connect_timeout)
        .redirect(redirect::Policy::none())
        .no_gzip()
        .user_agent(concat!("tollgate/", env!("CARGO_PKG_VERSION")));
    Ok(match is_loopback(url) {
        true => builder.no_proxy(),
        false => builder,
    })
}

/// Creates the client of these settings.
pub(super) fn build(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, String> {
    builder.build().map_err(|e| format!("the HTTP client cannot be set up: {e}."))
}

/// Returns the TLS settings of every client: one provider, and root certificates that are compiled
/// in. These certificate authorities are trusted in addition.
///
/// # Errors
/// An authority cannot be used, or TLS cannot be set up.
pub fn tls_with(
    authorities: &[rustls::pki_types::CertificateDer<'static>],
) -> Result<rustls::ClientConfig, rustls::Error> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}

/// Returns whether a URL refers to this machine: `localhost`, or a loopback address.
#[must_use]
pub fn is_loopback(url: &reqwest::Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        None => false,
    }
}

/// Returns an error with its causes, on one line. The URL is left out, because it may contain
/// secrets.
#[must_use]
pub fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}
