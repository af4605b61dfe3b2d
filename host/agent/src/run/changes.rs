//! State changes in a record: the events that carry one, and the changes of other runs that a
//! refolded run lacks.

use super::Run;
use super::event::Event;
use crate::state::StateChange;
use std::sync::Arc;

impl Event {
    /// Returns the state change that the event carries.
    #[must_use]
    pub fn change(&self) -> Option<&StateChange> {
        match self {
            Event::CallFinished(finished) => finished.change.as_ref(),
            Event::CallSuspended(suspended) => suspended.change.as_ref(),
            Event::RunSeeded { change, .. } | Event::CallDecided { change, .. } => change.as_ref(),
            Event::Transferred { change, .. } => Some(change),
            _ => None,
        }
    }

    /// Returns the call that the event is about, if any.
    #[must_use]
    pub fn call_id(&self) -> Option<&str> {
        match self {
            Event::CallProposed(proposed) => Some(&proposed.call_id),
            Event::CallEnding(ending) => Some(&ending.call_id),
            Event::CallFinished(finished) => Some(&finished.call_id),
            Event::CallSuspended(suspended) => Some(&suspended.call_id),
            Event::CallValidated { call_id, .. }
            | Event::CallGated { call_id, .. }
            | Event::CallStarted { call_id, .. }
            | Event::CallTook { call_id, .. }
            | Event::CallRetried { call_id, .. }
            | Event::CallReturned { call_id, .. }
            | Event::CallConflicted { call_id, .. }
            | Event::CallHooked { call_id, .. }
            | Event::CallDecided { call_id, .. }
            | Event::ChildStarted { call_id, .. }
            | Event::ChildWaiting { call_id, .. }
            | Event::ChildFinished { call_id, .. } => Some(call_id),
            _ => None,
        }
    }

    /// Moves the change, and the revision on which a batch begins, by this number of revisions, so
    /// that it follows the changes of others. Applies to events after the first change of a commit.
    pub fn move_by(&mut self, revisions: u64) {
        if let Event::BatchStarted { revision, .. } = self {
            *revision += revisions;
        }
        if let Some(change) = self.change_mut() {
            change.revision += revisions;
        }
    }

    /// Returns the state change mutably, to report the event without some of its values.
    pub fn change_mut(&mut self) -> Option<&mut StateChange> {
        match self {
            Event::CallFinished(finished) => Arc::make_mut(finished).change.as_mut(),
            Event::CallSuspended(suspended) => suspended.change.as_mut(),
            Event::RunSeeded { change, .. } | Event::CallDecided { change, .. } => change.as_mut(),
            Event::Transferred { change, .. } => Some(change),
            _ => None,
        }
    }
}

impl Run {
    /// Returns the revision of the thread's state on which an event builds, if changes up to it are
    /// missing. These are changes of other runs, which arrive through [`absorb`](Self::absorb).
    #[must_use]
    pub fn base_revision(&self, event: &Event) -> Option<u64> {
        let before = match event {
            Event::BatchStarted { revision, .. } => *revision,
            _ => event.change()?.revision.saturating_sub(1),
        };
        (before > self.state.revision()).then_some(before)
    }

    /// Returns whether calls are in progress on a state that was frozen for them. A run like that,
    /// refolded from its record, needs the concurrent writes of others in their place: those before
    /// the batch for the state that its calls see, those after it to detect their conflicts.
    #[must_use]
    pub fn is_in_batch(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.batch.is_some())
    }
}
