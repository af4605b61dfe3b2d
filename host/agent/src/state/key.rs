//! Keys: their name, owner, reducer and lifetime.

use super::{KeyReducer, Reducer};
use crate::json::written_bytes;
use crate::limit_places::LimitPlaces;
use crate::name;
use crate::schema::{MAX_PATTERNS_BYTES, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The most bytes of a key's initial value.
pub const MAX_INITIAL_BYTES: usize = 64 * 1024;
/// The most bytes of all values of one component in one thread, unless configured otherwise.
pub const MAX_THREAD_STATE_BYTES: usize = 64 * 1024 * 1024;

/// The lifetime of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyScope {
    /// Ends with the run.
    Run,
    /// Lives as long as the thread.
    Thread,
}

/// The reason why a key's definition is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(pub(crate) String);

/// A checked definition of a key.
#[derive(Debug, Clone)]
pub struct KeyDefinition {
    /// `OWNER-ID.NAME`.
    pub name: Arc<str>,
    /// The value before the first update.
    pub initial: Arc<Value>,
    /// The compiled schema, which every value of the key must fit.
    pub schema: Option<Schema>,
    /// The reducer that joins an update with the value.
    pub reducer: KeyReducer,
    /// The lifetime of the key.
    pub scope: KeyScope,
    /// Whether the key survives a restart of the host.
    pub persistent: bool,
    /// Whether updates stay valid in any order of folding, without another check.
    pub folds_freely: bool,
}

impl KeyDefinition {
    /// Checks a definition.
    ///
    /// # Errors
    /// The name is invalid, the schema is refused, or the initial value does not fit the schema or
    /// the reducer.
    pub fn new(
        name: impl Into<Arc<str>>,
        initial: impl Into<Arc<Value>>,
        schema_json: Option<Value>,
        reducer: impl Into<KeyReducer>,
        scope: KeyScope,
        persistent: bool,
    ) -> Result<Self, KeyError> {
        let patterns = MAX_PATTERNS_BYTES;
        Self::new_within(name, initial, schema_json.as_ref(), reducer, (scope, persistent), patterns)
    }

    /// Checks a definition as [`KeyDefinition::new`] does, with a limit on the bytes of the
    /// schema's compiled patterns.
    pub(crate) fn new_within(
        name: impl Into<Arc<str>>,
        initial: impl Into<Arc<Value>>,
        schema_json: Option<&Value>,
        reducer: impl Into<KeyReducer>,
        (scope, persistent): (KeyScope, bool),
        most_pattern_bytes: usize,
    ) -> Result<Self, KeyError> {
        let (name, initial, reducer) = (name.into(), initial.into(), reducer.into());
        if !is_key(&name) {
            return Err(KeyError(format!(
                "the state key \"{}\" is not OWNER-ID.NAME, where NAME fits [a-z][a-z0-9_-]{{0,63}}",
                crate::text::clean(&name, 100)
            )));
        }
        let bytes = written_bytes(&initial);
        if bytes > MAX_INITIAL_BYTES {
            return Err(KeyError(format!(
                "the state key \"{name}\" has an initial value of {bytes} bytes; at most {MAX_INITIAL_BYTES} are accepted"
            )));
        }
        let compiled = schema_json.map(|json| Schema::compile_within(json, most_pattern_bytes));
        let schema = compiled.transpose().map_err(|e| KeyError(format!("the state key \"{name}\": {e}")))?;
        if !reducer.accepts(&initial) {
            return Err(KeyError(format!(
                "the state key \"{name}\" has an initial value that its reducer {} does not accept",
                reducer.as_str()
            )));
        }
        if let Some(first) = schema.as_ref().and_then(|schema| schema.violations(&initial).into_iter().next())
        {
            return Err(KeyError(format!(
                "the state key \"{name}\" has an initial value that violates its schema: {} at \"{}\"",
                first.problem, first.pointer
            )));
        }
        let folds_freely = reducer.folds_freely(schema_json);
        Ok(Self { name, initial, schema, reducer, scope, persistent, folds_freely })
    }
}

impl KeyDefinition {
    /// Returns whether the key is a list whose schema constrains only its elements, so that added
    /// elements are checked without the rest.
    #[must_use]
    pub(crate) fn grows_alone(&self) -> bool {
        let is_list = matches!(self.reducer, KeyReducer::Standard(Reducer::Append | Reducer::Union));
        self.folds_freely && is_list
    }
}

/// Returns whether the text has the form `OWNER-ID.NAME`.
pub(crate) fn is_key(name: &str) -> bool {
    let Some((owner, rest)) = name.split_once('.') else {
        return false;
    };
    name::is_id(owner)
        && (1..=64).contains(&rest.len())
        && rest.as_bytes()[0].is_ascii_lowercase()
        && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
}

/// Returns the id of a key's owner, which is the first part of the key.
#[must_use]
pub fn owner_of(key: &str) -> &str {
    key.split_once('.').map_or(key, |(owner, _)| owner)
}

/// The keys that all loaded components define. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct KeySet {
    definitions: Arc<BTreeMap<Arc<str>, Arc<KeyDefinition>>>,
    thread_state_bytes: usize,
    limit_places: &'static LimitPlaces,
}

impl Default for KeySet {
    fn default() -> Self {
        Self {
            definitions: Arc::default(),
            thread_state_bytes: MAX_THREAD_STATE_BYTES,
            limit_places: &LimitPlaces::NONE,
        }
    }
}

impl KeySet {
    /// Returns the most bytes that the values of one component's keys may have in one thread.
    #[must_use]
    pub fn thread_state_bytes(&self) -> usize {
        self.thread_state_bytes
    }

    pub(crate) fn set_thread_state_bytes(&mut self, bytes: usize) {
        self.thread_state_bytes = bytes;
    }

    /// Returns the places where an operator changes limits.
    #[must_use]
    pub fn limit_places(&self) -> &'static LimitPlaces {
        self.limit_places
    }

    pub(crate) fn set_limit_places(&mut self, places: &'static LimitPlaces) {
        self.limit_places = places;
    }

    /// Returns the definition of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&KeyDefinition> {
        self.definitions.get(key).map(AsRef::as_ref)
    }

    /// Returns the shared definition of a key.
    pub(super) fn shared(&self, key: &str) -> Option<&Arc<KeyDefinition>> {
        self.definitions.get(key)
    }

    /// Returns every definition, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &KeyDefinition> {
        self.definitions.values().map(AsRef::as_ref)
    }

    /// Adds a key.
    ///
    /// # Errors
    /// A key of this name is already defined.
    pub fn insert(&mut self, definition: KeyDefinition) -> Result<(), KeyError> {
        if self.definitions.contains_key(&definition.name) {
            return Err(KeyError(format!("the state key \"{}\" is defined twice", definition.name)));
        }
        Arc::make_mut(&mut self.definitions).insert(Arc::clone(&definition.name), Arc::new(definition));
        Ok(())
    }

    /// Removes the keys that this owner defined.
    pub(crate) fn remove_of(&mut self, owner_id: &str) {
        // Ids contain no `.`, and `/` is the character after `.`, so the range holds all keys of
        // the owner.
        let (first, end) = (format!("{owner_id}."), format!("{owner_id}/"));
        let of_owner = (Bound::Included(first.as_str()), Bound::Excluded(end.as_str()));
        let gone: Vec<Arc<str>> =
            self.definitions.range::<str, _>(of_owner).map(|(key, _)| Arc::clone(key)).collect();
        if !gone.is_empty() {
            let definitions = Arc::make_mut(&mut self.definitions);
            gone.iter().for_each(|key| drop(definitions.remove(key)));
        }
    }
}

/// The keys that one tool, hook or gate may read and write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    reads: BTreeSet<String>,
    writes: BTreeSet<String>,
}

impl Access {
    /// Allows reading and writing the key as given. Keys under `host.` are never accessible.
    pub fn allow(&mut self, key: &str, read: bool, write: bool) {
        if key.starts_with("host.") {
            return;
        }
        if read {
            self.reads.insert(key.to_owned());
        }
        if write {
            self.writes.insert(key.to_owned());
        }
    }

    /// Returns the readable keys, sorted.
    pub fn reads(&self) -> impl Iterator<Item = &str> {
        self.reads.iter().map(String::as_str)
    }

    /// Returns the writable keys, sorted.
    pub fn writes(&self) -> impl Iterator<Item = &str> {
        self.writes.iter().map(String::as_str)
    }

    /// Returns whether the key may be read.
    #[must_use]
    pub fn may_read(&self, key: &str) -> bool {
        self.reads.contains(key)
    }

    /// Returns whether the key may be written.
    #[must_use]
    pub fn may_write(&self, key: &str) -> bool {
        self.writes.contains(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(
        name: &str,
        initial: Value,
        schema: Option<Value>,
        reducer: Reducer,
    ) -> Result<KeyDefinition, KeyError> {
        KeyDefinition::new(name, initial, schema, reducer, KeyScope::Run, false)
    }

    #[test]
    fn definitions_are_checked() {
        assert!(key("notes.items", json!([]), Some(json!({"type": "array"})), Reducer::Append).is_ok());
        for (name, initial, schema, reducer) in [
            ("items", json!([]), None, Reducer::Append),
            ("notes.Items", json!([]), None, Reducer::Append),
            ("notes.items", json!({}), None, Reducer::Append),
            ("notes.items", json!([]), Some(json!({"type": "string"})), Reducer::Append),
            ("notes.items", json!([]), Some(json!({"$ref": "http://x"})), Reducer::Replace),
            ("notes.items", json!("x".repeat(MAX_INITIAL_BYTES)), None, Reducer::Replace),
        ] {
            assert!(key(name, initial, schema, reducer).is_err(), "{name} {reducer:?}");
        }
    }

    #[test]
    fn s1_host_keys_are_out_of_reach() {
        let mut access = Access::default();
        access.allow("host.secret", true, true);
        access.allow("notes.items", true, false);
        assert!(!access.may_read("host.secret") && !access.may_write("host.secret"));
        assert!(access.may_read("notes.items") && !access.may_write("notes.items"));
    }
}
