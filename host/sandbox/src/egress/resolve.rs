//! Name resolution: a limited number of concurrent lookups, each with a short timeout, on
//! dedicated threads.
//!
//! A system lookup cannot be cancelled and may take most of a minute. Therefore it does not run
//! on the runtime's blocking threads, where file operations and loading would queue behind it,
//! and a call that ends does not wait for it. A lookup holds its slot until it ends, even if its
//! caller has stopped waiting.

use futures::future::BoxFuture;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use wasmtime_wasi_http::Error;

/// The maximum number of concurrent lookups.
pub const MAX_LOOKUPS: usize = 16;
/// The maximum for one component, so that slow name servers of its choice leave room for others.
pub const MAX_LOOKUPS_OF_COMPONENT: usize = 8;
/// The maximum for one call.
pub const MAX_LOOKUPS_OF_CALL: usize = 4;
/// The timeout of one lookup.
pub const LOOKUP_TIME: Duration = Duration::from_secs(5);

/// The slots for all lookups of this process.
static LOOKUPS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MAX_LOOKUPS)));

/// Resolves names. Called once per request; the connection goes to one of the returned addresses.
pub trait Resolve: Send + Sync {
    /// Returns the addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// A resolver that asks the system, using a new thread for each lookup.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let ask = move || {
                let addresses = (name.as_str(), 0).to_socket_addrs();
                // The caller may have stopped waiting.
                let _ = answer.send(addresses.map(|all| all.map(|address| address.ip()).collect()));
            };
            std::thread::Builder::new().name("tollgate-dns".to_owned()).spawn(ask)?;
            answered.await.map_err(io::Error::other)?
        })
    }
}

/// Resolves a name as soon as a slot is free here and in the given semaphores.
pub(super) async fn look_up(
    resolver: Arc<dyn Resolve>,
    name: String,
    places: [Arc<Semaphore>; 2],
) -> Result<Vec<IpAddr>, Error> {
    let mut held = Vec::new();
    for place in places.into_iter().chain([Arc::clone(&LOOKUPS)]) {
        held.push(place.acquire_owned().await.map_err(|_| unknown())?);
    }
    let lookup = tokio::spawn(async move {
        let answer = resolver.resolve(&name).await;
        drop(held);
        answer
    });
    match tokio::time::timeout(LOOKUP_TIME, lookup).await {
        Err(_) => Err(Error::DnsTimeout),
        Ok(Ok(Ok(addresses))) => Ok(addresses),
        Ok(_) => Err(unknown()),
    }
}

/// Returns the error for a name without addresses, or whose lookup failed.
pub(super) fn unknown() -> Error {
    Error::DnsError { rcode: None, info_code: None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The only blocking thread is busy, as it would be with other lookups.
    #[test]
    fn z20_lookups_and_file_operations_do_not_wait_for_each_other() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.unwrap();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        runtime.spawn_blocking(move || wait.recv());
        let asked = async {
            tokio::time::timeout(Duration::from_secs(30), SystemResolver.resolve("localhost")).await
        };
        let addresses = runtime.block_on(asked).unwrap().unwrap();
        assert!(addresses.iter().all(IpAddr::is_loopback) && !addresses.is_empty(), "{addresses:?}");
        drop(release);
    }
}
