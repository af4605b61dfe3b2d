//! The pauses before a server that is gone is tried again: each twice the one before,
//! up to a bound, and short again once the server has stayed.

use std::time::Duration;

/// The first pause before a server is tried again.
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// A server that was there for so long is one that works: its pauses start over. One that
/// dies sooner, each time that it is asked something, has pauses that grow.
const STAYED: Duration = Duration::from_secs(10);

/// The pauses of one server.
#[derive(Debug)]
pub(super) struct Pauses {
    next: Duration,
}

impl Pauses {
    pub(super) fn new() -> Self {
        Self { next: FIRST }
    }

    /// How long to wait, after the server was there for `stayed`: no time at all where it
    /// did not begin.
    pub(super) fn after(&mut self, stayed: Duration) -> Duration {
        if stayed >= STAYED {
            self.next = FIRST;
        }
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_start_over_once_the_server_has_stayed() {
        let mut pauses = Pauses::new();
        let mut next = |stayed: u64| pauses.after(Duration::from_secs(stayed)).as_millis();
        let grown: Vec<u128> = (0..9).map(|_| next(0)).collect();
        assert_eq!(grown, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(
            (next(9), next(10), next(3)),
            (60_000, 500, 1_000),
            "one that soon dies is none that works"
        );
    }
}
