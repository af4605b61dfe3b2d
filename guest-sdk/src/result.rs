//! A tool's own answer.

use crate::ticket::Ticket;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The result of a completed call, for the model.
///
/// The model reads the data if there is no message, the message and the data if there
/// are both, and the message of an error. The result does not contain the tool's name:
/// the host adds it.
///
/// ```
/// use tollgate_sdk::{ToolResult, json};
///
/// let found = ToolResult::success(json!({"hits": 3}));
/// assert!(found.is_success());
///
/// let missing = ToolResult::error_with_code("no_such_note", "There is no note 7.");
/// assert_eq!(missing.data()["error"]["code"], "no_such_note");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    status: Status,
    data: String,
    message: Option<String>,
}

/// The status of a call's result.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// The call did what it was asked to do.
    Success,
    /// The call waits for a person. Without a ticket, the host asks for a plain
    /// confirmation with the result's message.
    Pending(Option<Ticket>),
    /// The tool reports to the model that it failed.
    Error,
}

impl ToolResult {
    /// Creates a success with this data. Data that cannot be written as JSON, such as a
    /// map whose keys are not text, makes it an error with the code `unserializable`.
    pub fn success(data: impl Serialize) -> Self {
        match serde_json::to_string(&data) {
            Ok(data) => Self::of_json(data),
            Err(error) => Self::error_with_code(
                "unserializable",
                format!("The result cannot be written as JSON: {error}."),
            ),
        }
    }

    /// Creates a success with data and a message.
    pub fn success_with_message(data: impl Serialize, message: impl Into<String>) -> Self {
        let result = Self::success(data);
        if result.is_error() { result } else { Self { message: Some(message.into()), ..result } }
    }

    /// Creates a failure; `message` explains it to the model.
    pub fn error(message: impl Into<String>) -> Self {
        Self { status: Status::Error, data: "null".to_owned(), message: Some(message.into()) }
    }

    /// Creates a failure with a stable code: the data is
    /// `{"error":{"code","message"}}`.
    pub fn error_with_code(code: impl AsRef<str>, message: impl Into<String>) -> Self {
        let message = message.into();
        let data = json!({"error": {"code": code.as_ref(), "message": message}}).to_string();
        Self { status: Status::Error, data, message: Some(message) }
    }

    /// Suspends the call until a person confirms `message`.
    pub fn suspended(message: impl Into<String>) -> Self {
        Self { status: Status::Pending(None), data: "null".to_owned(), message: Some(message.into()) }
    }

    /// Suspends the call until a person answers the ticket.
    pub fn suspended_with(ticket: Ticket) -> Self {
        Self {
            message: Some(ticket.message.clone()),
            status: Status::Pending(Some(ticket)),
            data: "null".to_owned(),
        }
    }

    /// Creates a success from data that is already JSON.
    pub(crate) fn of_json(data: String) -> Self {
        Self { status: Status::Success, data, message: None }
    }

    /// Returns how the call ended.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Returns whether the call succeeded.
    pub fn is_success(&self) -> bool {
        matches!(self.status, Status::Success)
    }

    /// Returns whether the call waits for a person.
    pub fn is_pending(&self) -> bool {
        matches!(self.status, Status::Pending(_))
    }

    /// Returns whether the tool reported a failure.
    pub fn is_error(&self) -> bool {
        matches!(self.status, Status::Error)
    }

    /// Returns the data; `null` if there is none.
    pub fn data(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }

    /// Returns the data as a `T`.
    pub fn data_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.data)
    }

    /// Returns the message.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the ticket of a suspended call that asks for more than a confirmation.
    pub fn ticket(&self) -> Option<&Ticket> {
        match &self.status {
            Status::Pending(ticket) => ticket.as_ref(),
            _ => None,
        }
    }

    /// Returns an object with `tool_name`, `status` (`success`, `pending` or `error`),
    /// `data`, `message` and `suspension`, with the tool's name as the host adds it.
    pub fn to_json(&self, tool_name: &str) -> Value {
        let status = match self.status {
            Status::Success => "success",
            Status::Pending(_) => "pending",
            Status::Error => "error",
        };
        json!({
            "tool_name": tool_name,
            "status": status,
            "data": self.data(),
            "message": self.message,
            "suspension": self.ticket().map(ticket_json),
        })
    }

    /// Returns the status, the data as JSON text and the message.
    #[cfg(target_family = "wasm")]
    pub(crate) fn into_parts(self) -> (Status, String, Option<String>) {
        (self.status, self.data, self.message)
    }
}

fn ticket_json(ticket: &Ticket) -> Value {
    json!({
        "action": ticket.action,
        "message": ticket.message,
        "parameters": ticket.parameters,
        "response_schema": ticket.response_schema,
        "resume_mode": ticket.resume_mode.word(),
    })
}
