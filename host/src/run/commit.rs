//! The rules for commits: which events are committed together, which of them may wait, how a failed
//! commit is reported, and which components the store keeps with the events.

use crate::error::UnrecordedEffect;
use crate::store::rules::begins_direct;
use crate::store::{CommitError, ComponentFile, Durability, Remedy, StoreError};
use crate::tools::Toolbox;
use std::collections::BTreeSet;
use tollgate_agent::SmolStr;
use tollgate_agent::run::event::ToolVersion;
use tollgate_agent::run::{Event, StoredEvent};
use tollgate_agent::state::{KeyScope, KeyUpdate, StateChange};

/// Returns whether the event leads only to a question for the gates. Such an event is committed
/// with their answer; after a crash, the tool is asked again.
fn only_asks_gates(event: &Event) -> bool {
    matches!(event, Event::CallValidated { fault: None, .. })
}

/// Returns whether these events may wait for the next commit. Either of two cases suffices:
///
/// - They belong to a direct call of which nothing is stored, and none of them ends it. A call
///   that is in the store already, because it asked a person, continues like any run: a decision
///   is committed before it is acted on.
/// - They only ask the gates, whatever the kind of call.
pub(super) fn may_wait(is_direct: bool, is_stored: bool, events: &[Event]) -> bool {
    let is_unstored_call = is_direct && !is_stored && !events.iter().any(ends);
    is_unstored_call || events.iter().all(only_asks_gates)
}

/// Returns whether a direct call must be committed with this event: it ended, waits, runs another
/// agent, or changed the thread.
fn ends(event: &Event) -> bool {
    let told = matches!(event, Event::RunFinished { .. } | Event::RunWaiting | Event::ChildStarted { .. });
    told || event.change().is_some()
}

/// Returns whether these events must be durable before they are reported. Only a whole direct call
/// that changed nothing and may run twice without harm is deferred.
pub(super) fn durability(events: &[StoredEvent]) -> Durability {
    let [start, .., end] = events else { return Durability::Durable };
    let changes_nothing = |event: &StoredEvent| match &event.event {
        Event::CallProposed(proposed) => {
            proposed.tool.as_ref().is_none_or(|tool| tool.descriptor.execution.idempotent)
        }
        event => event.change().is_none() && !matches!(event, Event::ChildStarted { .. }),
    };
    let is_whole = begins_direct(&start.event) && matches!(end.event, Event::RunFinished { .. });
    if is_whole && events.iter().all(changes_nothing) { Durability::Deferred } else { Durability::Durable }
}

/// Returns the call whose attempt starts with the event.
pub(super) fn started(event: &Event) -> Option<&SmolStr> {
    match event {
        Event::CallStarted { call_id, .. } => Some(call_id),
        _ => None,
    }
}

/// Returns the thread's persistent keys that these changes write.
pub(super) fn written_keys<'a>(changes: impl Iterator<Item = &'a StateChange>) -> BTreeSet<String> {
    let is_kept = |update: &&KeyUpdate| update.persistent && update.scope == KeyScope::Thread;
    let updates = changes.flat_map(|change| change.updates.iter()).filter(is_kept);
    updates.map(|update| update.key.to_string()).collect()
}

/// The effects of a failed commit that have no record.
#[derive(Debug, Default)]
pub(super) struct UnrecordedEffects {
    /// The tools that have run and may not run twice.
    ran: Vec<SmolStr>,
    /// Whether the commit contained only the starts of first attempts.
    starts: bool,
}

impl UnrecordedEffects {
    /// Collects these effects. `ran` returns the tool of a call that has run and may not run
    /// twice.
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

    /// The effects of tools that have run and may not run twice.
    pub(super) fn of_tools(ran: impl IntoIterator<Item = SmolStr>) -> Self {
        Self { ran: ran.into_iter().collect(), starts: false }
    }

    /// Returns the effect of the tools if the commit fails for this reason.
    pub(super) fn effect(&self, why: &CommitError) -> UnrecordedEffect {
        match (why, self.ran.is_empty(), self.starts) {
            (CommitError::Recorded(_), ..) | (_, true, false) => UnrecordedEffect::Unknown,
            (_, true, true) => UnrecordedEffect::NothingRan,
            (_, false, _) => UnrecordedEffect::Ran,
        }
    }

    /// Adds to the error what it means for the calls: one that has run must not be repeated only
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
        let failed = StoreError::from(why).with_message(words);
        // A step that resolves the failure would follow the advice about tools that have run.
        CommitError::Failed(if self.ran.is_empty() { failed } else { failed.with_remedy(None::<Remedy>) })
    }
}

/// Returns the components that these events refer to, without duplicates.
pub(super) fn components_of(events: &[StoredEvent], toolbox: &Toolbox) -> Vec<ComponentFile> {
    let mut files: Vec<ComponentFile> = Vec::new();
    for (tool_name, version) in events.iter().filter_map(|event| version_of(&event.event)) {
        let file = toolbox.runner(tool_name).and_then(|runner| runner.component_file());
        if let Some(file) = file.filter(|file| *file.digest == *version.version)
            && !files.iter().any(|known| known.digest == file.digest)
        {
            files.push(file.clone());
        }
    }
    files
}

/// Returns the tool and the version that a call uses from this event on.
fn version_of(event: &Event) -> Option<(&str, &ToolVersion)> {
    match event {
        Event::CallProposed(proposed) => Some((&proposed.tool_name, proposed.owner.as_ref()?)),
        Event::CallSuspended(suspended) => Some((&suspended.tool_name, suspended.owner.as_ref()?)),
        _ => None,
    }
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
        // The kind of call and whether it is stored: unstored direct, stored direct, a run's.
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
