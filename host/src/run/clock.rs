//! The time of a run, which several processes with clocks of their own may drive.

use crate::store::now_ms;
use tollgate_agent::run::{Event, StoredEvent};

/// The time of a run by its record: no event is earlier than the one before it, and the time that the
/// run was at work counts towards its limit whichever process drove it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RunClock {
    /// When the last event was committed, in milliseconds since the Unix epoch.
    last_ms: u64,
    /// How long the run has been at work, in milliseconds.
    used_ms: u64,
    /// The limit of that time.
    wall_ms: u64,
    /// Whether the run waited after the last event: for a person, or to be claimed.
    waits: bool,
}

impl RunClock {
    /// Takes in the next event of the record.
    ///
    /// The record does not say how long a run was without a process. A pause that would have used up
    /// the time that is left must be such a time, and does not count.
    pub(crate) fn see(&mut self, stored: &StoredEvent) {
        let pause_ms = stored.at_ms.saturating_sub(self.last_ms);
        if let Event::RunStarted { spec } = &stored.event {
            self.wall_ms = spec.limits.wall_ms;
        } else if !self.waits && self.used_ms.saturating_add(pause_ms) < self.wall_ms {
            self.used_ms += pause_ms;
        }
        self.waits = matches!(stored.event, Event::RunWaiting | Event::RunStarted { .. });
        self.last_ms = self.last_ms.max(stored.at_ms);
    }

    /// Returns the time now, which is not earlier than the last event.
    pub(super) fn now_ms(&self) -> u64 {
        now_ms().max(self.last_ms)
    }

    /// Records that an event was committed at this time.
    pub(super) fn committed(&mut self, at_ms: u64) {
        self.last_ms = at_ms;
    }

    /// Returns how long the run had been at work when its record was read, in milliseconds.
    pub(super) fn used_ms(&self) -> u64 {
        self.used_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tollgate_agent::context::RunIdentity;
    use tollgate_agent::run::{AgentSpec, RunLimits, RunSpec, Task};

    fn read(wall_ms: u64, events: &[(u64, Event)]) -> RunClock {
        let spec = RunSpec {
            identity: RunIdentity::default(),
            agent: AgentSpec::default().into(),
            limits: RunLimits { wall_ms, ..RunLimits::default() },
            task: Task::Prompt("Go.".to_owned()),
            detached: false,
        };
        let mut clock = RunClock::default();
        let started = (1_000_000, Event::RunStarted { spec: Arc::new(spec) });
        for (number, (at_ms, event)) in std::iter::once(&started).chain(events).enumerate() {
            let (number, event) = (number as u64 + 1, event.clone());
            clock.see(&StoredEvent { run_id: Arc::from("r"), number, at_ms: *at_ms, event });
        }
        clock
    }

    fn step(at_ms: u64) -> (u64, Event) {
        (at_ms, Event::StepStarted { step: 1 })
    }

    #[test]
    fn the_time_at_work_counts_and_the_time_in_a_queue_or_at_a_person_does_not() {
        let waited = (2_000_700, Event::RunWaiting);
        let clock =
            read(10_000, &[step(2_000_000), step(2_000_500), waited, step(9_000_000), step(9_000_050)]);
        assert_eq!((clock.used_ms(), clock.last_ms), (750, 9_000_050));
        let down = read(10_000, &[step(1_000_000), step(1_004_000), step(1_020_000), step(1_025_000)]);
        assert_eq!(down.used_ms(), 9_000, "no process drove it for 16 s: it would have ended");
    }

    #[test]
    fn no_event_is_earlier_than_the_last_even_if_a_clock_was_ahead() {
        let ahead = now_ms() + 3_600_000;
        let clock = read(10_000, &[step(ahead), step(5)]);
        assert_eq!(clock.now_ms(), ahead);
    }
}
