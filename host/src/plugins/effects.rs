//! Effects of hooks around calls.

use crate::state_key::{StateKey, mutation};
use serde_json::Value;
use tollgate_agent::hook::{CustomEvent, HookAnswer};
use tollgate_agent::outcome::{Action, Mutation, ScheduledNote, ToolFilter, ToolResult};
use tollgate_agent::state::PendingMutation;

/// The effects of a hook, recorded with its call and committed with the call's end.
///
/// ```
/// use tollgate::plugins::Effects;
///
/// let effects = Effects::none().note("Prices are in francs.").event("priced", 3);
/// assert_ne!(effects, Effects::none());
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effects {
    mutations: Vec<Mutation>,
    actions: Vec<Action>,
    events: Vec<CustomEvent>,
    result: Option<ToolResult>,
}

impl Effects {
    /// Returns no effects.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Updates a key that the plugin defined with [`Parts::state`](super::Parts::state).
    #[must_use]
    pub fn update<K: StateKey>(mut self, update: K::Update) -> Self {
        self.mutations.push(mutation::<K>(&update));
        self
    }

    /// Updates any key that the plugin may write.
    #[must_use]
    pub fn mutate(mut self, key: impl Into<String>, update: impl Into<Value>) -> Self {
        self.mutations.push(Mutation { key: key.into(), update: update.into() });
        self
    }

    /// Requests an action of the loop. The plugin must have been granted it by
    /// [`Parts::actions`](super::Parts::actions).
    #[must_use]
    pub fn action(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    /// Leaves a note for the model's next turn. Requires the action `add_context`.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        self.action(Action::AddContext(note.into()))
    }

    /// Leaves a note for a later turn of this run, from 1 for the next one to 256. Requires the
    /// action `add_context`.
    #[must_use]
    pub fn note_later(self, in_turns: u32, note: impl Into<String>) -> Self {
        self.action(Action::ScheduleContext(ScheduledNote { note: note.into(), in_turns }))
    }

    /// Limits the tools that the model sees in its next turn. Requires the action
    /// `filter_tools`. Several filters show only tools that pass all of them.
    #[must_use]
    pub fn filter_tools(self, filter: ToolFilter) -> Self {
        self.action(Action::FilterTools(filter))
    }

    /// Emits an event of the plugin's own, which subscribers receive as `custom`.
    #[must_use]
    pub fn event(mut self, name: impl Into<String>, data: impl Into<Value>) -> Self {
        self.events.push(CustomEvent { name: name.into(), data: data.into() });
        self
    }

    /// Replaces the call's result; only after a call. A call that a gate denied, or that was
    /// cancelled, keeps its end.
    #[must_use]
    pub fn replace(mut self, result: ToolResult) -> Self {
        self.result = Some(result);
        self
    }

    pub(crate) fn into_answer(self, plugin: &str) -> HookAnswer {
        let pending = |mutation: Mutation| PendingMutation {
            key: mutation.key,
            persistent: true,
            update: Some(mutation.update),
        };
        HookAnswer {
            mutations: self.mutations.into_iter().map(pending).collect(),
            actions: self.actions,
            events: self.events,
            result: self.result.map(Box::new),
            ..HookAnswer::new(plugin)
        }
    }
}
