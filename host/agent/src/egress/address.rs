//! IP addresses: which are globally reachable, and the ranges that are not.

use super::Unfit;
use crate::text::clean;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// IPv4 ranges that are not global, each with its description.
const NOT_GLOBAL_V4: &[(Ipv4Addr, u8, &str)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this network"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared by a provider's customers"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "this machine"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a cloud's own service"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local, where clouds keep their metadata"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved for protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a relay of 6to4"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// The only IPv6 range from which hosts are assigned addresses.
const UNICAST_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Ranges within [`UNICAST_V6`] that are not global, each with its description.
const NOT_GLOBAL_V6: &[(Ipv6Addr, u8, &str)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "reserved for protocols"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "for documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4, which maps to an IPv4 address"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "for documentation"),
];

/// Describes the address if it is not a global internet address. IPv6 addresses that map to IPv4
/// (mapped, NAT64, 6to4) are not global, whatever they map to.
#[must_use]
pub fn not_global(address: IpAddr) -> Option<&'static str> {
    let within = |network: IpAddr, bits| AddressRange { network, bits }.contains(address);
    match address {
        IpAddr::V4(_) => NOT_GLOBAL_V4
            .iter()
            .find(|(network, bits, _)| within((*network).into(), *bits))
            .map(|(_, _, what)| *what),
        IpAddr::V6(v6) if v6.is_loopback() => Some("this machine"),
        IpAddr::V6(_) if !within(UNICAST_V6.0.into(), UNICAST_V6.1) => {
            Some("not an internet address (local, multicast, or mapped to IPv4)")
        }
        IpAddr::V6(_) => NOT_GLOBAL_V6
            .iter()
            .find(|(network, bits, _)| within((*network).into(), *bits))
            .map(|(_, _, what)| *what),
    }
}

/// A range of addresses, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    network: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// Returns whether the range contains the address. An IPv4 range never contains an IPv6 address
    /// that maps to IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (u32::from(network) ^ u32::from(address)) & mask == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                (u128::from(network) ^ u128::from(address)) & mask == 0
            }
            _ => false,
        }
    }

    /// Returns the first address of the range.
    fn start(self) -> IpAddr {
        match self.network {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                Ipv4Addr::from(u32::from(v4) & mask).into()
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                Ipv6Addr::from(u128::from(v6) & mask).into()
            }
        }
    }
}

impl FromStr for AddressRange {
    type Err = Unfit;

    fn from_str(text: &str) -> Result<Self, Unfit> {
        let shown = clean(text, 100);
        let (network, bits) =
            text.split_once('/').map_or((text, None), |(network, bits)| (network, Some(bits)));
        let network: IpAddr = network.parse().map_err(|_| {
            Unfit(format!("\"{shown}\" is not an address range; write one such as \"10.0.0.0/8\" or \"::1\""))
        })?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= most && !text.ends_with(|c: char| !c.is_ascii_digit()))
                .ok_or_else(|| {
                    Unfit(format!(
                        "\"{shown}\" has no valid prefix length; write 0 to {most} after the slash"
                    ))
                })?,
        };
        let range = Self { network, bits };
        let start = range.start();
        if start != network {
            return Err(Unfit(format!(
                "\"{shown}\" is not the first address of its range; write \"{start}/{bits}\""
            )));
        }
        Ok(range)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.bits)
    }
}

impl Serialize for AddressRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AddressRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_not_of_the_internet_is_known() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(not_global(address.parse().unwrap()).is_some(), "{address}");
        }
    }

    #[test]
    fn what_is_of_the_internet_is_global() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.15",
            "2001:200::1",
            "2606:4700:4700::1111",
            "2a00:1450:4001::1",
            "2003::1",
        ] {
            assert_eq!(not_global(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn ranges_hold_what_is_in_them() {
        let range: AddressRange = "192.168.4.0/22".parse().unwrap();
        for (address, is_in) in [("192.168.4.0", true), ("192.168.7.255", true), ("192.168.8.0", false)] {
            assert_eq!(range.contains(address.parse().unwrap()), is_in, "{address}");
        }
        let everything: AddressRange = "0.0.0.0/0".parse().unwrap();
        assert!(everything.contains("255.1.2.3".parse().unwrap()));
        assert!(!everything.contains("::ffff:1.2.3.4".parse().unwrap()));
        let one: AddressRange = "::1".parse().unwrap();
        assert_eq!(one.to_string(), "::1/128");
        assert!(!one.contains("::2".parse().unwrap()));
    }

    #[test]
    fn a_range_that_is_none_says_what_to_type() {
        for (text, words) in [
            ("10.0.0.1/8", "\"10.0.0.0/8\""),
            ("10.0.0.0/33", "0 to 32"),
            ("10.0.0.0/8x", "0 to 32"),
            ("fe80::1/10", "\"fe80::/10\""),
            ("intern", "such as"),
            ("127.1", "such as"),
        ] {
            let why = text.parse::<AddressRange>().unwrap_err().to_string();
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}
