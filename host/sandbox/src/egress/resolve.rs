//! Names to addresses.

use futures::future::BoxFuture;
use std::io;
use std::net::IpAddr;

/// Resolves names. It is asked once for each request, and the connection goes to
/// one of the addresses that it then gave.
pub trait Resolve: Send + Sync {
    /// The addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Asks the system.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name, 0)).await?;
            Ok(addresses.map(|address| address.ip()).collect())
        })
    }
}
