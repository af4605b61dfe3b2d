//! Events as they are kept and told: each with its place in its run.

use super::event::Event;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An event with its place in the run's stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredEvent {
    /// The run.
    pub run_id: Arc<str>,
    /// 1 for the first event of the run, without gaps.
    pub number: u64,
    /// When it was decided on, with what was committed together with it, in milliseconds
    /// since the Unix epoch.
    pub at_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

impl StoredEvent {
    /// These events of a run, which has so many already, in one list.
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
