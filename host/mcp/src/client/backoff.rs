//! The pauses before reconnecting to a server, and before reading a list that has changed. Each is
//! twice the last, up to a limit, and they start over once the server has stayed connected, or its
//! list has stayed the same.

use std::time::Duration;

/// The first pause before a server is tried again.
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// The minimum time after which a server counts as working, or its list as settled, and the pauses
/// start over. If a server always dies sooner, such as on every request, its pauses grow.
const STAYED: Duration = Duration::from_secs(10);

/// The pauses of one server.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self::beginning_with(FIRST)
    }

    /// Returns pauses of which the first has this length.
    pub(super) fn beginning_with(first: Duration) -> Self {
        Self { first, next: first }
    }

    /// Returns the next pause. `stayed` is how long the server was connected, or its list the
    /// same; zero if it did not start.
    pub(super) fn after(&mut self, stayed: Duration) -> Duration {
        if stayed >= STAYED {
            self.next = self.first;
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
        let mut backoff = Backoff::new();
        let mut next = |stayed: u64| backoff.after(Duration::from_secs(stayed)).as_millis();
        let grown: Vec<u128> = (0..9).map(|_| next(0)).collect();
        assert_eq!(grown, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(
            (next(9), next(10), next(3)),
            (60_000, 500, 1_000),
            "one that dies soon does not count as working"
        );
    }
}
