//! Reducers that the embedding program implements in code.
//!
//! This code runs when a call's changes are decided, and never again. The event holds the resulting
//! value, so that folding a record does not need the code.

use super::{Reducer, UpdateError};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// A reducer in code. It must be pure: the same value and update give the same result, without
/// reading or changing anything else.
pub trait NativeReducer: Send + Sync {
    /// Returns whether two updates lead to the same value in either order, so that calls of one
    /// batch may both write the key.
    fn commutes(&self) -> bool;

    /// Returns whether the key may hold the value.
    fn accepts(&self, value: &Value) -> bool;

    /// Joins an update with a value.
    ///
    /// # Errors
    /// The update is invalid.
    fn join(&self, value: &Value, update: &Value) -> Result<Value, UpdateError>;
}

/// The reducer of a key: one of the six built-in ones, or one of the embedding program.
#[derive(Clone)]
pub enum KeyReducer {
    /// A built-in reducer.
    Standard(Reducer),
    /// A reducer of the embedding program.
    Native(Arc<dyn NativeReducer>),
}

impl KeyReducer {
    /// Returns the reducer's name for people; `native` for one of the embedding program.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            KeyReducer::Standard(reducer) => reducer.as_str(),
            KeyReducer::Native(_) => "native",
        }
    }

    /// Returns whether calls of one batch may all write the key.
    #[must_use]
    pub fn commutes(&self) -> bool {
        match self {
            KeyReducer::Standard(reducer) => reducer.commutes(),
            KeyReducer::Native(reducer) => reducer.commutes(),
        }
    }

    /// Returns whether an update changes a part of the value while a record of it holds the whole
    /// value.
    #[must_use]
    pub fn rewrites(&self) -> bool {
        matches!(self, KeyReducer::Standard(Reducer::MergePatch) | KeyReducer::Native(_))
    }

    /// Returns whether a record holds the updates alone, from which the value follows.
    pub(super) fn folds(&self) -> bool {
        matches!(self, KeyReducer::Standard(reducer) if reducer.commutes())
    }

    /// Returns whether a key's updates stay valid in any order of folding: its schema, if any, has no
    /// constraint that the reducer could violate.
    pub(super) fn folds_freely(&self, schema: Option<&Value>) -> bool {
        let KeyReducer::Standard(reducer) = self else { return false };
        let (kinds, more): (&[&str], &[&str]) = match reducer {
            Reducer::Replace | Reducer::MergePatch => return false,
            // A list only grows, and each element was checked separately.
            Reducer::Append | Reducer::Union => (&["array"], &["items"]),
            Reducer::Add => (&["number", "integer"], &[]),
            Reducer::Max => (&["number", "integer"], &["minimum", "exclusiveMinimum"]),
        };
        let words =
            ["$schema", "$defs", "definitions", "$comment", "title", "description", "default", "examples"];
        let is_harmless = |(name, part): (&String, &Value)| match name.as_str() {
            "type" => part.as_str().is_some_and(|kind| kinds.contains(&kind)),
            name => words.contains(&name) || more.contains(&name),
        };
        match schema {
            None | Some(Value::Bool(true)) => true,
            Some(Value::Object(schema)) => schema.iter().all(is_harmless),
            Some(_) => false,
        }
    }

    /// Returns whether the key may hold the value.
    #[must_use]
    pub fn accepts(&self, value: &Value) -> bool {
        match self {
            KeyReducer::Standard(reducer) => reducer.accepts(value),
            KeyReducer::Native(reducer) => reducer.accepts(value),
        }
    }

    /// Joins an update into a value.
    ///
    /// # Errors
    /// The update is invalid; the value is unchanged.
    pub fn join_in_place(&self, value: &mut Value, update: &Value) -> Result<(), UpdateError> {
        match self {
            KeyReducer::Standard(reducer) => reducer.join_in_place(value, update),
            KeyReducer::Native(reducer) => reducer.join(value, update).map(|joined| *value = joined),
        }
    }

    /// Returns whether two updates of one batch conflict and cannot both be applied unchanged.
    #[must_use]
    pub fn conflicts(&self, earlier: &Value, later: &Value) -> bool {
        match self {
            KeyReducer::Standard(reducer) => reducer.conflicts(earlier, later),
            KeyReducer::Native(reducer) => !reducer.commutes(),
        }
    }
}

impl From<Reducer> for KeyReducer {
    fn from(reducer: Reducer) -> Self {
        KeyReducer::Standard(reducer)
    }
}

impl From<Arc<dyn NativeReducer>> for KeyReducer {
    fn from(reducer: Arc<dyn NativeReducer>) -> Self {
        KeyReducer::Native(reducer)
    }
}

impl fmt::Debug for KeyReducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::outcome::Mutation;
    use crate::state::change::{conflict, propose};
    use crate::state::{Access, KeyDefinition, KeyScope, KeySet, State};
    use serde_json::json;

    /// Keeps the longer of two strings.
    struct Longer(bool);

    impl NativeReducer for Longer {
        fn commutes(&self) -> bool {
            self.0
        }

        fn accepts(&self, value: &Value) -> bool {
            value.is_string()
        }

        fn join(&self, value: &Value, update: &Value) -> Result<Value, UpdateError> {
            let update = update.as_str().ok_or_else(|| UpdateError::Native("a text is needed".to_owned()))?;
            let known = value.as_str().unwrap_or_default();
            Ok(json!(if update.len() > known.len() { update } else { known }))
        }
    }

    fn keys(commutes: bool) -> (KeySet, Access) {
        let reducer: Arc<dyn NativeReducer> = Arc::new(Longer(commutes));
        let (mut keys, mut access) = (KeySet::default(), Access::default());
        let key = KeyDefinition::new("t.text", json!(""), None, reducer, KeyScope::Thread, true).unwrap();
        keys.insert(key).unwrap();
        access.allow("t.text", true, true);
        (keys, access)
    }

    fn says(text: Value) -> [Mutation; 1] {
        [Mutation { key: "t.text".to_owned(), update: text }]
    }

    #[test]
    fn s4_what_a_native_key_became_is_recorded_so_that_folding_needs_no_native_code() {
        let (keys, access) = keys(true);
        let mut state = State::default();
        for text in ["long", "a", "longer"] {
            let change = propose(&keys, &access, &state.snapshot(), &says(json!(text))).unwrap().unwrap();
            let recorded = serde_json::to_string(&change).unwrap();
            state.apply(&serde_json::from_str(&recorded).unwrap());
        }
        assert_eq!((state.get("t.text"), state.revision()), (Some(&json!("longer")), 3));
        assert!(propose(&keys, &access, &state.snapshot(), &says(json!(5))).is_err(), "s2");
    }

    #[test]
    fn s5_a_native_key_says_whether_its_updates_conflict() {
        for commutes in [true, false] {
            let (keys, access) = keys(commutes);
            let earlier = propose(&keys, &access, &State::default().snapshot(), &says(json!("a")));
            let earlier = earlier.unwrap().unwrap();
            assert_eq!(conflict(&keys, &[&earlier], &says(json!("b"))).is_some(), !commutes);
        }
    }

    #[test]
    fn s5_updates_are_free_if_no_order_can_break_the_schema() {
        let free = |reducer: Reducer, schema: Value| KeyReducer::from(reducer).folds_freely(Some(&schema));
        assert!(KeyReducer::from(Reducer::Append).folds_freely(None));
        assert!(free(Reducer::Append, json!({"type": "array", "items": {"type": "string", "maxLength": 9}})));
        assert!(free(Reducer::Add, json!({"type": "integer", "title": "Total"})));
        assert!(free(Reducer::Max, json!({"type": "number", "minimum": 0})));
        assert!(!free(Reducer::Append, json!({"type": "array", "maxItems": 9})));
        assert!(!free(Reducer::Add, json!({"maximum": 9})));
        assert!(!free(Reducer::Append, json!({"$ref": "#/$defs/list"})));
        assert!(!free(Reducer::Replace, json!({})));
    }
}
