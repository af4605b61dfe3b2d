//! Clients that listen to runs, disconnect, and reconnect.

use super::{Busy, Host, HostBuilder, HostError};
use crate::run::{EventStream, Hub, PATIENCE, Publisher, RunError};
use std::convert::Infallible;
use std::sync::{Arc, PoisonError, Weak};
use tokio_util::sync::CancellationToken;
use tollgate_agent::run::Input;

impl Host {
    /// Returns the events of a run after the one with this number (0 for all), followed by new
    /// events for as long as this host runs it. A client that lost its stream can reconnect
    /// with this, and misses no stored event.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub async fn follow(&self, run_id: &str, after: u64) -> Result<EventStream, HostError> {
        let live = self.live(run_id);
        // Subscribe before the store is read, so that no event falls in between.
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

    /// Returns the event hub of a run that this host is driving.
    fn live(&self, run_id: &str) -> Option<Arc<Hub>> {
        let live = self.inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.get(run_id).and_then(Weak::upgrade)
    }

    /// Ends a run that works or waits. [`Host::follow`] shows its end.
    ///
    /// # Errors
    /// The run is not known or has ended, or another process is driving it.
    pub async fn cancel(&self, run_id: &str, reason: Option<String>) -> Result<(), HostError> {
        let live = self.live(run_id);
        if let Some(cancel) = live.as_ref().and_then(|hub| hub.cancellation()) {
            cancel.cancel();
            return Ok(());
        }
        let reason = reason.unwrap_or_else(|| "it was cancelled by its caller".to_owned());
        self.carry_on(run_id, Input::Cancel { reason }, Busy::Refuse).await?.wait().await?;
        Ok(())
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
        live.insert(Arc::clone(run_id), Arc::downgrade(&hub));
        let teller = Publisher::new(Arc::clone(&hub), Arc::clone(&self.inner.bus), Arc::clone(run_id));
        let events = hub.listen();
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
