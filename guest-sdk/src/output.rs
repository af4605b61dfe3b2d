//! The output of a call: its result, its writes and its actions.

use crate::error::ToolError;
use crate::result::ToolResult;
use serde::Serialize;
use serde_json::Value;

/// A result with its mutations and actions. They commit atomically.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The answer for the model.
    pub result: ToolResult,
    /// At most 64 mutations, of at most 256 KiB each and 1 MiB in total.
    pub mutations: Vec<Mutation>,
    /// At most 16 actions. An action that is not granted fails the call.
    pub actions: Vec<Action>,
}

impl ToolOutput {
    /// Creates an output with this result only.
    pub fn new(result: ToolResult) -> Self {
        Self { result, mutations: Vec::new(), actions: Vec::new() }
    }

    /// Adds a mutation.
    #[must_use]
    pub fn with_mutation(mut self, mutation: Mutation) -> Self {
        self.mutations.push(mutation);
        self
    }

    /// Adds an action.
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
    /// Creates an update for the reducer of `key`. An update that cannot be written as
    /// JSON is an internal error.
    pub fn new(key: impl Into<String>, update: &impl Serialize) -> Result<Self, ToolError> {
        let key = key.into();
        match serde_json::to_string(update) {
            Ok(update) => Ok(Self { key, update }),
            Err(error) => {
                Err(ToolError::Internal(format!("The update of `{key}` cannot be written as JSON: {error}.")))
            }
        }
    }

    /// Returns the key's full name, such as `notes.items`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the update for the reducer.
    pub fn update(&self) -> Value {
        serde_json::from_str(&self.update).unwrap_or_default()
    }

    /// Returns the key and the update as JSON text.
    #[cfg(target_family = "wasm")]
    pub(crate) fn into_parts(self) -> (String, String) {
        (self.key, self.update)
    }
}

/// A request to the agent loop. Each needs its grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Hands the thread over to the agent with this id.
    TransferToAgent(String),
    /// Ends the enclosing loop agent; fails the call if there is none.
    Escalate,
    /// Adds a note of at most 16 KiB that the model sees on its next turn.
    AddContext(String),
}
