//! The known ways to connect to a server.

use super::connection::StartMethod;

/// The knowledge about one server. A way that worked is used again, and is dropped only after it
/// failed twice in a row. If none is known, both are tried.
#[derive(Debug, Default)]
pub(super) struct KnownStartMethod {
    known: Option<StartMethod>,
    /// The last attempt in that way succeeded.
    worked: bool,
}

impl KnownStartMethod {
    /// Returns the way to connect; `None` if both are to be tried.
    pub(super) fn known(&self) -> Option<StartMethod> {
        self.known
    }

    pub(super) fn works(&mut self, way: StartMethod) {
        *self = Self { known: Some(way), worked: true };
    }

    /// Records that the server did not start in the way that was tried: it ended, or refused.
    pub(super) fn failed(&mut self) {
        let next = match self.known {
            Some(way) if !self.worked => way.alternative(),
            Some(way) => way,
            None => StartMethod::Newest,
        };
        *self = Self { known: Some(next), worked: false };
    }

    /// Records that the server did not start in time, which says nothing about the way.
    pub(super) fn timed_out(&mut self) {
        *self = Self { known: self.known.filter(|_| self.worked), worked: false };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_worked_is_left_once_it_failed_twice() {
        let mut ways = KnownStartMethod::default();
        ways.works(StartMethod::Newest);
        ways.failed();
        assert_eq!(ways.known(), Some(StartMethod::Newest));
        ways.failed();
        assert_eq!(ways.known(), Some(StartMethod::Handshake));
        ways.failed();
        assert_eq!(ways.known(), Some(StartMethod::Newest), "one by one while none works");
    }

    #[test]
    fn a_server_that_takes_too_long_is_tried_in_both_ways() {
        let mut ways = KnownStartMethod::default();
        ways.timed_out();
        assert_eq!(ways.known(), None);
        ways.works(StartMethod::Newest);
        ways.timed_out();
        assert_eq!(ways.known(), Some(StartMethod::Newest), "once it worked");
        ways.timed_out();
        assert_eq!(ways.known(), None);
    }
}
