//! The state of a thread as a client of AG-UI has it.

use serde_json::{Map, Value, json};
use tollgate_agent::state::{KeyScope, KeyUpdate, Reducer, State, StateChange};

/// The values of the visible keys, and the members that are the client's own.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedState {
    /// The members that the client sent, apart from visible keys. The server does not use them, and
    /// returns them because a snapshot replaces the client's whole state.
    own: Map<String, Value>,
    values: State,
    /// Changes up to this revision are part of the values that the thread had.
    known: u64,
    /// Whether the client has other values of visible keys, or none.
    is_outdated: bool,
}

impl SharedState {
    /// Takes over a thread's state; `shows` tells which keys clients see.
    pub(super) fn new(sent: &Map<String, Value>, thread: &State, shows: impl Fn(&str) -> bool) -> Self {
        let values: Vec<(&str, &Value)> = thread.iter().filter(|(key, _)| shows(key)).collect();
        let is_outdated = values.iter().any(|(key, value)| sent.get(*key) != Some(*value));
        let own = sent.iter().filter(|(key, _)| !shows(key));
        let values = values.into_iter().map(|(key, value)| (key.to_owned(), value.clone()));
        Self {
            own: own.map(|(key, value)| (key.clone(), value.clone())).collect(),
            values: State::restored(thread.revision(), values),
            known: thread.revision(),
            is_outdated,
        }
    }

    /// Returns whether a snapshot must precede the changes.
    pub(super) fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Returns the client's whole state.
    pub(super) fn snapshot(&self) -> Value {
        let mut members = self.own.clone();
        members.extend(self.values.iter().map(|(key, value)| (key.to_owned(), value.clone())));
        Value::Object(members)
    }

    /// Folds in a change without hidden values, and returns its operations of a JSON Patch.
    pub(super) fn apply(&mut self, change: &StateChange) -> Vec<Value> {
        let is_known = change.revision <= self.known;
        let had: Vec<bool> =
            change.updates.iter().map(|update| self.values.get(&update.key).is_some()).collect();
        match is_known {
            // The thread's values have these updates already; the run's own have not.
            true => self.values.apply_scope(change, KeyScope::Run),
            false => self.values.apply(change),
        }
        let folded = |update: &KeyUpdate| !is_known || update.scope == KeyScope::Run;
        let patch = change.updates.iter().zip(had).filter_map(|(update, had)| {
            let path = format!("/{}", update.key.replace('~', "~0").replace('/', "~1"));
            let is_named_twice = change.updates.iter().filter(|other| other.key == update.key).count() > 1;
            match (&update.fold, &update.update) {
                // A list is extended, not sent again.
                (Some(fold), Some(element))
                    if fold.reducer == Reducer::Append
                        && update.value.is_none()
                        && had
                        && folded(update)
                        && !is_named_twice =>
                {
                    Some(json!({"op": "add", "path": format!("{path}/-"), "value": element}))
                }
                _ if update.is_known() => {
                    let value = self.values.get(&update.key)?;
                    Some(json!({"op": "add", "path": path, "value": value}))
                }
                _ => None,
            }
        });
        patch.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn change(revision: u64, updates: Value) -> StateChange {
        let change = json!({"revision": revision, "updates": updates});
        serde_json::from_value(change).expect("it is a change")
    }

    fn update(key: &str, scope: &str, reducer: &str, update: Value) -> Value {
        json!({"key": key, "scope": scope, "persistent": true, "reducer": reducer, "update": update})
    }

    #[test]
    fn updates_are_folded_with_their_reducer() {
        let thread = State::restored(
            3,
            [
                ("a.n".to_owned(), json!(5)),
                ("a.list".to_owned(), json!([1])),
                ("b.x".to_owned(), json!("hidden")),
            ],
        );
        let sent = json!({"mine": 1, "a.n": 9, "b.x": "forged"});
        let mut state = SharedState::new(sent.as_object().unwrap(), &thread, |key| key.starts_with("a."));
        assert!(state.is_outdated());
        let own = json!({"mine": 1, "b.x": "forged", "a.n": 5, "a.list": [1]});
        assert_eq!(state.snapshot(), own, "hidden keys are the client's own words");
        let patch = state.apply(&change(
            4,
            json!([
                update("a.n", "thread", "add", json!(2)),
                update("a.list", "thread", "append", json!(2)),
                {"key": "b.x", "scope": "thread", "persistent": true},
                {"key": "a.city", "scope": "thread", "persistent": true, "update": "Rome", "value": "Rome"},
            ]),
        ));
        let expected = [
            json!({"op": "add", "path": "/a.n", "value": 7}),
            json!({"op": "add", "path": "/a.list/-", "value": 2}),
            json!({"op": "add", "path": "/a.city", "value": "Rome"}),
        ];
        assert_eq!(patch, expected);
        // Changes that the thread had before are not applied twice; those of the run are.
        let earlier = change(
            3,
            json!([update("a.n", "thread", "add", json!(2)), update("a.runs", "run", "add", json!(1))]),
        );
        let patch = state.apply(&earlier);
        assert_eq!((&patch[0]["value"], &patch[1]["value"]), (&json!(7), &json!(1)));
        // Two elements of one change are sent as the whole list.
        let two = [json!(3), json!(4)].map(|element| update("a.list", "thread", "append", element));
        let patch = state.apply(&change(5, json!(two)));
        assert_eq!(patch[1]["value"], json!([1, 2, 3, 4]));
        assert_eq!(state.snapshot()["a.list"], json!([1, 2, 3, 4]));
        let current = Arc::new(state.snapshot());
        let same = SharedState::new(current.as_object().unwrap(), &thread, |key| key == "a.none");
        assert!(!same.is_outdated());
    }
}
