//! Whether an address is one of this machine's, whatever its range: a service that listens
//! on a public address of the host is as much the host's own as one on its loopback.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Whether packets to the address stay on this machine. The system is asked each time, as
/// addresses come and go: for an address of its own it chooses that same address as the
/// source. Nothing is sent.
///
/// # Errors
/// The system did not say, for want of descriptors for example.
pub(super) fn is_own(address: IpAddr) -> io::Result<bool> {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // The port of the discard service; none is reached.
    match socket.connect((address, 9)) {
        Ok(()) => {
            let source = socket.local_addr()?.ip();
            // Of a range that is all its own it may choose an address of its loopback.
            Ok(source == address || source.is_loopback())
        }
        // Where no way leads is not here.
        Err(why) if is_unreachable(&why) => Ok(false),
        Err(why) => Err(why),
    }
}

fn is_unreachable(why: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkUnreachable, PermissionDenied};
    // A broadcast address is not permitted, and a way may be prohibited.
    matches!(why.kind(), AddrNotAvailable | HostUnreachable | NetworkUnreachable | PermissionDenied)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn z23_addresses_of_this_machine_are_known() {
        for (address, expected) in
            [("127.0.0.1", true), ("127.8.9.10", true), ("192.0.2.1", false), ("1.1.1.1", false)]
        {
            assert_eq!(is_own(address.parse().unwrap()).unwrap(), expected, "{address}");
        }
        // The address from which packets leave, if there is a way out.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            assert!(is_own(socket.local_addr().unwrap().ip()).unwrap());
        }
    }
}
