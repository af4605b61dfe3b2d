//! What hooks are shown: values as they stand, and nothing that could be changed.

use super::StateKey;
use serde_json::Value;
use tollgate_agent::context::{AgentView, RunIdentity};
use tollgate_agent::outcome::Usage;
use tollgate_agent::run::CallEnd;
use tollgate_agent::state::{Access, KeySet, Snapshot};

/// A call as the hooks around it are shown it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HookedCall<'a> {
    /// The call's id, unique within the run.
    pub call_id: &'a str,
    /// The name of its tool.
    pub tool_name: &'a str,
    /// Who brings the tool: a component, plugin, server or agent.
    pub owner_id: Option<&'a str>,
    /// The arguments; those that were judged.
    pub arguments: &'a Value,
    /// Where the call stands.
    pub identity: &'a RunIdentity,
    /// The agent that calls.
    pub agent: &'a AgentView,
    /// The state as it stands now.
    pub state: StateView<'a>,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// How the call ends, as the hooks that were asked before made it; none before it
    /// ran.
    pub end: Option<&'a CallEnd>,
    /// What its attempts used so far.
    pub usage: Usage,
}

/// A turn of the model as the hooks around it are shown it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HookedTurn<'a> {
    /// Where the run stands.
    pub identity: &'a RunIdentity,
    /// The agent whose model is asked.
    pub agent: &'a AgentView,
    /// How often the run asked its model, this time included.
    pub ask: u32,
    /// The state as it stands now.
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
    /// A key's value; none where the plugin did not declare that it reads the key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.access.may_read(key).then(|| self.snapshot.get(self.keys, key)).flatten()
    }

    /// A typed key's value; its default where the plugin does not read the key.
    #[must_use]
    pub fn read<K: StateKey>(&self) -> K::Value {
        let value = self.get(K::NAME).cloned();
        value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
    }

    /// How often the state changed.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.snapshot.revision()
    }
}
