//! The built-in reducers, which join an update with a key's value.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;

/// The reason why an update cannot be joined with a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The value and the update have to be lists.
    #[error("a list is required")]
    NotAList,
    /// The value and the update have to be numbers.
    #[error("a number is required")]
    NotANumber,
    /// The sum is larger than any number of the state.
    #[error("the sum is out of range")]
    OutOfRange,
    /// A reducer of the embedding program refused the update.
    #[error("{0}")]
    Native(String),
}

/// The six built-in ways to join an update with a value. The last four commute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reducer {
    /// The update is the new value.
    Replace,
    /// JSON Merge Patch (RFC 7396).
    MergePatch,
    /// The update is one element, appended to a list.
    Append,
    /// The update is a number, added to a number.
    Add,
    /// The update is a list; its missing elements are added, and the result is sorted by the
    /// elements' serialization.
    Union,
    /// The update is a number; the greater of the two is kept.
    Max,
}

impl Reducer {
    /// Returns the reducer's name in configuration and descriptors.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Reducer::Replace => "replace",
            Reducer::MergePatch => "merge-patch",
            Reducer::Append => "append",
            Reducer::Add => "add",
            Reducer::Union => "union",
            Reducer::Max => "max",
        }
    }

    /// Returns whether calls of one batch may all write a key with this reducer.
    #[must_use]
    pub fn commutes(self) -> bool {
        !matches!(self, Reducer::Replace | Reducer::MergePatch)
    }

    /// Returns whether a key with this reducer may hold the value.
    #[must_use]
    pub fn accepts(self, value: &Value) -> bool {
        match self {
            Reducer::Replace | Reducer::MergePatch => true,
            Reducer::Append | Reducer::Union => value.is_array(),
            Reducer::Add | Reducer::Max => value.is_number(),
        }
    }

    /// Joins an update with a value and returns the result.
    ///
    /// # Errors
    /// The reducer does not accept the update.
    pub fn join(self, value: &Value, update: &Value) -> Result<Value, UpdateError> {
        let mut joined = value.clone();
        self.join_in_place(&mut joined, update).map(|()| joined)
    }

    /// Joins an update into a value.
    ///
    /// # Errors
    /// Same as [`join`](Self::join); the value is unchanged.
    pub fn join_in_place(self, value: &mut Value, update: &Value) -> Result<(), UpdateError> {
        match self {
            Reducer::Replace => *value = update.clone(),
            Reducer::MergePatch => merge(value, update),
            Reducer::Append => value.as_array_mut().ok_or(UpdateError::NotAList)?.push(update.clone()),
            Reducer::Add => *value = add(number(value)?, number(update)?)?,
            Reducer::Union => return self.join_all(value, [update]),
            Reducer::Max => {
                let update = number(update)?;
                if is_greater(update, number(value)?) {
                    *value = Value::Number(update.clone());
                }
            }
        }
        Ok(())
    }

    /// Joins updates into a value, one after the other. A union sorts the value once for all of
    /// them.
    ///
    /// # Errors
    /// Same as [`join`](Self::join); earlier updates are joined.
    pub fn join_all<'a>(
        self,
        value: &mut Value,
        updates: impl IntoIterator<Item = &'a Value>,
    ) -> Result<(), UpdateError> {
        if self != Reducer::Union {
            return updates.into_iter().try_for_each(|update| self.join_in_place(value, update));
        }
        let updates = updates.into_iter().map(list).collect::<Result<Vec<_>, _>>()?;
        let items = std::mem::take(value.as_array_mut().ok_or(UpdateError::NotAList)?);
        *value = union(items, updates.into_iter().flatten());
        Ok(())
    }

    /// Returns the value onto which an update is folded if the previous one is unknown.
    pub(super) fn beginning(self, update: &Value) -> Value {
        match self {
            Reducer::Append | Reducer::Union => Value::Array(Vec::new()),
            Reducer::Add => Value::from(0),
            Reducer::Replace | Reducer::MergePatch | Reducer::Max => update.clone(),
        }
    }

    /// Returns whether two updates to one key in one batch conflict and cannot both be applied
    /// unchanged.
    #[must_use]
    pub fn conflicts(self, earlier: &Value, later: &Value) -> bool {
        match self {
            Reducer::Replace => true,
            Reducer::MergePatch => !disjoint(earlier, later),
            _ => false,
        }
    }
}

/// Returns the part of an update on which [`Reducer::conflicts`] depends: the members that it
/// touches, without their values.
pub(super) fn outline(update: &Value) -> Value {
    match update {
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, part)| (key.clone(), outline(part))).collect())
        }
        _ => Value::Null,
    }
}

fn list(value: &Value) -> Result<&Vec<Value>, UpdateError> {
    value.as_array().ok_or(UpdateError::NotAList)
}

fn number(value: &Value) -> Result<&Number, UpdateError> {
    match value {
        Value::Number(number) => Ok(number),
        _ => Err(UpdateError::NotANumber),
    }
}

fn add(a: &Number, b: &Number) -> Result<Value, UpdateError> {
    if let (Some(a), Some(b)) = (a.as_i128(), b.as_i128()) {
        let sum = a.checked_add(b).ok_or(UpdateError::OutOfRange)?;
        return Number::from_i128(sum).map(Value::Number).ok_or(UpdateError::OutOfRange);
    }
    let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) else {
        return Err(UpdateError::NotANumber);
    };
    Number::from_f64(a + b).map(Value::Number).ok_or(UpdateError::OutOfRange)
}

fn is_greater(a: &Number, b: &Number) -> bool {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a > b,
        _ => a.as_f64() > b.as_f64(),
    }
}

fn union<'a>(items: Vec<Value>, more: impl Iterator<Item = &'a Value>) -> Value {
    let mut added: BTreeMap<Vec<u8>, &Value> = BTreeMap::new();
    for item in more {
        added.entry(canonical(item)).or_insert(item);
    }
    Value::Array(match missing(&items, &added) {
        Some(missing) => inserted(items, missing),
        None => {
            let mut all: BTreeMap<Vec<u8>, Value> =
                items.into_iter().map(|item| (canonical(&item), item)).collect();
            for (text, item) in added {
                all.entry(text).or_insert_with(|| item.clone());
            }
            all.into_values().collect()
        }
    })
}

/// Returns the added items that a list lacks, each with its place in the list, in order. `None` if the list is
/// not the result of a union: it is not sorted, or has an item twice.
fn missing<'a>(items: &[Value], added: &BTreeMap<Vec<u8>, &'a Value>) -> Option<Vec<(usize, &'a Value)>> {
    let (mut missing, mut added) = (Vec::new(), added.iter().peekable());
    // One text after the other in the same memory: a list may have hundreds of thousands of items.
    let (mut before, mut text) = (Vec::new(), Vec::new());
    for (place, item) in items.iter().enumerate() {
        text.clear();
        write_canonical(&mut text, item);
        if place > 0 && text <= before {
            return None;
        }
        while let Some((_, new)) = added.next_if(|(new, _)| **new < text) {
            missing.push((place, *new));
        }
        added.next_if(|(new, _)| **new == text);
        std::mem::swap(&mut before, &mut text);
    }
    missing.extend(added.map(|(_, new)| (items.len(), *new)));
    Some(missing)
}

/// Returns the list with these items before the given places.
fn inserted(items: Vec<Value>, missing: Vec<(usize, &Value)>) -> Vec<Value> {
    if missing.is_empty() {
        return items;
    }
    let mut all = Vec::with_capacity(items.len() + missing.len());
    let mut missing = missing.into_iter().peekable();
    for (place, item) in items.into_iter().enumerate() {
        while let Some((_, new)) = missing.next_if(|(before, _)| *before == place) {
            all.push(new.clone());
        }
        all.push(item);
    }
    all.extend(missing.map(|(_, new)| new.clone()));
    all
}

/// Serializes a value so that equal values give equal texts, regardless of the order of members.
fn canonical(value: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    write_canonical(&mut text, value);
    text
}

fn write_canonical(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(map) => {
            let members: BTreeMap<Vec<u8>, &Value> =
                map.iter().map(|(key, part)| (canonical(&Value::from(key.as_str())), part)).collect();
            text.push(b'{');
            for (place, (key, part)) in members.into_iter().enumerate() {
                if place > 0 {
                    text.push(b',');
                }
                text.extend(key);
                text.push(b':');
                write_canonical(text, part);
            }
            text.push(b'}');
        }
        Value::Array(items) => {
            text.push(b'[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(b',');
                }
                write_canonical(text, item);
            }
            text.push(b']');
        }
        // Writing to memory does not fail.
        scalar => drop(serde_json::to_writer(text, scalar)),
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (key, part) in patch {
        if part.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), part);
        }
    }
}

/// Returns whether two merge patches touch different members at every level.
fn disjoint(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.iter().all(|(key, part)| b.get(key).is_none_or(|other| disjoint(part, other)))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn s3_each_reducer_joins_as_it_says() {
        for (reducer, value, update, joined) in [
            (Reducer::Replace, json!(1), json!("x"), json!("x")),
            (
                Reducer::MergePatch,
                json!({"a": 1, "b": {"c": 1}}),
                json!({"a": null, "b": {"d": 2}}),
                json!({"b": {"c": 1, "d": 2}}),
            ),
            (Reducer::MergePatch, json!([1]), json!({"a": {"b": null}}), json!({"a": {}})),
            (Reducer::Append, json!([1]), json!([2]), json!([1, [2]])),
            (Reducer::Add, json!(1), json!(2), json!(3)),
            (Reducer::Add, json!(1.5), json!(2), json!(3.5)),
            (Reducer::Union, json!(["b"]), json!(["a", "b"]), json!(["a", "b"])),
            (Reducer::Union, json!([{"a": 1, "b": 2}]), json!([{"b": 2, "a": 1}]), json!([{"a": 1, "b": 2}])),
            (Reducer::Max, json!(3), json!(2.5), json!(3)),
        ] {
            assert_eq!(reducer.join(&value, &update).unwrap(), joined, "{reducer:?}");
        }
        for (reducer, value, update) in [
            (Reducer::Append, json!({}), json!(1)),
            (Reducer::Add, json!(1), json!("1")),
            (Reducer::Add, json!(u64::MAX), json!(1)),
            (Reducer::Union, json!([]), json!("a")),
            (Reducer::Max, json!(1), json!(null)),
        ] {
            assert!(reducer.join(&value, &update).is_err(), "{reducer:?}");
        }
    }

    #[test]
    fn s5_conflicts_are_by_member() {
        assert!(Reducer::Replace.conflicts(&json!(1), &json!(1)));
        assert!(!Reducer::MergePatch.conflicts(&json!({"a": 1}), &json!({"b": 1})));
        assert!(!Reducer::MergePatch.conflicts(&json!({"a": {"x": 1}}), &json!({"a": {"y": 1}})));
        assert!(Reducer::MergePatch.conflicts(&json!({"a": {"x": 1}}), &json!({"a": 2})));
        assert!(!Reducer::Append.conflicts(&json!(1), &json!(1)));
    }

    #[test]
    fn s5_an_outline_conflicts_as_its_update_does() {
        let updates = [json!({"a": 1}), json!({"b": [1]}), json!({"a": {"x": 1}}), json!({"a": {"y": null}})];
        for reducer in [Reducer::Replace, Reducer::MergePatch, Reducer::Append] {
            for (earlier, later) in
                updates.iter().flat_map(|earlier| updates.iter().map(move |l| (earlier, l)))
            {
                let conflicts = reducer.conflicts(earlier, later);
                assert_eq!(reducer.conflicts(&outline(earlier), later), conflicts, "{earlier} {later}");
            }
        }
        assert_eq!(outline(&json!({"a": {"x": "long"}, "b": "long"})), json!({"a": {"x": null}, "b": null}));
    }

    fn any_update(reducer: Reducer) -> BoxedStrategy<Value> {
        match reducer {
            Reducer::Add | Reducer::Max => (-1000i64..1000).prop_map(Value::from).boxed(),
            Reducer::Union => proptest::collection::vec(0u8..9, 0..4).prop_map(Value::from).boxed(),
            _ => any::<u8>().prop_map(Value::from).boxed(),
        }
    }

    fn any_item() -> impl Strategy<Value = Value> {
        prop_oneof![
            (0i64..30).prop_map(Value::from),
            (-3i32..3).prop_map(|n| Value::from(f64::from(n) / 2.0)),
            "[a\"\\\\\n!é]{0,2}".prop_map(Value::from),
            (0u8..3).prop_map(|n| json!({"b": n, "a": [n]})),
            (0u8..3).prop_map(|n| json!({"a": [n], "b": n})),
        ]
    }

    proptest! {
        #[test]
        fn s3_a_union_is_sorted_by_text_and_has_each_item_once(
            items in proptest::collection::vec(any_item(), 0..12), more in proptest::collection::vec(any_item(), 0..6)
        ) {
            let sorted = |items: &[Value]| -> Value {
                let mut sorted = BTreeMap::new();
                for item in items {
                    sorted.entry(canonical(item)).or_insert_with(|| item.clone());
                }
                sorted.into_values().collect()
            };
            // Of equal items in the list, the last one stays.
            let before: Vec<Value> = items.iter().rev().cloned().collect();
            for (value, all) in [
                (json!(items), [before.as_slice(), &more].concat()),
                (sorted(&items), [items.as_slice(), &more].concat()),
            ] {
                prop_assert_eq!(Reducer::Union.join(&value, &json!(more)).unwrap(), sorted(&all));
            }
        }

        #[test]
        fn s3_add_union_and_max_commute(
            (reducer, a, b) in prop_oneof![Just(Reducer::Add), Just(Reducer::Union), Just(Reducer::Max)]
                .prop_flat_map(|r| (Just(r), any_update(r), any_update(r)))
        ) {
            let start = if reducer == Reducer::Union { json!([]) } else { json!(0) };
            let ab = reducer.join(&reducer.join(&start, &a).unwrap(), &b).unwrap();
            let ba = reducer.join(&reducer.join(&start, &b).unwrap(), &a).unwrap();
            prop_assert_eq!(ab, ba);
        }
    }
}
