//! The network destinations that a tool's requests may reach. Nothing here sends anything. A
//! request becomes a [`Target`], which is parsed once, strictly. An operator's grants become
//! [`HttpPattern`]s. An [`Egress`] decides whether the patterns cover the target and which
//! addresses its name may resolve to.

mod address;
mod host;
mod pattern;
mod target;

pub use address::{AddressRange, not_global};
pub use host::Host;
pub use pattern::HttpPattern;
pub use target::{Origin, Scheme, Target};

use std::net::IpAddr;

/// The reason why a text cannot be parsed: a sentence that says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub(crate) String);

/// The network access of a component: the granted requests, narrowed to those that its manifest asks
/// for, if the manifest lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Egress {
    granted: Vec<HttpPattern>,
    /// The requests that the component asks for; `None` if it has no list of them.
    asked: Option<Vec<HttpPattern>>,
    /// The granted ranges of addresses that are not global.
    addresses: Vec<AddressRange>,
}

impl Egress {
    /// Creates access from the granted requests and the granted ranges of non-global addresses.
    #[must_use]
    pub fn new(granted: Vec<HttpPattern>, addresses: Vec<AddressRange>) -> Self {
        Self { granted, asked: None, addresses }
    }

    /// Narrows the access to the requests that the component asks for.
    #[must_use]
    pub fn narrowed_to(mut self, asked: Vec<HttpPattern>) -> Self {
        self.asked = Some(asked);
        self
    }

    /// Returns whether no request at all is permitted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.granted.is_empty() || self.asked.as_ref().is_some_and(Vec::is_empty)
    }

    /// Returns whether the request may be sent, before its name is resolved.
    #[must_use]
    pub fn permits(&self, target: &Target) -> bool {
        let within = |patterns: &[HttpPattern]| patterns.iter().any(|pattern| pattern.permits(target));
        within(&self.granted) && self.asked.as_deref().is_none_or(within)
    }

    /// Returns whether a permitted request may go to this address. The address must be global and
    /// not this machine's own, be in a granted range, or be named literally by a grant.
    #[must_use]
    pub fn reaches(&self, target: &Target, address: IpAddr, is_own: bool) -> bool {
        not_global(address).is_none() && !is_own
            || self.addresses.iter().any(|range| range.contains(address))
            || self.granted.iter().any(|pattern| pattern.names(address) && pattern.permits(target))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn egress(patterns: &[&str], ranges: &[&str]) -> Egress {
        let patterns = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        Egress::new(patterns, ranges.iter().map(|range| range.parse().unwrap()).collect())
    }

    fn get(url: &str) -> Target {
        let (scheme, rest) = url.split_once("://").unwrap();
        let at = rest.find('/').unwrap();
        Target::parse("GET", scheme, &rest[..at], &rest[at..]).unwrap()
    }

    #[test]
    fn what_is_asked_and_granted_is_let_through_and_nothing_else() {
        let granted = egress(&["https://*.example.com/"], &[]);
        assert!(granted.permits(&get("https://api.example.com/v1")));
        let narrowed = granted.clone().narrowed_to(vec!["https://api.example.com/v1/".parse().unwrap()]);
        assert!(narrowed.permits(&get("https://api.example.com/v1/x")));
        assert!(!narrowed.permits(&get("https://api.example.com/v2/x")), "granted, not asked");
        let wider = granted.narrowed_to(vec!["https://*".parse().unwrap()]);
        assert!(!wider.permits(&get("https://example.org/")), "asked, not granted");
    }

    #[test]
    fn an_address_that_is_not_global_needs_its_range() {
        let target = get("https://intern.example.com/");
        let (private, public) = ("10.1.2.3".parse().unwrap(), "93.184.216.34".parse().unwrap());
        let without = egress(&["https://intern.example.com/"], &[]);
        assert!(without.reaches(&target, public, false) && !without.reaches(&target, private, false));
        let with = egress(&["https://intern.example.com/"], &["10.0.0.0/8"]);
        assert!(with.reaches(&target, private, false));
        assert!(!with.reaches(&target, "::ffff:10.1.2.3".parse().unwrap(), false), "another range");
    }

    #[test]
    fn z23_an_address_of_this_machine_needs_its_range() {
        let target = get("https://public.example.com/");
        let own = "93.184.216.34".parse().unwrap();
        assert!(!egress(&["https://public.example.com/"], &[]).reaches(&target, own, true));
        assert!(egress(&["https://public.example.com/"], &["93.184.216.34"]).reaches(&target, own, true));
    }

    #[test]
    fn a_grant_that_names_an_address_reaches_it_and_no_other() {
        let egress = egress(&["http://127.0.0.1:8080/", "http://name.test:8080/"], &[]);
        let local = get("http://127.0.0.1:8080/x");
        assert!(egress.reaches(&local, "127.0.0.1".parse().unwrap(), true));
        assert!(!egress.reaches(&local, "127.0.0.2".parse().unwrap(), true));
        let named = get("http://name.test:8080/x");
        assert!(!egress.reaches(&named, "127.0.0.1".parse().unwrap(), true), "a name leads nowhere local");
    }
}
