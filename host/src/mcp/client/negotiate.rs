//! Which of the ways to begin a server understands, as far as that is known.

use super::connection::Way;

/// What is known of one server. A way that worked is taken again, and is left only once it
/// failed twice in a row; where none is known, both are tried.
#[derive(Debug, Default)]
pub(super) struct Ways {
    known: Option<Way>,
    /// The last that was begun in that way was a success.
    worked: bool,
}

impl Ways {
    /// The way to begin; none where both are to be tried.
    pub(super) fn known(&self) -> Option<Way> {
        self.known
    }

    pub(super) fn works(&mut self, way: Way) {
        *self = Self { known: Some(way), worked: true };
    }

    /// The server did not begin: it ended, or refused, in what was tried.
    pub(super) fn failed(&mut self) {
        let next = match self.known {
            Some(way) if !self.worked => way.other(),
            Some(way) => way,
            None => Way::Newest,
        };
        *self = Self { known: Some(next), worked: false };
    }

    /// The server did not begin in its time, which says nothing of the way.
    pub(super) fn timed_out(&mut self) {
        *self = Self { known: self.known.filter(|_| self.worked), worked: false };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_worked_is_left_once_it_failed_twice() {
        let mut ways = Ways::default();
        ways.works(Way::Newest);
        ways.failed();
        assert_eq!(ways.known(), Some(Way::Newest));
        ways.failed();
        assert_eq!(ways.known(), Some(Way::Handshake));
        ways.failed();
        assert_eq!(ways.known(), Some(Way::Newest), "one by one while none works");
    }

    #[test]
    fn a_server_that_takes_too_long_is_tried_in_both_ways() {
        let mut ways = Ways::default();
        ways.timed_out();
        assert_eq!(ways.known(), None);
        ways.works(Way::Newest);
        ways.timed_out();
        assert_eq!(ways.known(), Some(Way::Newest), "once it worked");
        ways.timed_out();
        assert_eq!(ways.known(), None);
    }
}
