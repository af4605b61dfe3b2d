//! The checks of a component that do not depend on what else is loaded. They can take long, so
//! they run before the component joins a catalog for which others wait.

use crate::descriptor::{ComponentDescriptor, DescriptorError, StateAccess, StateKey, ToolDescriptor};
use crate::schema::{MAX_PATTERNS_BYTES, Schema};
use crate::state::{KeyDefinition, KeyReducer, NativeReducer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reducers in code, by key.
pub type Natives = BTreeMap<String, Arc<dyn NativeReducer>>;

/// A component whose descriptions, schemas and state keys were checked.
#[derive(Debug, Clone)]
pub struct PreparedComponent {
    pub(super) id: String,
    /// Each tool with the compiled schema of its arguments.
    pub(super) tools: Vec<(ToolDescriptor, Schema)>,
    /// Each key that it uses, with the definition of those that are its own.
    pub(super) state: Vec<(StateAccess, Option<KeyDefinition>)>,
}

impl PreparedComponent {
    /// Checks a component's descriptions, schemas and initial values. This can take long.
    ///
    /// # Errors
    /// An id or name is invalid, a schema or an initial value is refused, or the compiled
    /// patterns of all schemas take more than [`MAX_PATTERNS_BYTES`].
    pub fn new(descriptor: ComponentDescriptor) -> Result<Self, DescriptorError> {
        Self::of(descriptor.checked()?, &Natives::new())
    }

    /// Compiles the schemas of a descriptor that was checked. All of them share one budget for
    /// compiled patterns.
    pub(super) fn of(descriptor: ComponentDescriptor, natives: &Natives) -> Result<Self, DescriptorError> {
        let mut bytes_left = MAX_PATTERNS_BYTES;
        let mut state = Vec::with_capacity(descriptor.state.len());
        for wanted in descriptor.state {
            let own = is_own(&descriptor.id, &wanted.key);
            let definition = match wanted.defines.as_ref().filter(|_| own) {
                Some(key) => {
                    let native = natives.get(&wanted.key).map(|native| KeyReducer::from(Arc::clone(native)));
                    let definition = define(&wanted.key, key, native, bytes_left)?;
                    let used = definition.schema.as_ref().map_or(0, Schema::pattern_bytes);
                    bytes_left = bytes_left.saturating_sub(used);
                    Some(definition)
                }
                None => None,
            };
            state.push((wanted, definition));
        }
        let mut tools = Vec::with_capacity(descriptor.tools.len());
        for mut tool in descriptor.tools {
            let arguments = Schema::compile_arguments(&mut tool.parameters, bytes_left)
                .map_err(|e| DescriptorError(format!("the tool \"{}\": {e}", tool.name)))?;
            bytes_left = bytes_left.saturating_sub(arguments.pattern_bytes());
            tools.push((tool, arguments));
        }
        Ok(Self { id: descriptor.id, tools, state })
    }

    /// Returns the size of the compiled patterns of all its schemas, in bytes.
    #[must_use]
    pub fn pattern_bytes(&self) -> usize {
        let keys = self.state.iter().filter_map(|(_, definition)| definition.as_ref()?.schema.as_ref());
        let schemas = self.tools.iter().map(|(_, arguments)| arguments).chain(keys);
        schemas.map(Schema::pattern_bytes).sum()
    }

    /// Sets the time that each tool may take, as the operator configured it.
    pub fn set_timeouts(&mut self, timeout_ms: impl Fn(&str) -> Option<u32>) {
        for (tool, _) in &mut self.tools {
            if let Some(timeout_ms) = timeout_ms(&tool.name) {
                tool.execution.timeout_ms = Some(timeout_ms);
            }
        }
    }
}

/// Returns whether a key belongs to the component with this id.
pub(super) fn is_own(id: &str, key: &str) -> bool {
    key.split_once('.').is_some_and(|(owner, _)| owner == id)
}

/// Returns the definition of a key. A reducer in code replaces the one that the descriptor names.
fn define(
    name: &str,
    key: &StateKey,
    native: Option<KeyReducer>,
    most_pattern_bytes: usize,
) -> Result<KeyDefinition, DescriptorError> {
    let reducer = native.unwrap_or(KeyReducer::Standard(key.reducer));
    let lifetime = (key.scope, key.persistent);
    KeyDefinition::new_within(
        name,
        Arc::clone(&key.initial),
        key.schema.as_deref(),
        reducer,
        lifetime,
        most_pattern_bytes,
    )
    .map_err(|e| DescriptorError(e.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::schema::{MAX_PATTERN_BYTES, MAX_PATTERNS};
    use serde_json::{Value, json};

    /// Returns a tool whose schema has this many patterns, each close to the largest allowed size.
    fn tool(name: &str, patterns: usize) -> ToolDescriptor {
        let patterns: Value = (0..patterns)
            .map(|n| (format!("p{n}"), json!({"pattern": format!("[a-z]{{3000}}{name}{n}")})))
            .collect();
        ToolDescriptor::new(name, name, "Does it.").with_parameters(json!({"properties": patterns}))
    }

    #[test]
    fn z2_all_patterns_of_a_component_are_bounded_together() {
        let component = |count: usize| ComponentDescriptor {
            id: "patterns".to_owned(),
            version: "1".to_owned(),
            tools: (0..count).map(|n| tool(&format!("t{n}"), MAX_PATTERNS)).collect(),
            state: Vec::new(),
        };
        let one = PreparedComponent::new(component(1)).unwrap().pattern_bytes();
        assert!(one > 1024 * 1024 && one <= MAX_PATTERNS * MAX_PATTERN_BYTES, "{one}");
        let fitting = MAX_PATTERNS_BYTES / one;
        assert!(PreparedComponent::new(component(fitting)).unwrap().pattern_bytes() <= MAX_PATTERNS_BYTES);
        let why = PreparedComponent::new(component(fitting + 1)).unwrap_err().to_string();
        assert!(why.contains("patterns of one component"), "{why}");
    }
}
