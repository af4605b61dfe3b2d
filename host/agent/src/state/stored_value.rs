//! A key's value within a state. Updates of a long list are folded in on first access.
//!
//! Many concurrent calls each hold the state at which they began. They share the list, and each
//! holds only the updates made since.

use super::{KeyDefinition, KeyUpdate, Reducer};
use crate::json::{Measure, written_bytes};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// Memory of a parsed value counts as a part of this many: honest values take up to four times
/// their text.
const PARSED_PART: u64 = 4;

/// Returns the size of a value against the limits of states, in bytes: the length of its JSON, or a
/// quarter of its memory once parsed, if that is more. Without the second, a short text such as
/// `[{"":0},{"":0}]` would take a hundred times its length.
pub(super) fn size_of_value(value: &Value) -> usize {
    let parsed = Measure::of(value).parsed_bytes / PARSED_PART;
    written_bytes(value).max(usize::try_from(parsed).unwrap_or(usize::MAX))
}

/// The most updates that wait to be folded in.
const MAX_WAITING: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct StoredValue {
    base: Arc<Value>,
    waiting: Vec<(Reducer, Arc<Value>)>,
    /// An upper bound of the value's size; see [`size_of_value`].
    bytes: usize,
    /// The value with all updates, computed on first access.
    whole: OnceLock<Arc<Value>>,
    /// The definition that the value is known to fit.
    fits: OnceLock<Arc<KeyDefinition>>,
}

impl StoredValue {
    pub(super) fn new(value: Arc<Value>) -> Self {
        let bytes = size_of_value(&value);
        Self { base: value, waiting: Vec::new(), bytes, whole: OnceLock::new(), fits: OnceLock::new() }
    }

    /// Returns the value that follows from an update, or `None` if it is unknown.
    pub(super) fn after(before: Option<Self>, update: &KeyUpdate) -> Option<Self> {
        let Some(before) = before else { return update.folded(None).map(Self::new) };
        let (Some(fold), Some(body), None) = (&update.fold, &update.update, &update.value) else {
            return update.folded(Some(before.into_value())).map(Self::new);
        };
        if !matches!(fold.reducer, Reducer::Append | Reducer::Union) {
            return update.folded(Some(before.into_value())).map(Self::new);
        }
        let bytes = before.bytes + 1 + size_of_value(body);
        let fits = if fold.is_free { before.fits.clone() } else { OnceLock::new() };
        let is_full = before.waiting.len() >= MAX_WAITING || before.whole.get().is_some();
        let mut held = match is_full {
            true => Self::new_counted(before.into_value(), bytes),
            false => Self { whole: OnceLock::new(), ..before },
        };
        held.waiting.push((fold.reducer, Arc::clone(body)));
        Some(Self { bytes, fits, ..held })
    }

    fn new_counted(base: Arc<Value>, bytes: usize) -> Self {
        Self { base, waiting: Vec::new(), bytes, whole: OnceLock::new(), fits: OnceLock::new() }
    }

    pub(super) fn value(&self) -> &Arc<Value> {
        if self.waiting.is_empty() {
            return &self.base;
        }
        self.whole.get_or_init(|| folded(Arc::clone(&self.base), &self.waiting))
    }

    fn into_value(self) -> Arc<Value> {
        match self.whole.into_inner() {
            Some(whole) => whole,
            None => folded(self.base, &self.waiting),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_list(&self) -> bool {
        self.base.is_array()
    }

    /// Returns whether the value is known to fit exactly this definition.
    pub(super) fn is_known_to_fit(&self, definition: &Arc<KeyDefinition>) -> bool {
        self.fits.get().is_some_and(|known| Arc::ptr_eq(known, definition))
    }

    /// Records that the value fits the definition.
    pub(super) fn note_fit(&self, definition: &Arc<KeyDefinition>) {
        // If another definition is already recorded, it is kept.
        let _ = self.fits.set(Arc::clone(definition));
    }
}

fn folded(mut value: Arc<Value>, updates: &[(Reducer, Arc<Value>)]) -> Arc<Value> {
    if !updates.is_empty() {
        let whole = Arc::make_mut(&mut value);
        for of_one in updates.chunk_by(|(one, _), (next, _)| one == next) {
            // The updates were checked before they were committed.
            let _ = of_one[0].0.join_all(whole, of_one.iter().map(|(_, update)| &**update));
        }
    }
    value
}

/// Compares only the values: size bounds and pending updates depend on the value's history.
impl PartialEq for StoredValue {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}
