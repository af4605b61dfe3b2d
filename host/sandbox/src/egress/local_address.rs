//! Detects addresses of this machine in any range. A service that listens on a public address of
//! the host must be protected like one on its loopback.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Returns whether packets to the address stay on this machine. The system is asked each time,
/// because addresses change: for a local destination it chooses the same address as the source.
/// Nothing is sent.
///
/// # Errors
/// Fails if the system does not answer, for example for lack of descriptors.
pub(super) fn is_local(address: IpAddr) -> io::Result<bool> {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // The discard port; connecting a UDP socket sends nothing.
    match socket.connect((address, 9)) {
        Ok(()) => {
            let source = socket.local_addr()?.ip();
            // For a range that is entirely local, the system may choose a loopback address.
            Ok(source == address || source.is_loopback())
        }
        // An unroutable address is not local.
        Err(why) if is_unreachable(&why) => Ok(false),
        Err(why) => Err(why),
    }
}

fn is_unreachable(why: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkUnreachable, PermissionDenied};
    // Broadcast addresses are not permitted, and a route may be prohibited.
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
            assert_eq!(is_local(address.parse().unwrap()).unwrap(), expected, "{address}");
        }
        // The address from which packets leave, if there is a route out.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            assert!(is_local(socket.local_addr().unwrap().ip()).unwrap());
        }
    }
}
