//! The outcome of a call: the tool's own result, or a fault with a stable code.
//!
//! A call that fails is not an `Err` of the host. A tool that fails, traps, exceeds its limits or
//! returns nonsense has an [`Outcome`] like any other.

mod action;

pub use action::{Action, ActionGrants, ScheduledNote, ToolFilter};

use crate::code::Code;
use crate::content::ContentPart;
use crate::json::LazyJson;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// A tool's answer. The host adds the tool's name; see [`ToolResult::to_json`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Whether the tool succeeded, waits for a person, or failed.
    pub status: ToolStatus,
    /// The answer's data; `null` if there is none.
    #[serde(default)]
    pub data: LazyJson,
    /// A message that accompanies the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Images, files and links that belong to the answer; see
    /// [`check_size`](crate::content::check_size) for their limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<ContentPart>,
}

/// The status of a [`ToolResult`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// The tool succeeded.
    Success,
    /// The tool waits for a person. Without a ticket the host asks for a plain confirmation with
    /// the result's message.
    Pending(Option<Box<Ticket>>),
    /// The tool reported an error.
    Error,
}

impl ToolResult {
    fn new(status: ToolStatus, data: impl Into<LazyJson>, message: Option<String>) -> Self {
        Self { status, data: data.into(), message, content: Vec::new() }
    }

    /// Creates a success with this data.
    #[must_use]
    pub fn success(data: impl Into<Value>) -> Self {
        Self::new(ToolStatus::Success, data.into(), None)
    }

    /// Creates a success with this data and a message.
    #[must_use]
    pub fn success_with_message(data: impl Into<Value>, message: impl Into<String>) -> Self {
        Self::new(ToolStatus::Success, data.into(), Some(message.into()))
    }

    /// Creates an error with this message.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(ToolStatus::Error, LazyJson::default(), Some(message.into()))
    }

    /// Creates an error with a code of the tool's own. Its data is `{"error":{"code","message"}}`.
    #[must_use]
    pub fn error_with_code(code: impl Into<String>, message: impl Into<String>) -> Self {
        let (code, message) = (code.into(), message.into());
        let data = json!({"error": {"code": code, "message": message}});
        Self::new(ToolStatus::Error, data, Some(message))
    }

    /// Creates a result that waits for a plain confirmation.
    #[must_use]
    pub fn suspended(message: impl Into<String>) -> Self {
        Self::new(ToolStatus::Pending(None), LazyJson::default(), Some(message.into()))
    }

    /// Creates a result that waits for the answer to this ticket.
    #[must_use]
    pub fn suspended_with(ticket: Ticket) -> Self {
        let message = Some(ticket.message.clone());
        Self::new(ToolStatus::Pending(Some(Box::new(ticket))), LazyJson::default(), message)
    }

    /// Adds an image, a file or a link.
    #[must_use]
    pub fn with_content(mut self, part: ContentPart) -> Self {
        self.content.push(part);
        self
    }

    /// Returns whether the tool succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status == ToolStatus::Success
    }

    /// Returns whether the tool waits for a person.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self.status, ToolStatus::Pending(_))
    }

    /// Returns whether the tool reported an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.status == ToolStatus::Error
    }

    /// Returns the result as `{"tool_name","status","data","message","suspension"}`, with the name
    /// that the host gives it.
    #[must_use]
    pub fn to_json(&self, tool_name: &str) -> Value {
        let (status, suspension) = match &self.status {
            ToolStatus::Success => ("success", Value::Null),
            ToolStatus::Pending(ticket) => ("pending", json!(ticket)),
            ToolStatus::Error => ("error", Value::Null),
        };
        json!({
            "tool_name": tool_name,
            "status": status,
            "data": self.data,
            "message": self.message,
            "suspension": suspension,
        })
    }
}

/// A question to a person, and how the answer is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ticket {
    /// The requested action, such as `approve` or `provide-file`; at most 64 bytes.
    pub action: String,
    /// The question; at most 4 KiB.
    pub message: String,
    /// Details to show with the question.
    #[serde(default)]
    pub parameters: Value,
    /// JSON Schema of the answer; without one, any JSON is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Value>,
    /// How the answer is used.
    pub resume_mode: ResumeMode,
}

impl Ticket {
    /// Creates a plain confirmation: the action is `confirm`, any answer is accepted, and the call
    /// runs again.
    #[must_use]
    pub fn confirm(message: impl Into<String>) -> Self {
        Self {
            action: "confirm".to_owned(),
            message: message.into(),
            parameters: Value::Null,
            response_schema: None,
            resume_mode: ResumeMode::ReplayToolCall,
        }
    }
}

/// The effect of a person's answer on the call that waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResumeMode {
    /// The call runs again with its first arguments and the decision in its context.
    ReplayToolCall,
    /// The answer becomes the tool's result; nothing runs.
    UseDecisionAsToolResult,
    /// The call runs again with the answer as its arguments, which are validated again.
    PassDecisionToTool,
}

/// An update of a state key. The key's reducer combines it with the value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mutation {
    /// The key's full name, `COMPONENT-ID.NAME`.
    pub key: String,
    /// The update.
    pub update: Value,
}

/// A tool's return value: its result, and the changes that commit with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// The result for the model. It is shared with the record of the call because it may be large.
    pub result: Arc<ToolResult>,
    /// Changes that commit with the result, all or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mutations: Vec<Mutation>,
    /// The actions requested from the loop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
}

impl From<ToolResult> for ToolOutput {
    fn from(result: ToolResult) -> Self {
        Self { result: Arc::new(result), mutations: Vec::new(), actions: Vec::new() }
    }
}

/// A call that ended without an answer of the tool's own. Nothing that the tool changed is
/// committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The stable code.
    pub code: Code,
    /// The message for the model and the user.
    pub message: String,
    /// Details for the operator; the model never sees them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Fault {
    /// Creates a fault with the message that the model reads.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: None }
    }

    /// Adds details for the operator alone.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

/// The outcome of one attempt or a whole call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The tool answered, with a result or an error.
    Returned(ToolOutput),
    /// The call ended for another reason.
    Faulted(Fault),
}

impl Outcome {
    /// Returns whether the attempt was stopped from outside, so that its usage was not fully
    /// counted.
    #[must_use]
    pub fn was_cut(&self) -> bool {
        matches!(self, Self::Faulted(fault) if matches!(fault.code, Code::TimedOut | Code::Cancelled))
    }

    /// Separates the mutations of keys that do not persist from the outcome.
    #[must_use]
    pub fn split_volatile(this: Arc<Self>, persists: impl Fn(&str) -> bool) -> (Arc<Self>, Vec<Mutation>) {
        let Outcome::Returned(output) = this.as_ref() else { return (this, Vec::new()) };
        if output.mutations.iter().all(|mutation| persists(&mutation.key)) {
            return (this, Vec::new());
        }
        let (kept, others) = output.mutations.iter().cloned().partition(|mutation| persists(&mutation.key));
        (Arc::new(Outcome::Returned(ToolOutput { mutations: kept, ..output.clone() })), others)
    }

    /// Restores an outcome that [`split_volatile`](Self::split_volatile) separated. Updates of
    /// different keys do not depend on their order.
    #[must_use]
    pub fn join_volatile(this: &Arc<Self>, others: &[Mutation]) -> Arc<Self> {
        match this.as_ref() {
            Outcome::Returned(output) if !others.is_empty() => {
                let mut output = output.clone();
                output.mutations.extend_from_slice(others);
                Arc::new(Outcome::Returned(output))
            }
            _ => Arc::clone(this),
        }
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        Outcome::Faulted(fault)
    }
}

/// The resources that a call used, summed over its attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Units of wasm fuel.
    pub fuel: u64,
    /// Wall time in microseconds.
    pub wall_us: u64,
    /// The most memory that any one attempt used, in bytes.
    pub memory_bytes: u64,
    /// The number of times that the tool was started.
    pub attempts: u32,
    /// The number of reports that were lost because they exceeded a limit, were malformed, or
    /// arrived faster than they were read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_reports: u64,
    /// Whether the figures are lower bounds: an attempt was stopped from outside, and its usage
    /// after the last count is unknown. Do not rely on them for limits or billing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Adds another attempt: sums time and fuel, and keeps the larger memory.
    #[must_use]
    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            fuel: self.fuel.saturating_add(other.fuel),
            wall_us: self.wall_us.saturating_add(other.wall_us),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            attempts: self.attempts.saturating_add(other.attempts),
            dropped_reports: self.dropped_reports.saturating_add(other.dropped_reports),
            at_least: self.at_least || other.at_least,
        }
    }

    /// Subtracts earlier attempts from a sum that includes them, leaving the last attempt. Its
    /// memory is that of the sum, an upper bound.
    #[must_use]
    pub fn without(self, earlier: Usage) -> Usage {
        Usage {
            fuel: self.fuel.saturating_sub(earlier.fuel),
            wall_us: self.wall_us.saturating_sub(earlier.wall_us),
            attempts: self.attempts.saturating_sub(earlier.attempts),
            dropped_reports: self.dropped_reports.saturating_sub(earlier.dropped_reports),
            ..self
        }
    }

    /// Returns whether all figures are zero.
    pub(crate) fn is_zero(&self) -> bool {
        *self == Usage::default()
    }

    /// Returns the usage of an attempt that was started and never returned.
    #[must_use]
    pub fn of_a_lost_attempt() -> Usage {
        Usage { attempts: 1, at_least: true, ..Usage::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k7_results_have_the_shape_that_the_frameworks_know() {
        let result = ToolResult::error_with_code("no_such_note", "There is no note 7.");
        assert!(result.is_error());
        assert_eq!(
            result.to_json("delete_note"),
            json!({
                "tool_name": "delete_note",
                "status": "error",
                "data": {"error": {"code": "no_such_note", "message": "There is no note 7."}},
                "message": "There is no note 7.",
                "suspension": null,
            })
        );
        assert!(ToolResult::suspended("Sure?").is_pending());
        assert!(ToolResult::success_with_message(1, "one").is_success());
    }

    #[test]
    fn usage_adds_up_over_attempts() {
        let one = Usage { fuel: 5, wall_us: 10, memory_bytes: 100, attempts: 1, ..Usage::default() };
        let one = Usage { dropped_reports: 1, at_least: true, ..one };
        let two = Usage { fuel: 7, wall_us: 20, memory_bytes: 50, attempts: 1, ..Usage::default() };
        let two = Usage { dropped_reports: 1, ..two };
        assert_eq!(
            one.plus(two),
            Usage {
                fuel: 12,
                wall_us: 30,
                memory_bytes: 100,
                attempts: 2,
                dropped_reports: 2,
                at_least: true
            }
        );
        let last = one.plus(two).without(one);
        assert_eq!((last.fuel, last.wall_us, last.attempts, last.dropped_reports), (7, 20, 1, 1));
    }
}
