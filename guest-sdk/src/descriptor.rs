//! Descriptions of components and tools.

use crate::key::StateAccess;
use serde_json::{Value, json};
use std::time::Duration;

/// A component with its id, tools and state.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentDescriptor {
    /// The component's id, `[a-z][a-z0-9-]{0,63}`. Grants and state keys belong to it.
    pub id: String,
    /// Free text of at most 64 bytes, for people.
    pub version: String,
    /// 1 to 64 tools.
    pub tools: Vec<ToolDescriptor>,
    /// The only state that its tools may read or change; at most 64 keys.
    pub state: Vec<StateAccess>,
}

/// A tool as the model sees it, and how the host runs it.
///
/// ```
/// use tollgate_sdk::{ToolDescriptor, json};
///
/// let descriptor = ToolDescriptor::new("echo", "echo", "Says it again.")
///     .with_parameters(json!({"type": "object", "properties": {"text": {"type": "string"}}}))
///     .with_category("demo");
/// assert_eq!(descriptor.category.as_deref(), Some("demo"));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolDescriptor {
    /// The tool's id in the registry, `[a-z][a-z0-9_-]{0,63}`.
    pub id: String,
    /// The name that the model uses, `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// The tool's purpose, for the model. Cut at 4 KiB.
    pub description: String,
    /// JSON Schema 2020-12 of the arguments, at most 64 KiB, of type `object`.
    pub parameters: Value,
    /// A category for grouping and for gates to match.
    pub category: Option<String>,
    /// How the host runs the tool.
    pub execution: ExecutionPolicy,
}

/// Requests to the host, which clamps each to its own ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExecutionPolicy {
    /// The time limit of one attempt in milliseconds. `None` means the run's limit, or
    /// 15 s.
    pub timeout_ms: Option<u32>,
    /// The number of attempts after the first, only for idempotent tools and only after
    /// a timeout. The default is 3, the maximum 10.
    pub max_retries: Option<u32>,
    /// Whether running again is harmless: reading is, sending a mail is not.
    pub idempotent: bool,
    /// Whether the tool checks constraints that the schema cannot express.
    pub validates: bool,
}

impl ToolDescriptor {
    /// Creates a tool that takes any object.
    pub fn new(id: impl Into<String>, name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            description: description.into(),
            parameters: json!({"type": "object"}),
            category: None,
            execution: ExecutionPolicy::default(),
        }
    }

    /// Sets the schema of the arguments.
    #[must_use]
    pub fn with_parameters(mut self, schema: Value) -> Self {
        self.parameters = schema;
        self
    }

    /// Sets the category.
    #[must_use]
    pub fn with_category(mut self, category: impl Into<String>) -> Self {
        self.category = Some(category.into());
        self
    }

    /// Requests a time limit for one attempt. The maximum is 49 days.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.execution.timeout_ms = Some(u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX));
        self
    }

    /// Requests a number of attempts after the first.
    #[must_use]
    pub fn with_max_retries(mut self, retries: u32) -> Self {
        self.execution.max_retries = Some(retries);
        self
    }

    /// Declares that running again is harmless.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.execution.idempotent = true;
        self
    }

    /// Makes the host call [`Tool::validate_args`](crate::Tool::validate_args) before
    /// the gate.
    #[must_use]
    pub fn validates(mut self) -> Self {
        self.execution.validates = true;
        self
    }
}
