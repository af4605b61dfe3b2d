//! The verdict of a gate.

use alloc::borrow::ToOwned;
use alloc::string::String;
use serde_json::Value;

/// A gate's answer about one call. If several gates answer, the severest verdict
/// applies, in the order listed here.
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
    /// Does not object to the call.
    Allow,
}

impl Verdict {
    /// Ends the call and the run, for this reason.
    pub fn block(reason: impl Into<String>) -> Self {
        Self::Block(reason.into())
    }

    /// Ends the call. The reason should be a sentence that tells the model what to do
    /// instead.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny(reason.into())
    }

    /// Suspends the call until a person answers this ticket.
    #[must_use]
    pub fn suspend(ticket: Ticket) -> Self {
        Self::Suspend(ticket)
    }
}

/// The question that a suspended call asks a person.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ticket {
    /// The awaited action, such as `approve`; at most 64 bytes.
    pub action: String,
    /// The question; at most 4 KiB.
    pub message: String,
    /// Data to show the person beside the question; `null` if there is none.
    pub parameters: Value,
    /// JSON Schema of the answer; `None` accepts any JSON.
    pub response_schema: Option<Value>,
    /// The effect of the decision.
    pub resume_mode: ResumeMode,
}

impl Ticket {
    /// Creates a ticket that accepts any answer and resumes the call with it.
    pub fn new(action: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            action: action.into(),
            message: message.into(),
            parameters: Value::Null,
            response_schema: None,
            resume_mode: ResumeMode::default(),
        }
    }

    /// Creates a plain question with the action `confirm`.
    pub fn confirm(message: impl Into<String>) -> Self {
        Self::new("confirm", message)
    }

    /// Sets the data to show beside the question.
    #[must_use]
    pub fn with_parameters(mut self, parameters: Value) -> Self {
        self.parameters = parameters;
        self
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
    /// Resumes the call with its original arguments.
    #[default]
    ReplayToolCall,
    /// Uses the decision's value as the tool's result; the tool does not run.
    UseDecisionAsToolResult,
    /// Resumes the call with the decision's value as its arguments.
    PassDecisionToTool,
}

/// A result that replaces the tool's own.
#[derive(Debug, Clone, PartialEq)]
pub struct SuppliedResult {
    pub(crate) is_error: bool,
    pub(crate) data: Value,
    pub(crate) message: Option<String>,
}

impl SuppliedResult {
    /// Creates a result that the model reads as the tool's answer.
    #[must_use]
    pub fn success(data: Value) -> Self {
        Self { is_error: false, data, message: None }
    }

    /// Creates a result that the model reads as the tool's own failure.
    pub fn error(message: impl Into<String>) -> Self {
        Self { is_error: true, data: Value::Null, message: Some(message.into()) }
    }
}

impl From<&str> for SuppliedResult {
    fn from(text: &str) -> Self {
        Self::success(Value::String(text.to_owned()))
    }
}
