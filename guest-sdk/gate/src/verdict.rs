//! What a gate answers.

use alloc::borrow::ToOwned;
use alloc::string::String;
use serde_json::Value;

/// What one gate answers about one call. The severest answer of all gates stands,
/// in the order in which they are listed here.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Ends the call and the run, with this reason.
    Block(String),
    /// Ends the call; the model reads this reason and the run goes on.
    Deny(String),
    /// Parks the call until a person decides.
    Suspend(Ticket),
    /// Answers the call without running the tool.
    SetResult(SuppliedResult),
    /// Nothing against it.
    Allow,
}

impl Verdict {
    /// Ends the call and the run.
    pub fn block(reason: impl Into<String>) -> Self {
        Self::Block(reason.into())
    }

    /// Ends the call. The reason is best a sentence that tells the model what to do
    /// instead.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny(reason.into())
    }

    /// Asks a person.
    #[must_use]
    pub fn suspend(ticket: Ticket) -> Self {
        Self::Suspend(ticket)
    }
}

/// The question that a suspended call puts to a person.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ticket {
    /// What is waited for, such as `approve`; 64 bytes.
    pub action: String,
    /// The question; 4 KiB.
    pub message: String,
    /// What the person should see beside the question; `null` where nothing.
    pub parameters: Value,
    /// JSON Schema of the answer; none takes any JSON.
    pub response_schema: Option<Value>,
    /// What the decision does.
    pub resume_mode: ResumeMode,
}

impl Ticket {
    /// A ticket that takes any answer, and lets the call go on with it.
    pub fn new(action: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            action: action.into(),
            message: message.into(),
            parameters: Value::Null,
            response_schema: None,
            resume_mode: ResumeMode::default(),
        }
    }

    /// A plain question, with the action `confirm`.
    pub fn confirm(message: impl Into<String>) -> Self {
        Self::new("confirm", message)
    }

    /// Shows this beside the question.
    #[must_use]
    pub fn with_parameters(mut self, parameters: Value) -> Self {
        self.parameters = parameters;
        self
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
    /// The call goes on with its first arguments.
    #[default]
    ReplayToolCall,
    /// The decision's value is the tool's result; the tool does not run.
    UseDecisionAsToolResult,
    /// The call goes on with the decision's value as its arguments.
    PassDecisionToTool,
}

/// A result in the place of the tool's own.
#[derive(Debug, Clone, PartialEq)]
pub struct SuppliedResult {
    pub(crate) is_error: bool,
    pub(crate) data: Value,
    pub(crate) message: Option<String>,
}

impl SuppliedResult {
    /// What the model reads as the tool's answer.
    #[must_use]
    pub fn success(data: Value) -> Self {
        Self { is_error: false, data, message: None }
    }

    /// What the model reads as the tool's own answer that it failed.
    pub fn error(message: impl Into<String>) -> Self {
        Self { is_error: true, data: Value::Null, message: Some(message.into()) }
    }
}

impl From<&str> for SuppliedResult {
    fn from(text: &str) -> Self {
        Self::success(Value::String(text.to_owned()))
    }
}
