//! Mutations that a record holds until their call ends.

use super::KeySet;
use crate::outcome::Mutation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A mutation that a record holds until its call ends. For a key that is not persistent the record
/// has only its name, so after a restart nothing is joined.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PendingMutation {
    /// The key.
    pub key: String,
    /// Whether the update is recorded.
    pub persistent: bool,
    /// The update; `None` if the record did not hold it.
    #[serde(default, deserialize_with = "present_value")]
    pub update: Option<Value>,
}

impl PendingMutation {
    /// Creates the pending form of a mutation; the key's definition decides what is recorded.
    #[must_use]
    pub fn of(keys: &KeySet, mutation: &Mutation) -> Self {
        let persistent = keys.get(&mutation.key).is_none_or(|key| key.persistent);
        Self { key: mutation.key.clone(), persistent, update: Some(mutation.update.clone()) }
    }

    /// Returns the mutations that can still be joined.
    #[must_use]
    pub fn mutations(pending: &[Self]) -> Vec<Mutation> {
        let left =
            |pending: &Self| Some(Mutation { key: pending.key.clone(), update: pending.update.clone()? });
        pending.iter().filter_map(left).collect()
    }
}

fn present_value<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(reader).map(Some)
}

impl Serialize for PendingMutation {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let update = self.update.as_ref().filter(|_| self.persistent);
        let mut record = serializer.serialize_struct("PendingMutation", 2 + usize::from(update.is_some()))?;
        record.serialize_field("key", &self.key)?;
        record.serialize_field("persistent", &self.persistent)?;
        if let Some(update) = update {
            record.serialize_field("update", update)?;
        }
        record.end()
    }
}
