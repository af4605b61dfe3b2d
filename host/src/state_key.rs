//! State keys with a type and a reducer in Rust.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tollgate_agent::descriptor::{self, StateAccess};
use tollgate_agent::outcome::Mutation;
use tollgate_agent::state::{KeyScope, NativeReducer, Reducer, UpdateError};

/// A state key whose value and updates have Rust types, and whose updates are applied by a
/// reducer in Rust.
///
/// The reducer runs when a call's changes are decided on. The store holds both the update and
/// the resulting value, so that a record can be read without this code.
pub trait StateKey: 'static {
    /// The key's name, `PLUGIN.NAME`, with the name of the plugin that defines it.
    const NAME: &'static str;
    /// Whether two updates lead to the same value in either order, so that concurrent calls may
    /// both write the key. There is no default: a wrong answer loses updates (`true`) or runs
    /// calls again (`false`).
    const COMMUTES: bool;
    /// The lifetime of the key.
    const SCOPE: KeyScope = KeyScope::Run;
    /// Whether it survives the host's process. If not, its values appear in no log and no
    /// export.
    const PERSISTENT: bool = false;

    /// The type of the value, which begins with its default.
    type Value: Serialize + DeserializeOwned + Default;
    /// The type of an update.
    type Update: Serialize + DeserializeOwned;

    /// Applies an update to the value. It must be pure: no side effects, no inputs but its
    /// arguments. A panic fails the call with the update.
    fn apply(value: &mut Self::Value, update: Self::Update);
}

/// Returns the key's declaration with read and write access.
pub(crate) fn access<K: StateKey>() -> StateAccess {
    StateAccess {
        key: K::NAME.to_owned(),
        read: true,
        write: true,
        defines: Some(descriptor::StateKey {
            initial: Arc::new(json(&K::Value::default())),
            schema: None,
            reducer: Reducer::Replace,
            scope: K::SCOPE,
            persistent: K::PERSISTENT,
        }),
    }
}

/// Creates an update of the key for a tool to return with its result.
#[must_use]
pub fn mutation<K: StateKey>(update: &K::Update) -> Mutation {
    Mutation { key: K::NAME.to_owned(), update: json(update) }
}

/// Converts the value to JSON. A value that has no JSON form becomes `null`, which the reducer
/// rejects if it is not an update.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The reducer of a typed key.
pub(crate) struct TypedReducer<K>(PhantomData<fn() -> K>);

impl<K> TypedReducer<K> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<K: StateKey> NativeReducer for TypedReducer<K> {
    fn commutes(&self) -> bool {
        K::COMMUTES
    }

    fn accepts(&self, value: &Value) -> bool {
        serde_json::from_value::<K::Value>(value.clone()).is_ok()
    }

    fn join(&self, value: &Value, update: &Value) -> Result<Value, UpdateError> {
        let invalid = |e: serde_json::Error| UpdateError::Native(e.to_string());
        let mut value: K::Value = serde_json::from_value(value.clone()).map_err(invalid)?;
        let update: K::Update = serde_json::from_value(update.clone()).map_err(invalid)?;
        std::panic::catch_unwind(AssertUnwindSafe(|| K::apply(&mut value, update)))
            .map_err(|_| UpdateError::Native("it panicked".to_owned()))?;
        serde_json::to_value(value).map_err(invalid)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use serde_json::json;

    struct Least;

    impl StateKey for Least {
        const NAME: &'static str = "test.least";
        const COMMUTES: bool = true;
        type Value = Option<u32>;
        type Update = u32;

        fn apply(value: &mut Option<u32>, update: u32) {
            assert!(update != 13, "on purpose");
            *value = Some(value.map_or(update, |value| value.min(update)));
        }
    }

    #[test]
    fn s3_a_typed_key_joins_in_rust_and_says_whether_it_commutes() {
        let reducer = TypedReducer::<Least>::new();
        assert!(reducer.commutes());
        assert_eq!(reducer.join(&Value::Null, &json!(5)).unwrap(), json!(5));
        assert_eq!(reducer.join(&json!(5), &json!(7)).unwrap(), json!(5));
        assert!(reducer.accepts(&json!(5)) && !reducer.accepts(&json!("five")));
    }

    #[test]
    fn s2_an_update_that_does_not_fit_or_panics_is_refused() {
        let reducer = TypedReducer::<Least>::new();
        assert!(reducer.join(&json!(5), &json!("six")).is_err());
        assert_eq!(reducer.join(&json!(5), &json!(13)).unwrap_err().to_string(), "it panicked");
    }
}
