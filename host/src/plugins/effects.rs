//! What a hook around a call wants done.

use super::StateKey;
use super::state::mutation;
use serde_json::Value;
use tollgate_agent::hook::{CustomEvent, HookAnswer, ToolFilter};
use tollgate_agent::outcome::{Action, Mutation, ScheduledNote, ToolResult};
use tollgate_agent::state::PendingMutation;

/// What a hook wants done: recorded with its call, and committed with the call's end.
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
    /// Nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Updates a key that the plugin brought by [`Parts::state`](super::Parts::state).
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

    /// Asks something of the loop; the plugin must have been granted it by
    /// [`Parts::actions`](super::Parts::actions).
    #[must_use]
    pub fn action(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    /// Leaves a note for the model's next turn. It needs the action `add_context`.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        self.action(Action::AddContext(note.into()))
    }

    /// Leaves a note for a later turn of this run; 1 is the next one, 256 the most. It
    /// needs the action `add_context`.
    #[must_use]
    pub fn note_later(self, in_turns: u32, note: impl Into<String>) -> Self {
        self.action(Action::ScheduleContext(ScheduledNote { note: note.into(), in_turns }))
    }

    /// Says which tools the model is told of in its next turn. It needs the action
    /// `filter_tools`. Several filters show what all of them show.
    #[must_use]
    pub fn filter_tools(self, filter: ToolFilter) -> Self {
        self.action(Action::FilterTools(filter))
    }

    /// Tells an event of the plugin's own, which subscribers read as `custom`.
    #[must_use]
    pub fn event(mut self, name: impl Into<String>, data: impl Into<Value>) -> Self {
        self.events.push(CustomEvent { name: name.into(), data: data.into() });
        self
    }

    /// Puts this result in the place of the call's; after a call alone. A call that a
    /// gate denied, or that was cancelled, keeps its end.
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
