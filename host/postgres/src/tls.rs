//! TLS to the server: rustls with ring. The certificate and its name are always verified.

use crate::config::PostgresConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;
use tollgate_store::StoreError;

/// Returns the TLS connector of this configuration.
pub(crate) fn connector(config: &PostgresConfig) -> Result<MakeRustlsConnect, StoreError> {
    let mut roots = RootCertStore::empty();
    match &config.ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let wrong = |why: &dyn std::fmt::Display| {
                StoreError::unusable(format!("cannot read the certificates in {}: {why}", file.display()))
            };
            for certificate in CertificateDer::pem_file_iter(file).map_err(|e| wrong(&e))? {
                roots.add(certificate.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"it contains none"));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| StoreError::unusable(format!("TLS cannot be set up: {e}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(tls))
}
