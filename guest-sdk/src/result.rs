//! A tool's own answer.

use crate::ticket::Ticket;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What the model reads of a call that came to its end.
///
/// The model reads the data where there is no message, message and data where
/// there are both, and the message of an error. The result does not carry the
/// tool's name: the host stamps it.
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

/// How a call came to its end.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// It did what it was asked.
    Success,
    /// It waits for a person. Without a ticket the host asks for a plain
    /// confirmation with the result's message.
    Pending(Option<Ticket>),
    /// The tool's own answer that it failed, for the model.
    Error,
}

impl ToolResult {
    /// It worked, and this is what came out. Data that cannot be written as JSON
    /// (a map whose keys are no text, say) makes it an error with the code
    /// `unserializable`.
    pub fn success(data: impl Serialize) -> Self {
        match serde_json::to_string(&data) {
            Ok(data) => Self::of_json(data),
            Err(error) => Self::error_with_code(
                "unserializable",
                format!("The result cannot be written as JSON: {error}."),
            ),
        }
    }

    /// It worked, and `message` says so in words beside the data.
    pub fn success_with_message(data: impl Serialize, message: impl Into<String>) -> Self {
        let result = Self::success(data);
        if result.is_error() { result } else { Self { message: Some(message.into()), ..result } }
    }

    /// It did not work, and `message` tells the model why.
    pub fn error(message: impl Into<String>) -> Self {
        Self { status: Status::Error, data: "null".to_owned(), message: Some(message.into()) }
    }

    /// The same with a stable code: the data is `{"error":{"code","message"}}`.
    pub fn error_with_code(code: impl AsRef<str>, message: impl Into<String>) -> Self {
        let message = message.into();
        let data = json!({"error": {"code": code.as_ref(), "message": message}}).to_string();
        Self { status: Status::Error, data, message: Some(message) }
    }

    /// Waits until a person confirms `message`.
    pub fn suspended(message: impl Into<String>) -> Self {
        Self { status: Status::Pending(None), data: "null".to_owned(), message: Some(message.into()) }
    }

    /// Waits for the answer that the ticket asks for.
    pub fn suspended_with(ticket: Ticket) -> Self {
        Self {
            message: Some(ticket.message.clone()),
            status: Status::Pending(Some(ticket)),
            data: "null".to_owned(),
        }
    }

    /// A success whose data is written already.
    pub(crate) fn of_json(data: String) -> Self {
        Self { status: Status::Success, data, message: None }
    }

    /// How the call ended.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// It did what it was asked.
    pub fn is_success(&self) -> bool {
        matches!(self.status, Status::Success)
    }

    /// It waits for a person.
    pub fn is_pending(&self) -> bool {
        matches!(self.status, Status::Pending(_))
    }

    /// It failed, in the tool's own words.
    pub fn is_error(&self) -> bool {
        matches!(self.status, Status::Error)
    }

    /// The data; `null` where there is none.
    pub fn data(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }

    /// The data as a `T`, or why it is none.
    pub fn data_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.data)
    }

    /// The words beside the data.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// What a suspended call asks, where it asks more than a confirmation.
    pub fn ticket(&self) -> Option<&Ticket> {
        match &self.status {
            Status::Pending(ticket) => ticket.as_ref(),
            _ => None,
        }
    }

    /// One object with `tool_name`, `status` (`success`, `pending` or `error`),
    /// `data`, `message` and `suspension`, under the name that the host stamps.
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

    /// Status, data as JSON text, message.
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
