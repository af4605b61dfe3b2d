//! The sender of the updates of a run.

use super::clients::Hub;
use super::inbox::Inbox;
use super::subscribers::Bus;
use super::update::{LiveContent, RunUpdate};
use std::sync::Arc;
use tollgate_agent::run::child_plan::ChildPlace;
use tollgate_agent::run::{Run, StoredEvent};

/// The sender of a run's updates to its clients and the host's subscribers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Publisher {
    hub: Option<Arc<Hub>>,
    bus: Arc<Bus>,
    run_id: Arc<str>,
}

impl Publisher {
    pub(crate) fn new(hub: Arc<Hub>, bus: Arc<Bus>, run_id: Arc<str>) -> Self {
        Self { hub: Some(hub), bus, run_id }
    }

    /// Creates a publisher for a run without clients.
    pub(crate) fn without_clients(bus: Arc<Bus>, run_id: Arc<str>) -> Self {
        Self { hub: None, bus, run_id }
    }

    /// Returns the receiving end of decisions for the run, once.
    pub(crate) fn take_inbox(&self) -> Inbox {
        self.hub.as_ref().and_then(|hub| hub.take_inbox())
    }

    /// Returns the reason for which the run was cancelled.
    pub(crate) fn cancel_reason(&self) -> String {
        let given = self.hub.as_ref().and_then(|hub| hub.reason().cloned());
        given.unwrap_or_else(|| "it was cancelled by its caller".to_owned())
    }

    /// Publishes committed events; `run` is the state after them.
    pub(crate) fn publish_stored(&self, events: &[StoredEvent], run: &Run) {
        if !self.is_heard() {
            return;
        }
        let visible = |event: &StoredEvent| self.bus.visible().of(Arc::new(event.clone()));
        let events: Vec<_> = events.iter().map(visible).collect();
        if let Some(hub) = &self.hub {
            hub.publish_stored(&events);
        }
        self.bus.publish_stored(&events, run);
    }

    /// Forwards an update of a child to clients. Subscribers receive it from the child itself.
    pub(crate) fn forward_child(&self, place: &ChildPlace, update: RunUpdate) {
        if let Some(hub) = &self.hub {
            hub.forward_child(place, update);
        }
    }

    /// Returns whether anyone might receive transient events.
    pub(crate) fn is_heard(&self) -> bool {
        self.hub.is_some() || !self.bus.is_empty()
    }

    /// Sends something transient; returns `false` if no client listens, or all read too slowly.
    pub(crate) fn publish_live(&self, piece: LiveContent) -> bool {
        let is_heard = !self.bus.is_empty();
        if is_heard {
            self.bus.publish_live(&self.run_id, &piece);
        }
        self.hub.as_ref().is_some_and(|hub| hub.publish_live(piece)) || is_heard
    }
}
