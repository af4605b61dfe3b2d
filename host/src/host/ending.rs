//! Ending all runs of a host that shuts down.

use super::Host;
use crate::stream::Hub;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

impl Host {
    /// Cancels the runs and calls that this host drives, including detached ones, and waits until they
    /// have ended and are recorded, or this time has passed. The reason becomes part of the records.
    /// Calls that [`Host::call`] began are not cancelled: they end with their own token.
    pub async fn cancel_all(&self, reason: &str, patience: Duration) {
        self.cancel_hubs(reason, patience, |_| true).await;
    }

    /// Like [`cancel_all`](Self::cancel_all), but cancels direct calls alone. Other hosts of a shared
    /// database continue runs, but not calls.
    pub async fn cancel_calls(&self, reason: &str, patience: Duration) {
        self.cancel_hubs(reason, patience, Hub::is_call).await;
    }

    async fn cancel_hubs(&self, reason: &str, patience: Duration, ends: fn(&Hub) -> bool) {
        let open_hubs = || {
            let mut open = self.open_hubs();
            open.retain(|hub| ends(hub));
            open
        };
        let ended = async {
            loop {
                // A run may begin another one while it ends.
                let open = open_hubs();
                if open.is_empty() {
                    return;
                }
                open.iter().for_each(|hub| hub.cancel(Some(reason.to_owned())));
                for hub in open {
                    hub.closed().await;
                }
            }
        };
        if tokio::time::timeout(patience, ended).await.is_err() {
            tracing::warn!("{} runs did not end in time, and are interrupted", open_hubs().len());
        }
    }

    fn open_hubs(&self) -> Vec<Arc<Hub>> {
        let live = self.inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.values().filter_map(Weak::upgrade).filter(|hub| !hub.is_closed()).collect()
    }
}
