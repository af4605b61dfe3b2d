//! The HTTP client that models are reached through.

use super::Options;
use crate::models::config::is_loopback;
use reqwest::redirect;
use std::sync::Arc;
use std::time::Duration;

/// A client with one TLS provider and one set of roots, both compiled in.
///
/// It follows no redirect: a key in a header of the provider's own would be
/// sent along to wherever the redirect points. This machine is never reached
/// through a proxy.
pub(super) fn client(options: &Options) -> Result<reqwest::Client, String> {
    http_client(&options.base_url, options.limits.connect)
}

/// As [`client`], for whatever lies at this address.
pub(crate) fn http_client(url: &reqwest::Url, connect_timeout: Duration) -> Result<reqwest::Client, String> {
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls().map_err(|e| format!("TLS cannot be set up: {e}."))?)
        .connect_timeout(connect_timeout)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("tollgate/", env!("CARGO_PKG_VERSION")));
    let builder = match is_loopback(url) {
        true => builder.no_proxy(),
        false => builder,
    };
    builder.build().map_err(|e| format!("the HTTP client cannot be set up: {e}."))
}

pub(crate) fn tls() -> Result<rustls::ClientConfig, rustls::Error> {
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}
