//! `wasi:clocks`, in steps of a millisecond: finer ones tell a guest more about its
//! neighbours than about the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

const STEP: Duration = Duration::from_millis(1);
const STEP_NANOS: u64 = 1_000_000;

/// The time of day.
pub(crate) struct Wall;

impl HostWallClock for Wall {
    fn resolution(&self) -> Duration {
        STEP
    }

    fn now(&self) -> Duration {
        // A clock before 1970 reads as 1970.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Time since the guest first asked.
pub(crate) struct Monotonic {
    start: Instant,
}

impl Monotonic {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl HostMonotonicClock for Monotonic {
    fn resolution(&self) -> u64 {
        STEP_NANOS
    }

    fn now(&self) -> u64 {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        millis.saturating_mul(STEP_NANOS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_in_steps_of_a_millisecond() {
        let clock = Monotonic::start();
        std::thread::sleep(Duration::from_micros(1_300));
        assert!(clock.now() >= STEP_NANOS);
        assert_eq!(clock.now() % STEP_NANOS, 0);
        assert_eq!(Wall.now().subsec_nanos() % 1_000_000, 0);
    }
}
