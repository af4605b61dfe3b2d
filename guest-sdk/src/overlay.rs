//! A call's own writes on top of the snapshot, the way the host will apply them.

use crate::key::Reducer;
use serde_json::{Value, json};

/// The value after the update.
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

fn add(value: &Value, update: &Value) -> Value {
    if let (Some(value), Some(update)) = (value.as_i64(), update.as_i64())
        && let Some(sum) = value.checked_add(update)
    {
        return json!(sum);
    }
    if let (Some(value), Some(update)) = (value.as_u64(), update.as_u64())
        && let Some(sum) = value.checked_add(update)
    {
        return json!(sum);
    }
    json!(value.as_f64().unwrap_or_default() + update.as_f64().unwrap_or_default())
}

fn union(value: Value, elements: Value) -> Value {
    let mut list = into_list(value);
    list.extend(into_list(elements));
    list.sort_by_cached_key(Value::to_string);
    list.dedup();
    Value::Array(list)
}

fn max(value: Value, update: Value) -> Value {
    match (value.as_f64(), update.as_f64()) {
        (Some(old), Some(new)) if old >= new => value,
        _ => update,
    }
}

fn into_list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list,
        _ => Vec::new(),
    }
}
