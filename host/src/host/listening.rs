//! Clients that listen to runs, leave them, and come back.

use super::{Host, HostBuilder, HostError};
use crate::run::{EventStream, Hub, PATIENCE, Publisher, RunError};
use std::convert::Infallible;
use std::sync::{Arc, PoisonError, Weak};
use tokio_util::sync::CancellationToken;

impl Host {
    /// What happened in a run after the event of this number (0 for all of it), then
    /// what happens, as long as this host carries the run. A client that lost its
    /// stream comes back by this, and misses no stored event.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub async fn follow(&self, run_id: &str, after: u64) -> Result<EventStream, HostError> {
        let live = {
            let live = self.inner.live.lock().unwrap_or_else(PoisonError::into_inner);
            live.get(run_id).and_then(Weak::upgrade)
        };
        // Listened to before the store is read, so that nothing falls in between.
        let listening = live.map(|hub| hub.listen());
        let record = self.inner.store.events(run_id, after).await?;
        let record: Vec<_> = record.into_iter().map(|event| self.inner.bus.visible().of(event)).collect();
        match listening {
            Some(stream) => Ok(stream.behind(record, after)),
            None if !record.is_empty() => Ok(EventStream::of_record(record)),
            None if after > 0 && !self.inner.store.events(run_id, 0).await?.is_empty() => {
                Ok(EventStream::of_record(record))
            }
            None => Err(HostError::Refused(format!(
                "there is no run {}",
                tollgate_agent::text::clean(run_id, 100)
            ))),
        }
    }

    /// Whoever is to be told of a new run, and its first client's stream.
    pub(super) fn listened(&self, run_id: &Arc<str>) -> (Arc<Hub>, Publisher, EventStream) {
        let hub = Hub::new(Arc::clone(run_id));
        let mut live = self.inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|_, hub| hub.strong_count() > 0);
        live.insert(Arc::clone(run_id), Arc::downgrade(&hub));
        let teller = Publisher::new(Arc::clone(&hub), Arc::clone(&self.inner.bus), Arc::clone(run_id));
        let events = hub.listen();
        (hub, teller, events)
    }
}

impl HostBuilder {
    /// Marks keys of the state as visible, beside those that are: clients and subscribers
    /// are told what they become. Of other keys they are told only that they changed. A
    /// pattern is a key's name (`notes.items`), the beginning of names (`notes.*`), or `*`.
    ///
    /// Subscribers of `state.changed` are told of changes of these keys alone.
    #[must_use]
    pub fn visible_keys<P: AsRef<str>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        patterns.into_iter().for_each(|pattern| self.bus.show(pattern.as_ref()));
        self
    }
}

/// Carries a run to where it rests. When every client has left it for a while,
/// `abandoned` is cancelled; a detached run has none.
pub(super) async fn attended<T>(
    drive: impl Future<Output = Result<T, RunError>>,
    hub: Arc<Hub>,
    abandoned: Option<CancellationToken>,
) -> Result<T, RunError> {
    let given_up = async {
        match abandoned {
            None => std::future::pending::<Infallible>().await,
            Some(cancel) => {
                hub.is_abandoned(PATIENCE).await;
                cancel.cancel();
                std::future::pending::<Infallible>().await
            }
        }
    };
    let ended = tokio::select! {
        biased;
        ended = drive => ended,
        never = given_up => match never {},
    };
    hub.close();
    ended
}
