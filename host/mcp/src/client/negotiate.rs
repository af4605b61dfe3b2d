//! The known methods to connect to a server.

use super::connection::StartMethod;

/// The knowledge about one server. A method that worked is used again, and is dropped only after it
/// failed twice in a row. If none is known, both are tried.
#[derive(Debug, Default)]
pub(super) struct KnownStartMethod {
    known: Option<StartMethod>,
    /// The last attempt by that method succeeded.
    worked: bool,
}

impl KnownStartMethod {
    /// Returns the method to connect; `None` if both are to be tried.
    pub(super) fn known(&self) -> Option<StartMethod> {
        self.known
    }

    pub(super) fn works(&mut self, method: StartMethod) {
        *self = Self { known: Some(method), worked: true };
    }

    /// Records that the server did not start by the method that was tried: it ended, or refused.
    pub(super) fn failed(&mut self) {
        let next = match self.known {
            Some(method) if !self.worked => method.alternative(),
            Some(method) => method,
            None => StartMethod::Newest,
        };
        *self = Self { known: Some(next), worked: false };
    }

    /// Records that the server did not start in time, which says nothing about the method.
    pub(super) fn timed_out(&mut self) {
        *self = Self { known: self.known.filter(|_| self.worked), worked: false };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_worked_is_left_once_it_failed_twice() {
        let mut methods = KnownStartMethod::default();
        methods.works(StartMethod::Newest);
        methods.failed();
        assert_eq!(methods.known(), Some(StartMethod::Newest));
        methods.failed();
        assert_eq!(methods.known(), Some(StartMethod::Handshake));
        methods.failed();
        assert_eq!(methods.known(), Some(StartMethod::Newest), "one by one while none works");
    }

    #[test]
    fn a_server_that_takes_too_long_is_tried_by_both_methods() {
        let mut methods = KnownStartMethod::default();
        methods.timed_out();
        assert_eq!(methods.known(), None);
        methods.works(StartMethod::Newest);
        methods.timed_out();
        assert_eq!(methods.known(), Some(StartMethod::Newest), "once it worked");
        methods.timed_out();
        assert_eq!(methods.known(), None);
    }
}
