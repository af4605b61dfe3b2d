//! Who carries a run, and that it is let go where the host fails.

use crate::host::Host;
use std::sync::Arc;

/// A run that is being carried. Where it is dropped before the run came to rest,
/// the store is told that the run is anybody's: without that, it would look as if
/// it were at work for as long as this process lives.
pub(super) struct RunLease {
    host: Host,
    run_id: Arc<str>,
    rests: bool,
}

impl RunLease {
    pub(super) fn new(host: Host, run_id: Arc<str>) -> Self {
        Self { host, run_id, rests: false }
    }

    /// The run has ended, or waits for a person.
    pub(super) fn rests(mut self) {
        self.rests = true;
    }
}

impl Drop for RunLease {
    fn drop(&mut self) {
        if !self.rests {
            self.host.store().release(&self.run_id);
        }
    }
}
