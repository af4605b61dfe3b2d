//! A lease on a run, which is released if the host fails.

use crate::host::Host;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The ways to stop a run from outside.
#[derive(Debug, Clone)]
pub(crate) struct RunStops {
    /// Ends the run early, which is recorded.
    pub(crate) cancel: CancellationToken,
    /// Stops driving the run without recording anything: another process may drive it.
    pub(crate) lapse: CancellationToken,
}

/// The lease on a run that this process drives. If it is dropped before the run rests, the store
/// is notified that the run is free. Otherwise, the run would seem active for as long as this
/// process lives.
pub(super) struct RunLease {
    host: Host,
    run_id: Arc<str>,
    epoch: u64,
    rests: bool,
}

impl RunLease {
    /// Begins a lease. Other hosts reach the run by `stops`; `None` if they cannot know it yet.
    pub(super) fn new(host: Host, run_id: Arc<str>, epoch: u64, stops: Option<RunStops>) -> Self {
        if let Some(stops) = stops {
            host.drives(&run_id, epoch, stops);
        }
        Self { host, run_id, epoch, rests: false }
    }

    /// Ends the lease: the run has ended, or waits for a person.
    pub(super) fn rests(mut self) {
        self.rests = true;
    }
}

impl Drop for RunLease {
    fn drop(&mut self) {
        self.host.drives_no_longer(&self.run_id, self.epoch);
        if !self.rests {
            self.host.store().release(&self.run_id, self.epoch);
        }
    }
}
