//! What a call that waits for a person asks.

use crate::schema::value_schema;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The question that a suspended call puts to a person.
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
    /// What is waited for, such as `approve` or `provide-file`; 64 bytes.
    pub action: String,
    /// The question, for a person; 4 KiB.
    pub message: String,
    /// What the person should see beside the question; `null` where nothing.
    pub parameters: Value,
    /// JSON Schema of the answer. An answer that does not fit is refused and the
    /// call goes on waiting.
    pub response_schema: Option<Value>,
    /// What the decision does.
    pub resume_mode: ResumeMode,
}

impl Ticket {
    /// A ticket whose answer may be any JSON, and which replays the call.
    pub fn new(action: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            action: action.into(),
            message: message.into(),
            parameters: Value::Null,
            response_schema: None,
            resume_mode: ResumeMode::default(),
        }
    }

    /// Shows `parameters` beside the question. What cannot be written as JSON is
    /// shown as the reason why it cannot.
    #[must_use]
    pub fn with_parameters(mut self, parameters: impl Serialize) -> Self {
        self.parameters =
            serde_json::to_value(parameters).unwrap_or_else(|error| Value::String(error.to_string()));
        self
    }

    /// The answer has to be a `T`.
    #[must_use]
    pub fn with_response<T: JsonSchema>(self) -> Self {
        self.with_response_schema(value_schema::<T>())
    }

    /// The answer has to fit this JSON Schema.
    #[must_use]
    pub fn with_response_schema(mut self, schema: Value) -> Self {
        self.response_schema = Some(schema);
        self
    }

    /// What the decision does.
    #[must_use]
    pub fn with_resume_mode(mut self, mode: ResumeMode) -> Self {
        self.resume_mode = mode;
        self
    }
}

/// What a decision does with the call that waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResumeMode {
    /// Runs the call again with its first arguments; the decision is in
    /// [`Context::resume`](crate::Context::resume).
    #[default]
    ReplayToolCall,
    /// The decision's value is the tool's result; the tool does not run.
    UseDecisionAsToolResult,
    /// Runs the call again with the decision's value as its arguments.
    PassDecisionToTool,
}

impl ResumeMode {
    /// The word of the contract.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::ReplayToolCall => "replay-tool-call",
            Self::UseDecisionAsToolResult => "use-decision-as-tool-result",
            Self::PassDecisionToTool => "pass-decision-to-tool",
        }
    }
}
