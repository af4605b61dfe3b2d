//! Which events are committed together, and what of it may follow later.

use tollgate_agent::run::{Event, Numbered, Task};

/// Whether nothing follows from the event but a question to the gates. It is
/// committed with their answer; after a crash the tool is asked again.
pub(super) fn only_asks_gates(event: &Event) -> bool {
    matches!(event, Event::CallValidated { fault: None, .. })
}

/// Whether a direct call is to be committed with this event: it ended, it waits,
/// it runs another agent, or it changed the thread.
pub(super) fn ends(event: &Event) -> bool {
    let told = matches!(event, Event::RunFinished { .. } | Event::RunWaiting | Event::ChildStarted { .. });
    told || event.change().is_some()
}

/// Whether these events are the whole of a direct call that may be answered before its
/// record is durable: it changed nothing, and may as well have run twice.
pub(super) fn may_follow(events: &[Numbered]) -> bool {
    let [start, .., end] = events else { return false };
    let changes_nothing = |event: &Numbered| match &event.event {
        Event::CallProposed(proposed) => {
            proposed.tool.as_ref().is_none_or(|tool| tool.descriptor.execution.idempotent)
        }
        event => event.change().is_none() && !matches!(event, Event::ChildStarted { .. }),
    };
    let is_whole = begins_direct(&start.event) && matches!(end.event, Event::RunFinished { .. });
    is_whole && events.iter().all(changes_nothing)
}

/// Whether a direct call begins with the event.
pub(super) fn begins_direct(event: &Event) -> bool {
    matches!(event, Event::RunStarted { spec } if matches!(spec.task, Task::Call { .. }))
}
