//! Everything that a call hands back: its result, what it writes, what it asks.

use crate::error::ToolError;
use crate::result::ToolResult;
use serde::Serialize;
use serde_json::Value;

/// A result with the mutations and actions that go with it. They commit
/// together, all or none.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolOutput {
    /// What the model reads.
    pub result: ToolResult,
    /// At most 64, 256 KiB each and 1 MiB in all.
    pub mutations: Vec<Mutation>,
    /// At most 16. One that is not granted fails the call.
    pub actions: Vec<Action>,
}

impl ToolOutput {
    /// This result, and nothing else.
    pub fn new(result: ToolResult) -> Self {
        Self { result, mutations: Vec::new(), actions: Vec::new() }
    }

    /// Writes this too.
    #[must_use]
    pub fn with_mutation(mut self, mutation: Mutation) -> Self {
        self.mutations.push(mutation);
        self
    }

    /// Asks this too.
    #[must_use]
    pub fn with_action(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }
}

impl From<ToolResult> for ToolOutput {
    fn from(result: ToolResult) -> Self {
        Self::new(result)
    }
}

/// An update for a key's reducer.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    key: String,
    update: String,
}

impl Mutation {
    /// Hands `update` to the reducer of `key`. An update that cannot be written
    /// as JSON is an internal error.
    pub fn new(key: impl Into<String>, update: &impl Serialize) -> Result<Self, ToolError> {
        let key = key.into();
        match serde_json::to_string(update) {
            Ok(update) => Ok(Self { key, update }),
            Err(error) => {
                Err(ToolError::Internal(format!("The update of `{key}` cannot be written as JSON: {error}.")))
            }
        }
    }

    /// The key's whole name, such as `notes.items`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The update, as the reducer gets it.
    pub fn update(&self) -> Value {
        serde_json::from_str(&self.update).unwrap_or_default()
    }

    /// Key and update as JSON text.
    #[cfg(target_family = "wasm")]
    pub(crate) fn into_parts(self) -> (String, String) {
        (self.key, self.update)
    }
}

/// What a tool may ask of the agent loop. Each needs its grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Hands the thread to the agent of this id.
    TransferToAgent(String),
    /// Ends the enclosing loop agent; fails the call outside one.
    Escalate,
    /// A note of at most 16 KiB that the model sees at its next turn.
    AddContext(String),
}
