//! Which events are committed together, what of it may follow later, and what is to be said
//! where it cannot be committed.

use crate::store::{CommitError, StoreError};
use smallvec::SmallVec;
use tollgate_agent::SmolStr;
use tollgate_agent::run::{Event, StoredEvent, Task};

/// Whether nothing follows from the event but a question to the gates. It is
/// committed with their answer; after a crash the tool is asked again.
fn only_asks_gates(event: &Event) -> bool {
    matches!(event, Event::CallValidated { fault: None, .. })
}

/// Whether these events may wait for the next commit. There are two such cases, each by
/// itself:
///
/// - they belong to a direct call of which nothing is stored, and none of them ends it. A
///   call that is in the store already, because it asked a person, is carried on like any
///   run: a decision is committed before it is acted on.
/// - they only ask the gates, whoever called.
pub(super) fn may_wait(is_direct: bool, is_stored: bool, events: &[Event]) -> bool {
    let is_unstored_call = is_direct && !is_stored && !events.iter().any(ends);
    is_unstored_call || events.iter().all(only_asks_gates)
}

/// Whether a direct call is to be committed with this event: it ended, it waits,
/// it runs another agent, or it changed the thread.
fn ends(event: &Event) -> bool {
    let told = matches!(event, Event::RunFinished { .. } | Event::RunWaiting | Event::ChildStarted { .. });
    told || event.change().is_some()
}

/// Whether these events are the whole of a direct call that may be answered before its
/// record is durable: it changed nothing, and may as well have run twice.
pub(super) fn durability(events: &[StoredEvent]) -> bool {
    let [start, .., end] = events else { return false };
    let changes_nothing = |event: &StoredEvent| match &event.event {
        Event::CallProposed(proposed) => {
            proposed.tool.as_ref().is_none_or(|tool| tool.descriptor.execution.idempotent)
        }
        event => event.change().is_none() && !matches!(event, Event::ChildStarted { .. }),
    };
    let is_whole = begins_direct(&start.event) && matches!(end.event, Event::RunFinished { .. });
    is_whole && events.iter().all(changes_nothing)
}

/// The call of which an attempt starts with the event.
pub(super) fn started(event: &Event) -> Option<&SmolStr> {
    match event {
        Event::CallStarted { call_id, .. } => Some(call_id),
        _ => None,
    }
}

/// What a failed commit leaves without a record.
#[derive(Debug, Default)]
pub(super) struct Unrecorded {
    /// The tools that have run and may not run twice.
    ran: SmallVec<[SmolStr; 1]>,
    /// Whether the first attempts of calls were to start, and nothing else happened.
    starts: bool,
}

impl Unrecorded {
    /// What these events say, where `ran` gives the tool of a call that has run and may not
    /// run twice.
    pub(super) fn of(events: &[Event], ran: impl Fn(&str) -> Option<SmolStr>) -> Self {
        fn ended(event: &Event) -> Option<&SmolStr> {
            match event {
                Event::CallFinished(finished) => Some(&finished.call_id),
                Event::CallEnding(ending) => Some(&ending.call_id),
                Event::CallSuspended(suspended) => Some(&suspended.call_id),
                Event::CallReturned { call_id, .. } => Some(call_id),
                _ => None,
            }
        }
        let first = |event: &Event| matches!(event, Event::CallStarted { attempt: 1, .. });
        Self {
            ran: events.iter().filter_map(ended).filter_map(|call_id| ran(call_id)).collect(),
            starts: events.iter().any(first) && events.iter().all(|event| ended(event).is_none()),
        }
    }

    /// The error with what it means for the calls: one that has run is not to be repeated only
    /// because its record is lost.
    pub(super) fn explain(&self, why: CommitError) -> CommitError {
        if matches!(why, CommitError::Recorded(_)) {
            return why;
        }
        let words = match (self.ran.as_slice(), self.starts) {
            ([], false) => return why,
            ([], true) => format!("nothing was run, because it could not be recorded: {why}"),
            ([tool], _) => format!(
                "'{tool}' has run, but the record of it is lost: {why}; check what it did, and do not repeat it"
            ),
            (tools, _) => format!(
                "'{}' have run, but the records of them are lost: {why}; check what they did, and do not \
                 repeat them",
                tools.join("', '")
            ),
        };
        CommitError::Failed(StoreError(words))
    }
}

/// Whether a direct call begins with the event.
pub(super) fn begins_direct(event: &Event) -> bool {
    matches!(event, Event::RunStarted { spec } if matches!(spec.task, Task::Call { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_agent::code::Code;
    use tollgate_agent::outcome::Fault;

    #[test]
    fn events_wait_for_the_next_commit_in_two_cases_alone() {
        let asks = || Event::CallValidated { call_id: "c".into(), fault: None };
        let starts = || Event::CallStarted { call_id: "c".into(), attempt: 1, not_before_ms: 0, until_ms: 0 };
        let fault = Some(Fault::new(Code::InvalidArguments, "No."));
        let fails = Event::CallValidated { call_id: "c".into(), fault };
        // Whose call it is, and whether it is stored: unstored direct, stored direct, a run's.
        for (events, may) in [
            (vec![asks()], [true, true, true]),
            (vec![starts()], [true, false, false]),
            (vec![asks(), starts()], [true, false, false]),
            (vec![fails], [true, false, false]),
            (vec![starts(), Event::RunWaiting], [false, false, false]),
            (vec![asks(), Event::RunWaiting], [false, false, false]),
        ] {
            let found = [(true, false), (true, true), (false, false)].map(|(d, s)| may_wait(d, s, &events));
            assert_eq!(found, may, "{events:?}");
            assert_eq!(may_wait(false, true, &events), may[2], "{events:?}");
        }
    }
}
