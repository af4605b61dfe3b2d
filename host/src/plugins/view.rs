//! Read-only views of calls, turns and state for hooks.

use crate::state_key::StateKey;
use serde_json::Value;
use tollgate_agent::context::{AgentView, RunIdentity};
use tollgate_agent::outcome::Usage;
use tollgate_agent::run::CallEnd;
use tollgate_agent::state::{Access, KeySet, Snapshot};

/// A call as its hooks see it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HookedCall<'a> {
    /// The call's id, unique within the run.
    pub call_id: &'a str,
    /// The name of its tool.
    pub tool_name: &'a str,
    /// The owner of the tool: a component, plugin, server or agent.
    pub owner_id: Option<&'a str>,
    /// The arguments, as they were judged.
    pub arguments: &'a Value,
    /// The run, thread and agent of the call.
    pub identity: &'a RunIdentity,
    /// The calling agent.
    pub agent: &'a AgentView,
    /// The current state.
    pub state: StateView<'a>,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// The end of the call, as earlier hooks left it; `None` before the call ran.
    pub end: Option<&'a CallEnd>,
    /// The resources that its attempts have used so far.
    pub usage: Usage,
}

/// A turn of the model as its hooks see it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HookedTurn<'a> {
    /// The run, thread and agent of the turn.
    pub identity: &'a RunIdentity,
    /// The agent whose model is asked.
    pub agent: &'a AgentView,
    /// The number of times that the run has asked its model, including this one.
    pub ask: u32,
    /// The current state.
    pub state: StateView<'a>,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
}

/// The keys that the plugin declared readable, at one moment.
#[derive(Debug, Clone, Copy)]
pub struct StateView<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) keys: &'a KeySet,
    pub(crate) access: &'a Access,
}

impl<'a> StateView<'a> {
    /// Returns a key's value; `None` if the plugin did not declare that it reads the key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.access.may_read(key).then(|| self.snapshot.get(self.keys, key)).flatten()
    }

    /// Returns a typed key's value, or its default if the plugin does not read the key.
    #[must_use]
    pub fn read<K: StateKey>(&self) -> K::Value {
        let value = self.get(K::NAME).cloned();
        value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
    }

    /// Returns the number of times that the state has changed.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.snapshot.revision()
    }
}
