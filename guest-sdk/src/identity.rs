//! Who calls, on whose behalf, and what a person decided.

use crate::error::ToolError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The run that a call belongs to, and the call that this run came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunIdentity {
    /// This run.
    pub run_id: String,
    /// The conversation it belongs to.
    pub thread_id: String,
    /// The agent that runs.
    pub agent_id: String,
    /// Set where another run delegated to this one.
    pub parent_run_id: Option<String>,
    /// The delegating run's thread.
    pub parent_thread_id: Option<String>,
    /// The call that delegated.
    pub parent_call_id: Option<String>,
}

/// The calling agent as a tool sees it: without prompt, credentials and model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentView {
    /// The agent's id.
    pub id: String,
    /// What it is for.
    pub description: Option<String>,
    /// The agents that it may hand work to.
    pub delegates: Vec<String>,
}

/// A person decided that a suspended call goes on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resumption {
    /// The suspension that was decided.
    pub suspension_id: String,
    /// The ticket's action, as it was asked.
    pub action: String,
    /// The ticket's message, as it was asked.
    pub message: String,
    /// The decision; the same one twice changes nothing.
    pub decision_id: String,
    /// Why, in the person's words.
    pub reason: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub decided_at_ms: u64,
    pub(crate) value: String,
}

impl Resumption {
    /// A decision of this value, for tests. What cannot be written as JSON is `null`.
    pub fn new(value: impl Serialize) -> Self {
        Self {
            suspension_id: "suspension-1".to_owned(),
            decision_id: "decision-1".to_owned(),
            value: serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned()),
            ..Self::default()
        }
    }

    /// The decided value as a `T`. It fits the ticket's response schema where
    /// the ticket had one; a value that is no `T` is an internal error.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        serde_json::from_str(&self.value).map_err(|error| {
            ToolError::Internal(format!(
                "The decision's value is not what the tool reads it as: {error}. \
                 Give the ticket a response schema with `with_response`."
            ))
        })
    }

    /// The decided value as it is.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.value).unwrap_or_default()
    }
}
