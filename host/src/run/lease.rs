//! A lease on a run, which is released if the host fails.

use super::services::{RunHost, RunStops};
use crate::store::Store;
use futures::FutureExt as _;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The lease on a run that this process drives. If it is dropped before the run rests, the store
/// is notified that the run is free. Otherwise, the run would seem active for as long as this
/// process lives.
pub(super) struct RunLease {
    host: Arc<dyn RunHost>,
    store: Arc<dyn Store>,
    run_id: Arc<str>,
    epoch: u64,
    /// Whether other hosts reach the run through this one.
    is_known: bool,
    rests: bool,
}

impl RunLease {
    /// Begins a lease on a run that other hosts do not reach yet.
    pub(super) fn new(
        host: Arc<dyn RunHost>,
        store: Arc<dyn Store>,
        (run_id, epoch): (Arc<str>, u64),
    ) -> Self {
        Self { host, store, run_id, epoch, is_known: false, rests: false }
    }

    /// Lets other hosts reach the run, which is in the store or about to be.
    pub(super) fn make_known(&mut self, stops: impl FnOnce() -> RunStops) {
        if !self.is_known {
            self.is_known = Arc::clone(&self.host).drives(&self.run_id, self.epoch, stops());
        }
    }

    /// Ends the lease: the run has ended, or waits for a person.
    pub(super) fn end(mut self) {
        self.rests = true;
    }
}

impl Drop for RunLease {
    fn drop(&mut self) {
        if self.is_known {
            self.host.drives_no_longer(&self.run_id, self.epoch);
        }
        if self.rests {
            return;
        }
        let (store, run_id, epoch) = (Arc::clone(&self.store), Arc::clone(&self.run_id), self.epoch);
        let mut release = Box::pin(async move { store.release(&run_id, epoch).await });
        // Stores that only note the release are done at once, so that `flush` waits for it.
        if release.as_mut().now_or_never().is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(release);
        }
    }
}
