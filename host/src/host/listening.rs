//! Clients that listen to runs, disconnect, and reconnect.

use super::{Host, HostBuilder, HostError};
use crate::run::{EventStream, Hub, PATIENCE, Publisher, RunError};
use std::convert::Infallible;
use std::sync::{Arc, PoisonError, Weak};
use tokio_util::sync::CancellationToken;
use tollgate_agent::run::StoredEvent;

impl Host {
    /// Returns the events of a run after the one with this number (0 for all), followed by new
    /// events for as long as this host runs it. A client that lost its stream can reconnect
    /// with this, and misses no stored event.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub async fn follow(&self, run_id: &str, after: u64) -> Result<EventStream, HostError> {
        let listening = self.live(run_id).map(|hub| hub.listen());
        self.follow_from(run_id, after, listening).await
    }

    /// Like [`follow`](Self::follow), but the stream ends if its client reads too slowly.
    pub(super) async fn follow_bounded(&self, run_id: &str, after: u64) -> Result<EventStream, HostError> {
        let listening = self.live(run_id).map(|hub| hub.listen_bounded());
        self.follow_from(run_id, after, listening).await
    }

    /// Puts the stored events before a stream that was subscribed to earlier, so that no event falls
    /// in between.
    async fn follow_from(
        &self,
        run_id: &str,
        after: u64,
        listening: Option<EventStream>,
    ) -> Result<EventStream, HostError> {
        let record = self.inner.store.events(run_id, after).await?;
        let record: Vec<_> = record.into_iter().map(|event| self.inner.bus.visible().of(event)).collect();
        match listening {
            Some(stream) => Ok(stream.behind(record, after)),
            None if !record.is_empty() => Ok(EventStream::of_record(record)),
            None if after > 0 && !self.inner.store.events(run_id, 0).await?.is_empty() => {
                Ok(EventStream::of_record(record))
            }
            None => Err(HostError::no_run(run_id)),
        }
    }

    /// Returns the stored events of a run after the one with this number (0 for all), as clients
    /// see them: without the values of state keys that are not
    /// [visible](HostBuilder::visible_keys).
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn record(&self, run_id: &str, after: u64) -> Result<Vec<Arc<StoredEvent>>, HostError> {
        let record = self.inner.store.events(run_id, after).await?;
        Ok(record.into_iter().map(|event| self.inner.bus.visible().of(event)).collect())
    }

    /// Returns whether clients see the values of a state key.
    #[must_use]
    pub fn shows_key(&self, key: &str) -> bool {
        self.inner.bus.visible().has(key)
    }

    /// Returns the event hub of a run that this host is driving.
    pub(super) fn live(&self, run_id: &str) -> Option<Arc<Hub>> {
        let live = self.inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.get(run_id).and_then(Weak::upgrade)
    }

    /// Returns the event hub of a new run, with its subscribers, and the first client's stream.
    pub(super) fn listened(
        &self,
        run_id: &Arc<str>,
        cancel: &CancellationToken,
    ) -> (Arc<Hub>, Publisher, EventStream) {
        let hub = Hub::new(Arc::clone(run_id), cancel.clone());
        let mut live = self.inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|_, hub| hub.strong_count() > 0);
        // A second start with the same id fails, and must not hide the first.
        if live.get(run_id).and_then(Weak::upgrade).is_none_or(|other| other.is_closed()) {
            live.insert(Arc::clone(run_id), Arc::downgrade(&hub));
        }
        let teller = Publisher::new(Arc::clone(&hub), Arc::clone(&self.inner.bus), Arc::clone(run_id));
        let events = hub.listen();
        drop(live);
        self.inner.followers.arrived(run_id);
        (hub, teller, events)
    }
}

impl HostBuilder {
    /// Marks state keys as visible, in addition to earlier ones: clients and subscribers
    /// receive their new values. For other keys they receive only a notification of the change.
    /// A pattern is a key's name (`notes.items`), a prefix (`notes.*`), or `*`.
    ///
    /// Subscribers of `state.changed` receive changes of visible keys only.
    #[must_use]
    pub fn visible_keys<P: AsRef<str>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        patterns.into_iter().for_each(|pattern| self.bus.show(pattern.as_ref()));
        self
    }
}

/// Drives a run until it ends or waits. If all clients have been gone for a while, `abandoned`
/// is cancelled; a detached run has no such token.
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
