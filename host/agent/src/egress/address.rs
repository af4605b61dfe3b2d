//! IP addresses: which are globally reachable, and the ranges that are not.

use super::ParseError;
use crate::text::clean;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// IPv4 ranges that are not global, each with its description.
const NOT_GLOBAL_V4: &[(Ipv4Net, &str)] = &[
    (v4([0, 0, 0, 0], 8), "this network"),
    (v4([10, 0, 0, 0], 8), "private"),
    (v4([100, 64, 0, 0], 10), "shared by a provider's customers"),
    (v4([127, 0, 0, 0], 8), "this machine"),
    (v4([168, 63, 129, 16], 32), "a cloud's own service"),
    (v4([169, 254, 0, 0], 16), "link-local, where clouds keep their metadata"),
    (v4([172, 16, 0, 0], 12), "private"),
    (v4([192, 0, 0, 0], 24), "reserved for protocols"),
    (v4([192, 0, 2, 0], 24), "for documentation"),
    (v4([192, 88, 99, 0], 24), "a relay of 6to4"),
    (v4([192, 168, 0, 0], 16), "private"),
    (v4([198, 18, 0, 0], 15), "for benchmarks"),
    (v4([198, 51, 100, 0], 24), "for documentation"),
    (v4([203, 0, 113, 0], 24), "for documentation"),
    (v4([224, 0, 0, 0], 4), "multicast"),
    (v4([240, 0, 0, 0], 4), "reserved"),
];

/// The only IPv6 range from which hosts are assigned addresses.
const UNICAST_V6: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// Ranges within [`UNICAST_V6`] that are not global, each with its description.
const NOT_GLOBAL_V6: &[(Ipv6Net, &str)] = &[
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "reserved for protocols"),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "for documentation"),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "6to4, which maps to an IPv4 address"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "for documentation"),
];

const fn v4([a, b, c, d]: [u8; 4], bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), bits)
}

/// Describes the address if it is not a global internet address. IPv6 addresses that map to IPv4
/// (mapped, NAT64, 6to4) are not global, whatever they map to.
#[must_use]
pub fn not_global(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => {
            let range = NOT_GLOBAL_V4.iter().find(|(range, _)| range.contains(&v4));
            range.map(|(_, what)| *what)
        }
        IpAddr::V6(v6) if v6.is_loopback() => Some("this machine"),
        IpAddr::V6(v6) if !UNICAST_V6.contains(&v6) => {
            Some("not an internet address (local, multicast, or mapped to IPv4)")
        }
        IpAddr::V6(v6) => {
            let range = NOT_GLOBAL_V6.iter().find(|(range, _)| range.contains(&v6));
            range.map(|(_, what)| *what)
        }
    }
}

/// A range of addresses, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange(IpNet);

impl AddressRange {
    /// Returns whether the range contains the address. An IPv4 range never contains an IPv6 address
    /// that maps to IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromStr for AddressRange {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let shown = clean(text, 100);
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| {
            ParseError(format!(
                "\"{shown}\" is not an address range; write one such as \"10.0.0.0/8\" or \"::1\""
            ))
        })?;
        let range = IpNet::from(address);
        let range = match bits {
            None => range,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|_| bits.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|bits| IpNet::new(address, bits).ok())
                .ok_or_else(|| {
                    let most = range.max_prefix_len();
                    ParseError(format!(
                        "\"{shown}\" has no valid prefix length; write 0 to {most} after the slash"
                    ))
                })?,
        };
        if range.network() != address {
            return Err(ParseError(format!(
                "\"{shown}\" is not the first address of its range; write \"{}\"",
                range.trunc()
            )));
        }
        Ok(Self(range))
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
