//! The question of a call that waits for a person.

use crate::schema::value_schema;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The question that a suspended call asks a person.
///
/// ```
/// use tollgate_sdk::{ResumeMode, Ticket, json};
///
/// let ticket = Ticket::new("approve", "Delete 3 files?")
///     .with_parameters(json!({"files": ["a", "b", "c"]}))
///     .with_response::<bool>()
///     .with_resume_mode(ResumeMode::ReplayToolCall);
/// assert_eq!(ticket.response_schema, Some(json!({"type": "boolean"})));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ticket {
    /// The awaited action, such as `approve` or `provide-file`; at most 64 bytes.
    pub action: String,
    /// The question for the person; at most 4 KiB.
    pub message: String,
    /// Data to show the person beside the question; `null` if there is none.
    pub parameters: Value,
    /// JSON Schema of the answer. An answer that does not fit is rejected, and the call
    /// keeps waiting.
    pub response_schema: Option<Value>,
    /// The effect of the decision.
    pub resume_mode: ResumeMode,
}

impl Ticket {
    /// Creates a ticket that accepts any JSON and replays the call.
    pub fn new(action: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            action: action.into(),
            message: message.into(),
            parameters: Value::Null,
            response_schema: None,
            resume_mode: ResumeMode::default(),
        }
    }

    /// Sets the data to show beside the question. Data that cannot be written as JSON
    /// is replaced by the reason.
    #[must_use]
    pub fn with_parameters(mut self, parameters: impl Serialize) -> Self {
        self.parameters =
            serde_json::to_value(parameters).unwrap_or_else(|error| Value::String(error.to_string()));
        self
    }

    /// Sets the type of the answer.
    #[must_use]
    pub fn with_response<T: JsonSchema>(self) -> Self {
        self.with_response_schema(value_schema::<T>())
    }

    /// Sets the JSON Schema that the answer has to fit.
    #[must_use]
    pub fn with_response_schema(mut self, schema: Value) -> Self {
        self.response_schema = Some(schema);
        self
    }

    /// Sets the effect of the decision.
    #[must_use]
    pub fn with_resume_mode(mut self, mode: ResumeMode) -> Self {
        self.resume_mode = mode;
        self
    }
}

/// The effect of a decision on the call that waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResumeMode {
    /// Runs the call again with its original arguments; the decision is in
    /// [`Context::resume`](crate::Context::resume).
    #[default]
    ReplayToolCall,
    /// Uses the decision's value as the tool's result; the tool does not run.
    UseDecisionAsToolResult,
    /// Runs the call again with the decision's value as its arguments.
    PassDecisionToTool,
}

impl ResumeMode {
    /// Returns the name of the mode in the contract.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::ReplayToolCall => "replay-tool-call",
            Self::UseDecisionAsToolResult => "use-decision-as-tool-result",
            Self::PassDecisionToTool => "pass-decision-to-tool",
        }
    }
}
