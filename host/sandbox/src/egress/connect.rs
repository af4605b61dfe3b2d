//! Opens connections to targets. The name is resolved once, disallowed addresses are dropped, and
//! the connection goes to one of the remaining addresses.

use super::resolve::{self, MAX_LOOKUPS_OF_COMPONENT};
use super::{HttpGrant, Resolve, SystemResolver, local_address};
use crate::ledger::Ledger;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tollgate_agent::egress::{Host, Scheme, Target, not_global};
use wasmtime_wasi_http::Error;

/// The maximum number of addresses to try for one name.
const MAX_ADDRESSES: usize = 8;

/// Opens connections.
pub(super) struct Connector {
    pub(super) resolver: Arc<dyn Resolve>,
    /// The slots for the component's lookups.
    lookups: Arc<Semaphore>,
    /// Returns whether an address belongs to this machine.
    pub(super) is_local: fn(IpAddr) -> io::Result<bool>,
    tls: Arc<ClientConfig>,
}

/// A connection, with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Default for Connector {
    fn default() -> Self {
        let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.into() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)
            .map(|builder| builder.with_root_certificates(roots).with_no_client_auth());
        // ring supports every version that rustls does, so this cannot fail.
        let mut tls = tls.unwrap_or_else(|_| unreachable!("ring serves the usual versions"));
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self {
            resolver: Arc::new(SystemResolver),
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS_OF_COMPONENT)),
            is_local: local_address::is_local,
            tls: Arc::new(tls),
        }
    }
}

impl HttpGrant {
    /// Opens a connection to the target if one of its addresses is allowed.
    pub(super) async fn connect(
        &self,
        target: &Target,
        ledger: &Ledger,
        within: Duration,
        lookups: Arc<Semaphore>,
    ) -> Result<Box<dyn Stream>, Error> {
        let addresses = tokio::time::timeout(within, self.addresses(target, lookups))
            .await
            .map_err(|_| Error::DnsTimeout)??;
        let reachable = self.reachable(target, addresses, ledger)?;
        tokio::time::timeout(within, self.open(target, &reachable))
            .await
            .map_err(|_| Error::ConnectionTimeout)?
    }

    /// Filters the addresses down to those that are allowed.
    fn reachable(
        &self,
        target: &Target,
        addresses: Vec<IpAddr>,
        ledger: &Ledger,
    ) -> Result<Vec<IpAddr>, Error> {
        let mut reachable = Vec::new();
        let mut prohibited = Vec::new();
        for address in addresses {
            let asked = not_global(address).is_none().then(|| (self.connector.is_local)(address));
            // An address is skipped if its owner cannot be determined.
            let Ok(is_local) = asked.unwrap_or(Ok(false)) else { continue };
            if self.egress.reaches(target, address, is_local) {
                reachable.push(address);
            } else {
                prohibited.push(address);
            }
        }
        if reachable.is_empty() && prohibited.is_empty() {
            return Err(Error::DestinationUnavailable);
        }
        if reachable.is_empty() {
            for address in prohibited {
                let what = not_global(address).unwrap_or("an address of this machine");
                ledger.deny(&format!(
                    "http {target}: {address} is {what}; addresses = [\"{address}\"] would grant it"
                ));
            }
            return Err(Error::DestinationIpProhibited);
        }
        Ok(reachable)
    }

    async fn addresses(&self, target: &Target, lookups: Arc<Semaphore>) -> Result<Vec<IpAddr>, Error> {
        let name = match &target.host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name.clone(),
        };
        let resolver = Arc::clone(&self.connector.resolver);
        let places = [lookups, Arc::clone(&self.connector.lookups)];
        let mut addresses = resolve::look_up(resolver, name, places).await?;
        addresses.truncate(MAX_ADDRESSES);
        if addresses.is_empty() { Err(resolve::unknown()) } else { Ok(addresses) }
    }

    async fn open(&self, target: &Target, addresses: &[IpAddr]) -> Result<Box<dyn Stream>, Error> {
        let mut last = Error::DestinationNotFound;
        for address in addresses {
            match TcpStream::connect(SocketAddr::new(*address, target.port)).await {
                Ok(stream) => return self.secure(target, stream).await,
                Err(why) => last = unconnected(&why),
            }
        }
        Err(last)
    }

    async fn secure(&self, target: &Target, stream: TcpStream) -> Result<Box<dyn Stream>, Error> {
        // Requests are written whole; delaying them has no benefit.
        let _ = stream.set_nodelay(true);
        if target.scheme == Scheme::Http {
            return Ok(Box::new(stream));
        }
        let server = match &target.host {
            Host::Address(address) => ServerName::from(*address),
            Host::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|_| Error::HttpRequestUriInvalid)?
            }
        };
        let connector = TlsConnector::from(Arc::clone(&self.connector.tls));
        match connector.connect(server, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(why) => Err(insecure(&why)),
        }
    }
}

fn unconnected(why: &io::Error) -> Error {
    match why.kind() {
        io::ErrorKind::ConnectionRefused => Error::ConnectionRefused,
        io::ErrorKind::TimedOut => Error::ConnectionTimeout,
        _ => Error::DestinationUnavailable,
    }
}

fn insecure(why: &io::Error) -> Error {
    let why = why.get_ref().and_then(|why| why.downcast_ref::<rustls::Error>());
    match why {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            Error::TlsCertificateError
        }
        _ => Error::TlsProtocolError,
    }
}
