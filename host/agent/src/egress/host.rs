//! The host of a request: a name, or an address in its one canonical form.
//!
//! Addresses can be written in many ways (`2130706433`, `0x7f.1`, `0177.0.0.1`), and resolvers
//! disagree on which of them they accept. Here IPv4 and IPv6 have one form each. Anything else that
//! looks like a number is refused.

use super::ParseError;
use crate::text::clean;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest host name, in bytes.
const MAX_NAME_BYTES: usize = 253;
/// The longest label of a host name, in bytes.
const MAX_LABEL_BYTES: usize = 63;

/// The host of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// A name in lower case, without the trailing dot.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl Host {
    /// Parses a host in the form used in an authority: IPv6 in brackets.
    ///
    /// # Errors
    /// The text is neither a host name nor an address in its canonical form.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let shown = clean(text, 100);
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let address: Ipv6Addr = inner.parse().map_err(|_| {
                ParseError(format!("\"{shown}\" is not an IPv6 address; write one such as [2001:db8::1]"))
            })?;
            return Ok(Host::Address(address.into()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Host::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.split('.').all(is_label) {
            return Err(ParseError(format!(
                "\"{shown}\" is not a host name; use letters, digits and hyphens \
                 (write names in other scripts in their xn-- form)"
            )));
        }
        if name.rsplit('.').next().is_some_and(looks_like_a_number) {
            return Err(ParseError(format!(
                "\"{shown}\" ends in a number but is not a canonical address; write one such as 192.0.2.1"
            )));
        }
        Ok(Host::Name(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

fn is_label(label: &str) -> bool {
    (1..=MAX_LABEL_BYTES).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Returns whether some parser takes a host with this last label for an address.
fn looks_like_a_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|b| b.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_and_addresses_have_one_form() {
        for (text, host) in [
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("[0:0:0:0:0:ffff:7f00:1]", "[::ffff:127.0.0.1]"),
            ("a_b.example.com", "a_b.example.com"),
            ("1.example", "1.example"),
        ] {
            assert_eq!(Host::parse(text).unwrap().to_string(), host);
        }
    }

    #[test]
    fn other_forms_of_addresses_are_refused() {
        for text in [
            "2130706433",
            "0x7f000001",
            "0x7f.0.0.1",
            "0177.0.0.1",
            "127.1",
            "127.0.0.1.",
            "0",
            "1.2.3",
            "127.0.0.01",
            "example.0x1",
            "256.0.0.1",
            "1.2.3.4.5",
            "[127.0.0.1]",
            "[::1",
            "::1",
            "[fe80::1%25eth0]",
            "",
            ".",
            "a..b",
            "-a.example",
            "a-.example",
            "ex ample.com",
            "exämple.com",
            "127。0。0。1",
            "a@b",
            "a/b",
            "a\\b",
            "a:b",
            "%31%32%37.0.0.1",
        ] {
            assert!(Host::parse(text).is_err(), "{text}");
        }
        assert!(Host::parse(&"a".repeat(64)).is_err());
        assert!(Host::parse(&"a.".repeat(128)).is_err());
    }
}
