//! What a component says about itself.

use crate::key::StateAccess;
use serde_json::{Value, json};
use std::time::Duration;

/// A component: its id, its tools, its state.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentDescriptor {
    /// `[a-z][a-z0-9-]{0,63}`. Grants and state keys belong to it.
    pub id: String,
    /// Free text of at most 64 bytes, for people.
    pub version: String,
    /// 1 to 64 tools.
    pub tools: Vec<ToolDescriptor>,
    /// The only state that its tools may see or change; 64 keys at most.
    pub state: Vec<StateAccess>,
}

/// A tool: what the model sees of it, and how the host is to run it.
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
    /// Identity in the registry: `[a-z][a-z0-9-]{0,63}`.
    pub id: String,
    /// The name the model calls: `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// What it does, for the model. Cut at 4 KiB.
    pub description: String,
    /// JSON Schema 2020-12 of the arguments, at most 64 KiB, of type `object`.
    pub parameters: Value,
    /// For grouping, and for gates to match.
    pub category: Option<String>,
    /// How the host is to run it.
    pub execution: ExecutionPolicy,
}

/// Requests to the host, which clamps each to its own ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExecutionPolicy {
    /// For one attempt, in milliseconds. None means the run's, or 15 s.
    pub timeout_ms: Option<u32>,
    /// Attempts after the first, only for idempotent tools and only after a
    /// timeout; 3 where unset, 10 at most.
    pub max_retries: Option<u32>,
    /// May run again without harm: a read is, sending a mail is not.
    pub idempotent: bool,
    /// Whether the tool checks what the schema cannot say.
    pub validates: bool,
}

impl ToolDescriptor {
    /// A tool that takes any object.
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

    /// Takes arguments that fit this schema.
    #[must_use]
    pub fn with_parameters(mut self, schema: Value) -> Self {
        self.parameters = schema;
        self
    }

    /// Belongs to this group.
    #[must_use]
    pub fn with_category(mut self, category: impl Into<String>) -> Self {
        self.category = Some(category.into());
        self
    }

    /// Asks for this much time for one attempt. More than 49 days count as 49.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.execution.timeout_ms = Some(u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX));
        self
    }

    /// Asks for this many attempts after the first.
    #[must_use]
    pub fn with_max_retries(mut self, retries: u32) -> Self {
        self.execution.max_retries = Some(retries);
        self
    }

    /// May run again without harm.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.execution.idempotent = true;
        self
    }

    /// Has the host call [`Tool::validate_args`](crate::Tool::validate_args)
    /// before the gate.
    #[must_use]
    pub fn validates(mut self) -> Self {
        self.execution.validates = true;
        self
    }
}
