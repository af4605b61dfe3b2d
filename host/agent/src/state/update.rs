//! One key's update within a change, and how it is folded into the key's value.

use super::reducer::outline;
use super::{KeyDefinition, KeyReducer, KeyScope, Reducer};
use crate::json::written_bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// One key's update. A record holds only the key's name if the key is not persistent. Listeners
/// receive only the name if the key is not visible.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "StoredUpdate")]
pub struct KeyUpdate {
    /// The key.
    pub key: Arc<str>,
    /// Whether the key ends with the run or with the thread.
    pub scope: KeyScope,
    /// Whether update and value are recorded.
    pub persistent: bool,
    /// The requested update.
    pub update: Option<Arc<Value>>,
    /// The key's resulting value. A record omits it if it follows from the update.
    pub value: Option<Arc<Value>>,
    /// How the value follows from the update. `None` if the value itself is recorded.
    pub fold: Option<Fold>,
}

/// The way in which a key's value follows from an update.
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    /// A built-in reducer that commutes.
    pub reducer: Reducer,
    /// The key's value before its first update, if this may be the first.
    pub initial: Option<Arc<Value>>,
    /// Whether the update stays valid, without another check, on a value that others changed with
    /// the same reducer. This is not recorded.
    pub is_free: bool,
}

impl KeyUpdate {
    /// Creates an update whose value is recorded.
    #[must_use]
    pub fn set(definition: &KeyDefinition, update: Arc<Value>, value: Arc<Value>) -> Self {
        Self { value: Some(value), ..Self::unfolded(definition, update) }
    }

    /// Creates an update whose value has not been computed.
    pub(super) fn unfolded(definition: &KeyDefinition, update: Arc<Value>) -> Self {
        Self {
            key: Arc::clone(&definition.name),
            scope: definition.scope,
            persistent: definition.persistent,
            update: Some(update),
            value: None,
            fold: None,
        }
    }

    /// Creates an update that sets a thread's persistent key to a value from outside.
    #[must_use]
    pub fn restored(key: &str, value: Value) -> Self {
        let value = Some(Arc::new(value));
        let (key, update) = (Arc::from(key), value.clone());
        Self { key, scope: KeyScope::Thread, persistent: true, update, value, fold: None }
    }

    /// Returns the update without its value if the value follows from the update. `is_first` means
    /// that the key had no value before.
    #[must_use]
    pub(super) fn reduced(self, definition: &KeyDefinition, is_first: bool) -> Self {
        match definition.reducer {
            KeyReducer::Standard(reducer) if reducer.commutes() => {
                let initial = is_first.then(|| Arc::clone(&definition.initial));
                let fold = Some(Fold { reducer, initial, is_free: definition.folds_freely });
                Self { value: None, fold, ..self }
            }
            _ => self,
        }
    }

    /// Returns the part of the update that decides whether a later one conflicts with it. A key that
    /// is not persistent keeps its value.
    #[must_use]
    pub(super) fn outlined(&self) -> Self {
        if !self.persistent {
            return self.clone();
        }
        let update = self.update.as_ref().map(|update| Arc::new(outline(update)));
        Self { key: Arc::clone(&self.key), update, value: None, fold: None, ..*self }
    }

    /// Returns the key's value after this update, given the value before, or `None` if it is
    /// unknown.
    #[must_use]
    pub fn folded(&self, before: Option<Arc<Value>>) -> Option<Arc<Value>> {
        if self.value.is_some() {
            return self.value.clone();
        }
        let (Some(fold), Some(update)) = (&self.fold, &self.update) else { return before };
        let mut value = before
            .or_else(|| fold.initial.clone())
            .unwrap_or_else(|| Arc::new(fold.reducer.beginning(update)));
        // The update was checked before it was recorded. On a value of another kind it changes
        // nothing.
        let _ = fold.reducer.join_in_place(Arc::make_mut(&mut value), update);
        Some(value)
    }

    /// Returns the size in bytes of the value that is set, or an upper bound of the bytes added.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match (&self.value, &self.update) {
            (Some(value), _) => written_bytes(value),
            // A further list element is preceded by a comma.
            (None, Some(update)) => written_bytes(update) + 1,
            (None, None) => 0,
        }
    }

    /// Returns whether the update determines the key's value.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.value.is_some() || (self.fold.is_some() && self.update.is_some())
    }
}

/// The recorded form of an update.
#[derive(Deserialize)]
struct StoredUpdate {
    key: Arc<str>,
    scope: KeyScope,
    persistent: bool,
    #[serde(default, deserialize_with = "present")]
    update: Option<Arc<Value>>,
    #[serde(default, deserialize_with = "present")]
    value: Option<Arc<Value>>,
    #[serde(default)]
    reducer: Option<Reducer>,
    #[serde(default, deserialize_with = "present")]
    initial: Option<Arc<Value>>,
}

impl From<StoredUpdate> for KeyUpdate {
    fn from(recorded: StoredUpdate) -> Self {
        let StoredUpdate { key, scope, persistent, update, value, reducer, initial } = recorded;
        let fold = reducer.map(|reducer| Fold { reducer, initial, is_free: false });
        Self { key, scope, persistent, update, value, fold }
    }
}

/// Deserializes a field that is present as a value, even if it is `null`.
fn present<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Option<Arc<Value>>, D::Error> {
    Value::deserialize(reader).map(|value| Some(Arc::new(value)))
}

impl Serialize for KeyUpdate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let fold = self.fold.as_ref().filter(|_| self.persistent);
        let initial = fold.and_then(|fold| fold.initial.as_ref());
        let recorded = [("update", self.update.as_ref()), ("value", self.value.as_ref())];
        let recorded = recorded.into_iter().filter(|_| self.persistent).chain([("initial", initial)]);
        let recorded: Vec<_> = recorded.filter_map(|(name, value)| Some((name, value?))).collect();
        let fields = 3 + recorded.len() + usize::from(fold.is_some());
        let mut record = serializer.serialize_struct("KeyUpdate", fields)?;
        record.serialize_field("key", &self.key)?;
        record.serialize_field("scope", &self.scope)?;
        record.serialize_field("persistent", &self.persistent)?;
        if let Some(fold) = fold {
            record.serialize_field("reducer", &fold.reducer)?;
        }
        for (name, value) in recorded {
            record.serialize_field(name, value)?;
        }
        record.end()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::change::propose;
    use super::super::{Access, KeySet, State};
    use super::*;
    use crate::outcome::Mutation;
    use serde_json::json;

    fn keys() -> (KeySet, Access) {
        let (mut keys, mut access) = (KeySet::default(), Access::default());
        for (name, initial, reducer) in [
            ("t.list", json!(["first"]), Reducer::Append),
            ("t.sum", json!(0.5), Reducer::Add),
            ("t.set", json!(["m"]), Reducer::Union),
            ("t.top", json!(3), Reducer::Max),
            ("t.city", json!(""), Reducer::Replace),
        ] {
            let key = KeyDefinition::new(name, initial, None, reducer, KeyScope::Thread, true).unwrap();
            keys.insert(key).unwrap();
            access.allow(name, true, true);
        }
        (keys, access)
    }

    fn mutation(key: &str, update: Value) -> Mutation {
        Mutation { key: key.to_owned(), update }
    }

    #[test]
    fn s4_the_value_of_a_reducer_that_commutes_is_not_recorded_and_follows_exactly() {
        let (keys, access) = keys();
        let (mut state, mut folded) = (State::default(), State::default());
        for n in 0..20 {
            let mutations = [
                mutation("t.list", json!({"n": n, "text": "x".repeat(100)})),
                mutation("t.list", json!(n)),
                mutation("t.sum", json!(f64::from(n) / 7.0)),
                mutation("t.set", json!(["z", n])),
                mutation("t.top", json!(10 - n)),
                mutation("t.city", json!(format!("city {n}"))),
            ];
            let now = state.snapshot();
            let mut expected = std::collections::BTreeMap::new();
            for mutation in &mutations {
                let key = mutation.key.as_str();
                let mut value = expected.remove(key).or_else(|| now.get(&keys, key).cloned()).unwrap();
                keys.get(key).unwrap().reducer.join_in_place(&mut value, &mutation.update).unwrap();
                expected.insert(key, value);
            }
            let change = propose(&keys, &access, &now, &mutations).unwrap().unwrap();
            let record = serde_json::to_string(&change).unwrap();
            assert!(record.len() < 1_000, "a record does not grow with the values: {}", record.len());
            state.apply(&change);
            folded.apply(&serde_json::from_str(&record).unwrap());
            for (key, value) in expected {
                assert_eq!(state.get(key), Some(&value), "{key}");
            }
            assert_eq!(state, folded);
        }
    }

    #[test]
    fn s4_a_record_with_values_is_folded_as_before() {
        let old = r#"{"revision":2,"updates":[{"key":"t.list","scope":"thread","persistent":true,"update":3,"value":[1,2,3]}]}"#;
        let mut state = State::default();
        state.apply(&serde_json::from_str(old).unwrap());
        assert_eq!((state.get("t.list"), state.revision()), (Some(&json!([1, 2, 3])), 2));
    }
}
