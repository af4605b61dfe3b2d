//! Reads of the snapshot, and writes that become mutations.

use super::Context;
use crate::error::ToolError;
use crate::key::reducer::{Add, Append, Max, MergePatch, ReducerType, Replace, Union};
use crate::key::{Key, Number};
use crate::output::Mutation;
use crate::overlay;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

impl Context {
    /// Returns the thread's revision when this call's batch began.
    pub fn revision(&self) -> u64 {
        self.facts.revision
    }

    /// Returns the value of a key when this call's batch began, with this call's own
    /// writes applied. A key without a value has its initial value.
    ///
    /// # Errors
    /// Returns an internal error if the stored value is not a `T`, which may happen
    /// with a key that another component defines.
    pub fn get<T, R>(&self, key: &Key<T, R>) -> Result<T, ToolError>
    where
        T: Serialize + DeserializeOwned,
        R: ReducerType,
    {
        let unreadable = |error: serde_json::Error| unreadable(key.name(), &error);
        let stored = self.stored(key.name());
        if !self.has_written(key.name()) {
            return match stored {
                Some(json) => serde_json::from_str(&json).map_err(unreadable),
                None => Ok(key.initial_value()),
            };
        }
        let value = match stored {
            Some(json) => serde_json::from_str(&json).map_err(unreadable)?,
            None => serde_json::to_value(key.initial_value()).map_err(unreadable)?,
        };
        serde_json::from_value(self.overlaid(key.name(), R::REDUCER, value)).map_err(unreadable)
    }

    /// Sets the key's value.
    pub fn set<T: Serialize>(&self, key: &Key<T, Replace>, value: &T) -> Result<(), ToolError> {
        self.update(key.name(), value)
    }

    /// Merges `patch` into the key's value (RFC 7396): members that are `null`
    /// are removed, objects are merged, everything else is replaced.
    pub fn merge<T>(&self, key: &Key<T, MergePatch>, patch: impl Serialize) -> Result<(), ToolError> {
        self.update(key.name(), &patch)
    }

    /// Appends `element` to the list.
    pub fn append<E: Serialize>(&self, key: &Key<Vec<E>, Append>, element: &E) -> Result<(), ToolError> {
        self.update(key.name(), element)
    }

    /// Adds `number` to the key's value.
    pub fn add<T: Number>(&self, key: &Key<T, Add>, number: T) -> Result<(), ToolError> {
        self.update(key.name(), &number)
    }

    /// Adds those of `elements` that the key's value does not contain.
    pub fn union<T>(&self, key: &Key<T, Union>, elements: &T) -> Result<(), ToolError>
    where
        T: Serialize,
    {
        self.update(key.name(), elements)
    }

    /// Sets the key's value to `number` if it is greater.
    pub fn max<T: Number>(&self, key: &Key<T, Max>, number: T) -> Result<(), ToolError> {
        self.update(key.name(), &number)
    }

    /// Returns the value of a readable key by its full name when this call's batch
    /// began. `None` if it has no value or was not declared.
    pub fn read(&self, key: &str) -> Option<Value> {
        self.stored(key).and_then(|json| serde_json::from_str(&json).ok())
    }

    /// Passes `update` to the reducer of the key with this full name.
    pub fn update(&self, key: &str, update: &impl Serialize) -> Result<(), ToolError> {
        let mutation = Mutation::new(key, update)?;
        self.mutations.borrow_mut().push(mutation);
        Ok(())
    }

    /// Returns the value from the snapshot, or from the host if it is too large for the
    /// snapshot.
    fn stored(&self, key: &str) -> Option<std::borrow::Cow<'_, str>> {
        match self.facts.snapshot.iter().find(|(name, _)| name == key) {
            Some((_, json)) => Some(json.as_str().into()),
            None => self.host().read_state(key).map(Into::into),
        }
    }

    fn has_written(&self, key: &str) -> bool {
        self.mutations.borrow().iter().any(|mutation| mutation.key() == key)
    }

    fn overlaid(&self, key: &str, reducer: crate::Reducer, value: Value) -> Value {
        self.mutations
            .borrow()
            .iter()
            .filter(|mutation| mutation.key() == key)
            .fold(value, |value, mutation| overlay::apply(reducer, value, mutation.update()))
    }
}

fn unreadable(key: &str, error: &serde_json::Error) -> ToolError {
    ToolError::Internal(format!("The value of `{key}` does not have the key's type: {error}."))
}
