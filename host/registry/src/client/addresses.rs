//! The addresses that requests may reach: global ones, and those of hosts that the user named.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::io;
use std::net::{IpAddr, SocketAddr};
use tollgate_agent::egress::not_global;
use url::{Host, Url};

/// The beginning of the message about a refused address, by which it is recognised among the
/// causes of a failed request.
pub(super) const REFUSED: &str = "the address is not global";

/// Resolves names to global addresses only.
#[derive(Debug)]
pub(super) struct GlobalResolver;

impl Resolve for GlobalResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let first = found.first().copied();
            let global: Vec<_> = found.into_iter().filter(|at| not_global(at.ip()).is_none()).collect();
            match first {
                Some(first) if global.is_empty() => {
                    Err(io::Error::other(refusal(name.as_str(), first.ip())).into())
                }
                _ => Ok(Box::new(global.into_iter()) as Addrs),
            }
        })
    }
}

/// Returns why a URL whose host is an address is refused. Names are checked when they are resolved.
pub(super) fn refused(url: &Url) -> Option<String> {
    let address: IpAddr = match url.host()? {
        Host::Ipv4(address) => address.into(),
        Host::Ipv6(address) => address.into(),
        Host::Domain("localhost") => return Some(format!("{REFUSED}: localhost is this machine")),
        Host::Domain(_) => return None,
    };
    not_global(address).map(|_| refusal(&address.to_string(), address))
}

fn refusal(name: &str, address: IpAddr) -> String {
    let what = not_global(address).unwrap_or("unknown");
    let resolved = if name == address.to_string() { String::new() } else { format!("{address}, which is ") };
    format!("{REFUSED}: {name} is {resolved}{what}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_name_of_an_address_that_is_not_global_is_not_resolved() {
        let refused = GlobalResolver.resolve("localhost".parse().unwrap()).await.err().unwrap().to_string();
        assert!(refused.starts_with("the address is not global: localhost is "), "{refused}");
    }
}
