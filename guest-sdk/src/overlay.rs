//! Applies a call's own writes to the snapshot in the same way as the host will.

use crate::key::Reducer;
use serde_json::{Number, Value, json};

/// Returns the value after the update.
pub(crate) fn apply(reducer: Reducer, value: Value, update: Value) -> Value {
    match reducer {
        Reducer::Replace => update,
        Reducer::MergePatch => merge_patch(value, update),
        Reducer::Append => append(value, update),
        Reducer::Add => add(&value, &update),
        Reducer::Union => union(value, update),
        Reducer::Max => max(value, update),
    }
}

fn merge_patch(value: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch;
    };
    let mut members = match value {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    for (name, update) in patch {
        if update.is_null() {
            members.remove(&name);
        } else {
            let old = members.remove(&name).unwrap_or_default();
            members.insert(name, merge_patch(old, update));
        }
    }
    Value::Object(members)
}

fn append(value: Value, element: Value) -> Value {
    let mut list = into_list(value);
    list.push(element);
    Value::Array(list)
}

/// Adds two numbers. Integers stay exact.
fn add(value: &Value, update: &Value) -> Value {
    let whole = whole(value).zip(whole(update)).map(|(value, update)| value + update);
    match whole.and_then(Number::from_i128) {
        Some(sum) => Value::Number(sum),
        None => json!(float(value) + float(update)),
    }
}

fn union(value: Value, elements: Value) -> Value {
    let mut list = into_list(value);
    list.extend(into_list(elements));
    list.sort_by_cached_key(Value::to_string);
    list.dedup();
    Value::Array(list)
}

fn max(value: Value, update: Value) -> Value {
    let is_greater = match whole(&value).zip(whole(&update)) {
        Some((value, update)) => update > value,
        None => float(&update) > float(&value),
    };
    if is_greater { update } else { value }
}

fn whole(value: &Value) -> Option<i128> {
    value.as_number().and_then(Number::as_i128)
}

fn float(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn into_list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k4_an_overlay_follows_the_reducers() {
        let cases = [
            (Reducer::Replace, json!(1), json!([2]), json!([2])),
            (
                Reducer::MergePatch,
                json!({"a": {"b": 1, "c": 2}, "d": 3}),
                json!({"a": {"b": null, "e": 4}, "d": [5]}),
                json!({"a": {"c": 2, "e": 4}, "d": [5]}),
            ),
            (Reducer::MergePatch, json!([1]), json!({"a": 1}), json!({"a": 1})),
            (Reducer::Append, json!([1]), json!([2]), json!([1, [2]])),
            (Reducer::Add, json!(1), json!(-3), json!(-2)),
            (Reducer::Add, json!(u64::MAX - 1), json!(1), json!(u64::MAX)),
            (Reducer::Add, json!(1), json!(0.5), json!(1.5)),
            (Reducer::Union, json!(["b"]), json!(["c", "b", "a"]), json!(["a", "b", "c"])),
            (Reducer::Max, json!(3), json!(2), json!(3)),
            (Reducer::Max, json!(3), json!(3.5), json!(3.5)),
            (Reducer::Max, json!(u64::MAX), json!(u64::MAX - 1), json!(u64::MAX)),
        ];
        for (reducer, value, update, after) in cases {
            assert_eq!(apply(reducer, value, update), after, "{reducer:?}");
        }
    }
}
