//! The first difference between a record and its replay.

use crate::recorded_inputs::RecordedInputs;
use crate::run::Event;
use crate::state::{State, StateChange};
use crate::text::clean;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// Maximum length of a value shown in a difference, in bytes.
const MAX_SHOWN_BYTES: usize = 200;

/// The place and the values of a difference between two attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// A JSON pointer into the event that ended the attempt, or into the inputs that the attempt
    /// took from the world.
    pub place: String,
    /// The recorded value as JSON; `None` if the record has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// The value in the replay as JSON; `None` if the replay has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
}

/// Returns the first difference in the result, the mutations, the notes, the fault, the fuel (if it
/// was counted) or the inputs taken from the world.
pub(super) fn first_difference(
    recorded: &Event,
    now: Option<&Event>,
    recorded_taken: &RecordedInputs,
    taken: &RecordedInputs,
) -> Option<Difference> {
    let counted = fuel_of(recorded) > 0;
    let of_events = match now {
        Some(now) => differ("", &comparable(recorded, counted), &comparable(now, counted)),
        None => Some(Difference {
            place: String::new(),
            recorded: Some(shown(&comparable(recorded, counted))),
            now: None,
        }),
    };
    of_events.or_else(|| differ("/taken", &json(recorded_taken), &json(taken)))
}

/// Fills in the values that result from updates if the record holds them, as records of earlier
/// versions do.
pub(super) fn hold_the_same(recorded: &Event, now: Option<&mut Event>, state: &State) {
    let with_values = recorded.change().is_some_and(|change| change.updates.iter().all(|u| u.fold.is_none()));
    if let Some(change) = now.filter(|_| with_values).and_then(Event::change_mut) {
        *change = change.resolved(state);
    }
}

/// Removes from both events everything that does not come from the tool: the writes of hooks before
/// the call, which come first in the record's change; the values of keys that both wrote; and an
/// end with which hooks replaced the call's own.
pub(super) fn leave_the_tools(recorded: &mut Event, now: Option<&mut Event>, written: &[String]) {
    let is_written = |key: &str| written.iter().any(|written| written == key);
    let mut replaced = false;
    if let Event::CallFinished(finished) = recorded
        && let finished = Arc::make_mut(finished)
        && let Some(own) = finished.replaced.take()
    {
        (finished.end, replaced) = (*own, true);
    }
    if let Some(change) = change_mut(recorded).and_then(Option::as_mut)
        && change.updates.iter().map(|update| &*update.key).take(written.len()).eq(written)
    {
        change.updates = change.updates[written.len()..].into();
    }
    for change in [Some(recorded), now].into_iter().flatten().filter_map(change_mut) {
        change.take_if(|change| replaced || change.updates.is_empty());
        let updates = change.iter_mut().flat_map(|change| Arc::make_mut(&mut change.updates));
        for update in updates {
            if is_written(&update.key) {
                update.value = None;
            }
            // Whether an update was the first of its key depends on concurrent writes of others.
            if let Some(fold) = &mut update.fold {
                fold.initial = None;
            }
        }
    }
}

fn change_mut(event: &mut Event) -> Option<&mut Option<StateChange>> {
    match event {
        Event::CallFinished(finished) => Some(&mut Arc::make_mut(finished).change),
        Event::CallSuspended(suspended) => Some(&mut suspended.change),
        _ => None,
    }
}

fn fuel_of(event: &Event) -> u64 {
    match event {
        Event::CallReturned { usage, .. } => usage.fuel,
        Event::CallEnding(ending) => ending.usage.fuel,
        Event::CallFinished(finished) => finished.last_attempt().fuel,
        Event::CallSuspended(suspended) => suspended.usage.fuel,
        _ => 0,
    }
}

/// Returns the event as JSON without the parts that differ between machines: times, and details
/// that are only for operators.
fn comparable(event: &Event, with_fuel: bool) -> Value {
    let mut value = json(event);
    // The sum covers all attempts; compare only the replayed one.
    if let Some(fuel) = value.pointer_mut("/usage/fuel") {
        *fuel = fuel_of(event).into();
    }
    if let Some(members) = value.as_object_mut() {
        members.shift_remove("earlier");
    }
    if let Some(usage) = value.get_mut("usage").and_then(Value::as_object_mut) {
        usage.retain(|name, _| with_fuel && name == "fuel");
    }
    for fault in ["/end/fault", "/outcome/faulted"] {
        if let Some(fault) = value.pointer_mut(fault).and_then(Value::as_object_mut) {
            fault.shift_remove("detail");
        }
    }
    value
}

fn json(value: &impl Serialize) -> Value {
    // Events and notes contain only types that JSON can represent.
    serde_json::to_value(value).unwrap_or_default()
}

/// Returns the first place at which two values differ, in the order of the first.
fn differ(place: &str, recorded: &Value, now: &Value) -> Option<Difference> {
    match (recorded, now) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            first(names.map(|name| (escaped(name), a.get(name), b.get(name))), place)
        }
        (Value::Array(a), Value::Array(b)) => {
            first((0..a.len().max(b.len())).map(|at| (at.to_string(), a.get(at), b.get(at))), place)
        }
        (recorded, now) if recorded == now => None,
        _ => Some(Difference {
            place: place.to_owned(),
            recorded: Some(shown(recorded)),
            now: Some(shown(now)),
        }),
    }
}

fn first<'a>(
    mut pairs: impl Iterator<Item = (String, Option<&'a Value>, Option<&'a Value>)>,
    place: &str,
) -> Option<Difference> {
    pairs.find_map(|(name, recorded, now)| {
        let place = format!("{place}/{}", clean(&name, MAX_SHOWN_BYTES));
        match (recorded, now) {
            (Some(recorded), Some(now)) => differ(&place, recorded, now),
            (recorded, now) => Some(Difference { place, recorded: recorded.map(shown), now: now.map(shown) }),
        }
    })
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn shown(value: &Value) -> String {
    clean(&value.to_string(), MAX_SHOWN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named_with_its_place() {
        let place = |a: Value, b: Value| differ("", &a, &b).map(|difference| difference.place);
        assert_eq!(place(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 2}]})), None);
        assert_eq!(
            place(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 3}]})).as_deref(),
            Some("/a/1/b")
        );
        assert_eq!(place(json!({"x/y": 1}), json!({})).as_deref(), Some("/x~1y"));
        assert_eq!(place(json!([]), json!([null])).as_deref(), Some("/0"));
        assert_eq!(place(json!(1), json!("1")).as_deref(), Some(""));
    }
}
