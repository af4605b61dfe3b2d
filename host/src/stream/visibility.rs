//! The state keys whose values clients and subscribers may see, and patterns of names.
//!
//! The store has every value. Events sent to clients and subscribers name each changed key, but
//! carry its new value only if the operator marked the key as visible.

use std::sync::Arc;
use tollgate_agent::outcome::{Mutation, Outcome};
use tollgate_agent::run::{Event, Run, StoredEvent};
use tollgate_agent::state::{KeyUpdate, PendingMutation};

/// The keys whose values are visible: exact names and name prefixes. None by default.
#[derive(Debug, Default)]
pub(crate) struct VisibleKeys(Vec<Pattern>);

impl VisibleKeys {
    /// Adds the keys of this name; a pattern that ends in `*` matches every name with that
    /// prefix.
    pub(crate) fn add(&mut self, pattern: &str) {
        self.0.push(Pattern::new(pattern));
    }

    /// Returns whether the values of this key are visible.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|wanted| wanted.is(key))
    }

    /// Returns the event without hidden values. The event is not copied if it has none.
    pub(crate) fn of(&self, mut event: Arc<StoredEvent>) -> Arc<StoredEvent> {
        if self.hides_some_of(&event.event) {
            self.blank(&mut Arc::make_mut(&mut event).event);
        }
        event
    }

    fn hides_some_of(&self, event: &Event) -> bool {
        let mutates = |mutations: &[Mutation]| mutations.iter().any(|m| !self.has(&m.key));
        let pends = |mutations: &[PendingMutation]| mutations.iter().any(|m| !self.has(&m.key));
        match event {
            Event::CallReturned { outcome, unrecorded, .. } => {
                mutates(unrecorded)
                    || matches!(outcome.as_ref(), Outcome::Returned(output) if mutates(&output.mutations))
            }
            Event::CallEnding(ending) => pends(&ending.mutations),
            Event::CallHooked { answers, .. } => answers.iter().any(|answer| pends(&answer.mutations)),
            event => event.change().is_some_and(|c| c.updates.iter().any(|update| !self.has(&update.key))),
        }
    }

    fn blank(&self, event: &mut Event) {
        match event {
            Event::CallReturned { outcome, unrecorded, .. } => {
                unrecorded.retain(|mutation| self.has(&mutation.key));
                if let Outcome::Returned(output) = Arc::make_mut(outcome) {
                    output.mutations.retain(|mutation| self.has(&mutation.key));
                }
            }
            Event::CallEnding(ending) => self.blank_pending(&mut ending.mutations),
            Event::CallHooked { answers, .. } => {
                answers.iter_mut().for_each(|answer| self.blank_pending(&mut answer.mutations));
            }
            event => {
                let updates =
                    event.change_mut().into_iter().flat_map(|change| Arc::make_mut(&mut change.updates));
                for update in updates.filter(|update| !self.has(&update.key)) {
                    (update.update, update.value, update.fold) = (None, None, None);
                }
            }
        }
    }

    fn blank_pending(&self, mutations: &mut [PendingMutation]) {
        for mutation in mutations.iter_mut().filter(|mutation| !self.has(&mutation.key)) {
            mutation.update = None;
        }
    }

    /// Returns the visible keys that an event changed, with their new values; `None` if it
    /// changed none. `run` is the state after the event's commit.
    pub(super) fn changed(&self, event: &Event, run: &Run) -> Option<serde_json::Value> {
        let change = event.change()?;
        if !change.updates.iter().any(|update| self.has(&update.key)) {
            return None;
        }
        let change = change.with_values_of(run.state());
        let seen: Vec<&KeyUpdate> = change.updates.iter().filter(|update| self.has(&update.key)).collect();
        Some(serde_json::json!({"revision": change.revision, "updates": seen}))
    }
}

/// A pattern of wanted names, of events or state keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    Exactly(String),
    Prefix(String),
}

impl Pattern {
    pub(super) fn new(pattern: &str) -> Self {
        match pattern.strip_suffix('*') {
            Some(prefix) => Pattern::Prefix(prefix.to_owned()),
            None => Pattern::Exactly(pattern.to_owned()),
        }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        match self {
            Pattern::Exactly(wanted) => wanted == name,
            Pattern::Prefix(prefix) => name.starts_with(prefix.as_str()),
        }
    }
}
