//! Changes of the thread's state in a record: which events carry one, and which of
//! others a run that is folded again lacks.

use super::Run;
use super::event::Event;
use crate::state::StateChange;
use std::sync::Arc;

impl Event {
    /// The change of the state that it carries.
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

    /// The call that it is about, if it is about one.
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

    /// Moves the change so that it follows so many changes of others, and with it the
    /// revision on which a batch begins. Fits events after the first change of a commit.
    pub fn move_by(&mut self, revisions: u64) {
        if let Event::BatchStarted { revision, .. } = self {
            *revision += revisions;
        }
        if let Some(change) = self.change_mut() {
            change.revision += revisions;
        }
    }

    /// The same, for whoever tells of it without some of its values.
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
    /// The revision of the thread's state that an event builds on, where changes up to
    /// it are missing: those of other runs, which come by [`absorb`](Self::absorb).
    #[must_use]
    pub fn behind(&self, event: &Event) -> Option<u64> {
        let before = match event {
            Event::BatchStarted { revision, .. } => *revision,
            _ => event.change()?.revision.saturating_sub(1),
        };
        (before > self.state.revision()).then_some(before)
    }

    /// Whether calls are under way on a state that was frozen for them. Where such a run
    /// is folded from its record, it needs what others wrote in the meantime in its
    /// place: before the batch for what its calls see, after it for their conflicts.
    #[must_use]
    pub fn is_in_batch(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.batch.is_some())
    }
}
