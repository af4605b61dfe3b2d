//! `wasi:clocks` with a resolution of one millisecond. A finer clock would reveal more about a
//! guest's neighbors than about the time. Readings are recorded, or played back.

use super::Nondeterminism;
use std::time::Duration;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

const STEP: Duration = Duration::from_millis(1);
const STEP_NANOS: u64 = 1_000_000;

/// The time of day.
pub(crate) struct WallClock(pub(crate) Nondeterminism);

impl HostWallClock for WallClock {
    fn resolution(&self) -> Duration {
        STEP
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.0.wall_ms())
    }
}

/// Time since the guest first asked for it. It starts at one step: Go's runtime treats a clock at
/// zero as broken.
pub(crate) struct MonotonicClock(pub(crate) Nondeterminism);

impl HostMonotonicClock for MonotonicClock {
    fn resolution(&self) -> u64 {
        STEP_NANOS
    }

    fn now(&self) -> u64 {
        self.0.monotonic_ms().saturating_add(1).saturating_mul(STEP_NANOS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_in_steps_of_a_millisecond() {
        let world = Nondeterminism::new(None);
        let clock = MonotonicClock(world.clone());
        assert!(clock.now() >= STEP_NANOS, "a clock that begins at zero stops Go's runtime");
        std::thread::sleep(Duration::from_micros(1_300));
        assert!(clock.now() >= STEP_NANOS);
        assert_eq!(clock.now() % STEP_NANOS, 0);
        assert_eq!(WallClock(world).now().subsec_nanos() % 1_000_000, 0);
    }
}
