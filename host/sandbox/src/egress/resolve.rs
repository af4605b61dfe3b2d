//! Names to addresses: few at once, each for a short time, and on threads of their own.
//!
//! A question to the system cannot be taken back, and may take the better part of a minute.
//! So it is not asked on the runtime's threads for blocking work, where operations on files
//! and loading would wait behind it, and a call that ends does not wait for it. A lookup
//! keeps its place until it has ended, whoever still waits for it.

use futures::future::BoxFuture;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use wasmtime_wasi_http::Error;

/// How many lookups are in progress at once.
pub const MAX_LOOKUPS: usize = 16;
/// How many of them may be of one component, so that slow servers of its choice leave room
/// for others.
pub const MAX_LOOKUPS_OF_COMPONENT: usize = 8;
/// How many of them may be of one call.
pub const MAX_LOOKUPS_OF_CALL: usize = 4;
/// How long one is waited for.
pub const LOOKUP_TIME: Duration = Duration::from_secs(5);

/// The places of all lookups of this process.
static LOOKUPS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MAX_LOOKUPS)));

/// Resolves names. It is asked once for each request, and the connection goes to
/// one of the addresses that it then gave.
pub trait Resolve: Send + Sync {
    /// The addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Asks the system, each time on a thread of its own.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let ask = move || {
                let addresses = (name.as_str(), 0).to_socket_addrs();
                // Nobody may wait any longer.
                let _ = answer.send(addresses.map(|all| all.map(|address| address.ip()).collect()));
            };
            std::thread::Builder::new().name("tollgate-dns".to_owned()).spawn(ask)?;
            answered.await.map_err(io::Error::other)?
        })
    }
}

/// Resolves a name once there is room for it here and in the given places.
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

/// The error for a name that has no address, or of which none could be found out.
pub(super) fn unknown() -> Error {
    Error::DnsError { rcode: None, info_code: None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The one thread for blocking work is taken, as it would be by others' lookups.
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
