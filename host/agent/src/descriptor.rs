//! The description that a component gives of itself and its tools, and the checks before
//! any of it is trusted.

pub use crate::schema::MAX_DESCRIPTION_BYTES;

use crate::name;
use crate::schema::make_readable;
use crate::state::{KeyScope, Reducer};
use crate::text::clean;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// The most tools of one component.
pub const MAX_TOOLS: usize = 64;
/// The most state keys that one component may declare.
pub const MAX_STATE_KEYS: usize = 64;
/// The most bytes that the names, schemas and initial values of one component take in memory once
/// they are parsed, which is many times the length of their texts.
pub const MAX_PARSED_BYTES: u64 = 8 << 20;
/// The longest category and version, in bytes; longer ones are cut.
pub const MAX_LABEL_BYTES: usize = 64;

/// The reason why a descriptor is refused, naming the tool or key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DescriptorError(pub(crate) String);

/// A tool's description, for the model and for the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDescriptor {
    /// Identity in the registry: `[a-z][a-z0-9_-]{0,63}`.
    pub id: String,
    /// The name that the model calls: `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// A description of its effect, for the model.
    pub description: String,
    /// JSON Schema 2020-12 of the arguments, of type `object`.
    pub parameters: Value,
    /// For grouping, and for gates to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// How it asks to be run.
    #[serde(default)]
    pub execution: ExecutionPolicy,
}

impl ToolDescriptor {
    /// Creates a tool that accepts any object.
    #[must_use]
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

    /// Sets the JSON Schema of the arguments.
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

    /// Sets how it asks to be run.
    #[must_use]
    pub fn with_execution(mut self, execution: ExecutionPolicy) -> Self {
        self.execution = execution;
        self
    }

    /// Checks id and name, and cleans the text that people and models will read.
    ///
    /// # Errors
    /// The id or the name does not fit its pattern or is reserved, or the part of the
    /// schema that decides which arguments fit contains invisible characters.
    pub(crate) fn checked(mut self) -> Result<Self, DescriptorError> {
        if !name::is_tool_id(&self.id) || name::is_reserved_id(&self.id) {
            return Err(bad_word(
                "tool id",
                &self.id,
                "fit [a-z][a-z0-9_-]{0,63} and not be reserved (host, tollgate)",
            ));
        }
        if !name::is_tool_name(&self.name) {
            return Err(bad_word("tool name", &self.name, "fit [a-zA-Z0-9_-]{1,64}"));
        }
        self.description = clean(&self.description, MAX_DESCRIPTION_BYTES);
        self.category = self.category.map(|c| clean(&c, MAX_LABEL_BYTES));
        make_readable(&mut self.parameters).map_err(|why| {
            DescriptorError(format!("the parameters of the tool \"{}\" are refused: {why}", self.name))
        })?;
        Ok(self)
    }
}

/// A tool's requests for how it is run. The host clamps them to its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionPolicy {
    /// Milliseconds for one attempt; `None` or zero means the run's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// Attempts after the first, for idempotent tools after a timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Whether it may run again without harm.
    #[serde(default)]
    pub idempotent: bool,
    /// Whether the host calls `validate-args` before the gate.
    #[serde(default)]
    pub validates: bool,
}

/// A state key that a component reads, writes or defines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateAccess {
    /// `COMPONENT-ID.NAME`.
    pub key: String,
    /// Whether its tools read the key.
    pub read: bool,
    /// Whether its tools write the key.
    pub write: bool,
    /// Present if this component defines the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defines: Option<StateKey>,
}

/// A state key as its component describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateKey {
    /// The value before the first update.
    pub initial: Arc<Value>,
    /// The schema that every value of the key must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Arc<Value>>,
    /// How an update is combined with the value.
    pub reducer: Reducer,
    /// The scope in which the key exists.
    pub scope: KeyScope,
    /// Whether it survives the host's process.
    pub persistent: bool,
}

/// A component's description of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComponentDescriptor {
    /// `[a-z][a-z0-9-]{0,63}`; grants and state keys belong to it.
    pub id: String,
    /// Free text for people.
    pub version: String,
    /// Its tools, 1 to [`MAX_TOOLS`].
    pub tools: Vec<ToolDescriptor>,
    /// The only state that its tools may read or write.
    #[serde(default)]
    pub state: Vec<StateAccess>,
}

impl ComponentDescriptor {
    /// Checks and cleans the component's own text.
    /// [`Catalog::add`](crate::catalog::Catalog::add) checks everything that depends on the
    /// rest of the host (collisions, grants, schemas).
    ///
    /// # Errors
    /// The id is invalid or reserved, there are no tools or too many, or there are too
    /// many state keys.
    pub(crate) fn checked(self) -> Result<Self, DescriptorError> {
        if self.tools.is_empty() {
            return Err(DescriptorError(format!(
                "the component \"{}\" offers no tools; 1 to {MAX_TOOLS} are accepted",
                clean(&self.id, 64)
            )));
        }
        self.checked_as_plugin()
    }

    /// Checks the descriptor of a plugin, which may have no tools.
    pub(crate) fn checked_as_plugin(self) -> Result<Self, DescriptorError> {
        if !name::is_id(&self.id) || name::is_reserved_id(&self.id) {
            return Err(bad_word(
                "component id",
                &self.id,
                "fit [a-z][a-z0-9-]{0,63} and not be reserved (host, tollgate)",
            ));
        }
        self.checked_as_own()
    }

    /// Checks the descriptor of the host itself, whose id is reserved.
    pub(crate) fn checked_as_own(mut self) -> Result<Self, DescriptorError> {
        if self.tools.len() > MAX_TOOLS {
            return Err(DescriptorError(format!(
                "the component \"{}\" offers {} tools; at most {MAX_TOOLS} are accepted",
                self.id,
                self.tools.len()
            )));
        }
        if self.state.len() > MAX_STATE_KEYS {
            return Err(DescriptorError(format!(
                "the component \"{}\" declares {} state keys; at most {MAX_STATE_KEYS} are accepted",
                self.id,
                self.state.len()
            )));
        }
        self.version = clean(&self.version, MAX_LABEL_BYTES);
        self.tools = self.tools.into_iter().map(ToolDescriptor::checked).collect::<Result<_, _>>()?;
        Ok(self)
    }
}

fn bad_word(what: &str, word: &str, rule: &str) -> DescriptorError {
    let cut: String = word.chars().take(80).collect();
    DescriptorError(format!("the {what} \"{}\" is refused: it must {rule}", cut.escape_debug()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_a_model_reads_of_a_tool_is_cleaned_and_cut() {
        let hidden = "Adds.\u{202e}\u{e0041}\u{200b}";
        let parameters = json!({"properties": {"a": {"description": hidden}}});
        let told = ToolDescriptor::new("a", "a", hidden.to_owned() + &"x".repeat(10_000));
        let tool = told.with_category(hidden).with_parameters(parameters).checked().unwrap();
        assert!(tool.description.starts_with("Adds.xxx") && tool.description.len() <= MAX_DESCRIPTION_BYTES);
        assert_eq!(tool.category.as_deref(), Some("Adds."));
        assert_eq!(tool.parameters["properties"]["a"]["description"], "Adds.");

        let hides = ToolDescriptor::new("b", "b", "").with_parameters(json!({"properties": {hidden: {}}}));
        let why = hides.checked().unwrap_err().to_string();
        assert!(why.contains("the tool \"b\"") && why.contains("invisible characters"), "{why}");
    }
}
