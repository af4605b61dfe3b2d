//! Events as they are stored and reported, each with its position in its run.

use super::event::Event;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An event with its position in the run's stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredEvent {
    /// The run.
    pub run_id: Arc<str>,
    /// The event's number in the run, counted from 1 without gaps.
    pub number: u64,
    /// The time of the decision, in milliseconds since the Unix epoch. Events that are committed
    /// together share it.
    pub at_ms: u64,
    /// The event itself.
    #[serde(flatten)]
    pub event: Event,
}

impl StoredEvent {
    /// Numbers these events of a run that already has `after` events, and returns them as one list.
    pub fn list(
        run_id: &Arc<str>,
        after: u64,
        at_ms: u64,
        events: impl IntoIterator<Item = Event>,
    ) -> Arc<[Self]> {
        let numbers = after + 1..;
        let numbered = events.into_iter().zip(numbers).map(|(event, number)| Self {
            run_id: Arc::clone(run_id),
            number,
            at_ms,
            event,
        });
        numbered.collect()
    }
}
