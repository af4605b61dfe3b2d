//! The caller of a tool, and the decision of a person.

use crate::error::ToolError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The run that a call belongs to, and the call that started this run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunIdentity {
    /// This run.
    pub run_id: String,
    /// The thread of the run.
    pub thread_id: String,
    /// The agent of the run.
    pub agent_id: String,
    /// The run that delegated to this one, if any.
    pub parent_run_id: Option<String>,
    /// The delegating run's thread.
    pub parent_thread_id: Option<String>,
    /// The call that delegated.
    pub parent_call_id: Option<String>,
}

/// The calling agent as a tool sees it, without its prompt, credentials and model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentView {
    /// The agent's id.
    pub id: String,
    /// The agent's purpose.
    pub description: Option<String>,
    /// The agents that it may delegate to.
    pub delegates: Vec<String>,
}

/// A person's decision that resumes a suspended call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resumption {
    /// The id of the suspension.
    pub suspension_id: String,
    /// The ticket's action.
    pub action: String,
    /// The ticket's message.
    pub message: String,
    /// The decision's id; submitting the same decision twice changes nothing.
    pub decision_id: String,
    /// The reason, in the person's words.
    pub reason: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub decided_at_ms: u64,
    pub(crate) value: String,
}

impl Resumption {
    /// Creates a decision with this value, for tests. A value that cannot be written as
    /// JSON is `null`.
    pub fn new(value: impl Serialize) -> Self {
        Self {
            suspension_id: "suspension-1".to_owned(),
            decision_id: "decision-1".to_owned(),
            value: serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned()),
            ..Self::default()
        }
    }

    /// Returns the decided value as a `T`. It fits the ticket's response schema, if
    /// there was one; a value that is not a `T` is an internal error.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        serde_json::from_str(&self.value).map_err(|error| {
            ToolError::Internal(format!(
                "The decision's value is not what the tool reads it as: {error}. \
                 Give the ticket a response schema with `with_response`."
            ))
        })
    }

    /// Returns the decided value as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.value).unwrap_or_default()
    }
}
