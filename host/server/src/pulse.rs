//! The beats at which quiet streams show that they are alive. All streams share one timer, and only
//! a part of them wakes at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

/// How often a stream shows that it is alive if its client is on this machine. Programs in between,
/// such as nginx, by default end a connection that is quiet for 60 s.
const ON_THIS_MACHINE: Duration = Duration::from_secs(50);
/// The same behind a proxy: it, or a load balancer in front of it, may have a shorter limit.
const BEHIND_PROXY: Duration = Duration::from_secs(15);
/// The number of groups of streams, which wake one after another.
const GROUPS: usize = 60;

/// The beats of all streams.
#[derive(Debug)]
pub(crate) struct Pulse {
    period: Duration,
    groups: Vec<Arc<Notify>>,
    next: AtomicUsize,
}

impl Pulse {
    pub(crate) fn new(is_behind_proxy: bool) -> Self {
        let period = if is_behind_proxy { BEHIND_PROXY } else { ON_THIS_MACHINE };
        Self { period, groups: (0..GROUPS).map(|_| Arc::default()).collect(), next: AtomicUsize::new(0) }
    }

    /// Returns the signal of a new stream, which is given once in each period.
    pub(crate) fn join(&self) -> Arc<Notify> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.groups.len();
        Arc::clone(&self.groups[at])
    }

    /// Gives the signals for as long as the server runs.
    pub(crate) async fn beat(&self) {
        let count = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        let mut ticks = interval(self.period / count);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for group in self.groups.iter().cycle() {
            ticks.tick().await;
            group.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tokio::time::{Instant, timeout};

    #[tokio::test(start_paused = true)]
    async fn each_stream_wakes_once_in_a_period() {
        for (is_behind_proxy, seconds) in [(false, 50), (true, 15)] {
            let pulse = Arc::new(Pulse::new(is_behind_proxy));
            let beating = Arc::clone(&pulse);
            tokio::spawn(async move { beating.beat().await });
            for stream in [pulse.join(), pulse.join()] {
                stream.notified().await;
                let began = Instant::now();
                timeout(Duration::from_secs(2 * seconds), stream.notified()).await.unwrap();
                assert_eq!(began.elapsed().as_secs(), seconds);
            }
        }
    }
}
