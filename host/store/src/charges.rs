//! The component to which each event of a run is charged.

use std::collections::HashMap;
use tollgate_agent::SmolStr;
use tollgate_agent::run::event::CheckedCall;
use tollgate_agent::run::{Event, Run, StoredEvent, Task};

/// Returns, for each of these events, the component that causes it: the owner of the called tool,
/// if any. A direct call causes its whole record. `run` is the run before the events.
#[must_use]
pub fn charges(events: &[StoredEvent], run: &Run) -> Vec<Option<SmolStr>> {
    let proposed = events.iter().filter_map(|event| match &event.event {
        Event::CallProposed(proposed) => Some(proposed.as_ref()),
        _ => None,
    });
    let proposed: Vec<&CheckedCall> = proposed.collect();
    let owner_of = |call_id: &str| {
        let now = proposed.iter().find(|proposed| proposed.call_id == call_id);
        let now = now.map(|proposed| proposed.owner.as_ref());
        let before = || run.calls().iter().find(|call| call.id == call_id)?.version.as_ref();
        now.unwrap_or_else(before).map(|owner| owner.id.clone())
    };
    let is_direct = events.first().is_some_and(|first| begins_direct(&first.event))
        || matches!(run.spec().task, Task::Call { .. });
    if is_direct {
        let call = proposed.first().map(|proposed| proposed.call_id.clone());
        let call = call.or_else(|| run.calls().first().map(|call| call.id.clone()));
        let owner = call.and_then(|call_id| owner_of(&call_id));
        return vec![owner; events.len()];
    }
    events.iter().map(|event| event.event.call_id().and_then(&owner_of)).collect()
}

/// Returns whether a run that starts with this event is a direct call.
#[must_use]
pub fn begins_direct(event: &Event) -> bool {
    matches!(event, Event::RunStarted { spec } if matches!(spec.task, Task::Call { .. }))
}

/// The components to which the events of a recorded run were charged, as its events tell them.
#[derive(Debug, Default)]
pub struct RecordedCharges {
    /// Whether the run is a direct call.
    is_direct: bool,
    /// The owner of the first call.
    first: Option<SmolStr>,
    /// The owners of the tools of all calls, by call.
    owners: HashMap<SmolStr, SmolStr>,
}

impl RecordedCharges {
    /// Takes in the next event of the run.
    pub fn see(&mut self, event: &Event) {
        if begins_direct(event) {
            self.is_direct = true;
        } else if let Event::CallProposed(proposed) = event
            && let Some(owner) = &proposed.owner
        {
            self.first.get_or_insert_with(|| owner.id.clone());
            self.owners.entry(proposed.call_id.clone()).or_insert_with(|| owner.id.clone());
        }
    }

    /// Returns the component to which an event of the run was charged, if any.
    #[must_use]
    pub fn of(&self, event: &Event) -> Option<&SmolStr> {
        if self.is_direct {
            return self.first.as_ref();
        }
        self.owners.get(event.call_id()?)
    }
}
