//! A lease on a run, which is released if the host fails.

use super::services::{RunHost, RunStops};
use crate::store::Store;
use std::sync::Arc;

/// The lease on a run that this process drives. If it is dropped before the run rests, the store
/// is notified that the run is free. Otherwise, the run would seem active for as long as this
/// process lives.
pub(super) struct RunLease {
    host: Arc<dyn RunHost>,
    store: Arc<dyn Store>,
    run_id: Arc<str>,
    epoch: u64,
    rests: bool,
}

impl RunLease {
    /// Begins a lease. Other hosts reach the run by `stops`; `None` if they cannot know it yet.
    pub(super) fn new(
        host: Arc<dyn RunHost>,
        store: Arc<dyn Store>,
        (run_id, epoch): (Arc<str>, u64),
        stops: Option<RunStops>,
    ) -> Self {
        if let Some(stops) = stops {
            Arc::clone(&host).drives(&run_id, epoch, stops);
        }
        Self { host, store, run_id, epoch, rests: false }
    }

    /// Ends the lease: the run has ended, or waits for a person.
    pub(super) fn end(mut self) {
        self.rests = true;
    }
}

impl Drop for RunLease {
    fn drop(&mut self) {
        self.host.drives_no_longer(&self.run_id, self.epoch);
        if !self.rests {
            self.store.release(&self.run_id, self.epoch);
        }
    }
}
