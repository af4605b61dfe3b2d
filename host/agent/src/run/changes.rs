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
