//! An agent's instructions with the state that they name: `{city}` becomes the
//! value of that key.

use crate::state::{KeySet, State};
use crate::text::clean;
use serde_json::Value;
use std::sync::Arc;

/// The longest value that becomes part of the instructions, in bytes.
const MAX_FILLED_BYTES: usize = 4 * 1024;
/// The most names that are filled in; those beyond stay as they are.
const MAX_FILLED: usize = 64;

/// The instructions with every `{OWNER.NAME}`, or `{NAME}` where one key alone has
/// that name, replaced by the key's value. What names no key stays as it is, and
/// what a value says is not looked at again. Text is cleaned and cut to 4 KiB;
/// other values are written as JSON.
#[must_use]
pub fn fill(instructions: &Arc<str>, keys: &KeySet, state: &State) -> Arc<str> {
    if !instructions.contains('{') {
        return Arc::clone(instructions);
    }
    let mut filled = String::with_capacity(instructions.len());
    let mut rest: &str = instructions;
    let mut values = 0;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let named = rest[1..].find(['{', '}']).filter(|end| rest[1 + end..].starts_with('}'));
        let value = named
            .filter(|_| values < MAX_FILLED)
            .and_then(|end| Some((end, value_of(&rest[1..=end], keys, state)?)));
        match value {
            Some((end, value)) => {
                filled.push_str(&value);
                values += 1;
                rest = &rest[end + 2..];
            }
            None => {
                filled.push('{');
                rest = &rest[1..];
            }
        }
    }
    filled.push_str(rest);
    Arc::from(filled)
}

/// The keys that the instructions name.
pub(crate) fn names(instructions: &str, key: &str) -> bool {
    let short = key.split_once('.').map_or(key, |(_, name)| name);
    [key, short].iter().any(|name| instructions.contains(&format!("{{{name}}}")))
}

fn value_of(name: &str, keys: &KeySet, state: &State) -> Option<String> {
    let mut meant = keys.iter().filter(|definition| {
        *definition.name == *name || definition.name.split_once('.').is_some_and(|(_, short)| short == name)
    });
    let definition = match keys.get(name) {
        Some(exact) => exact,
        None => meant.next().filter(|_| meant.next().is_none())?,
    };
    let value = state.get(&definition.name).unwrap_or(&definition.initial);
    Some(match value {
        Value::String(text) => clean(text, MAX_FILLED_BYTES),
        other => clean(&other.to_string(), MAX_FILLED_BYTES),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::state::{KeyDefinition, KeyScope, Reducer};
    use serde_json::json;

    fn filled(instructions: &str) -> String {
        let mut keys = KeySet::default();
        for (name, initial) in
            [("trip.city", json!("")), ("trip.days", json!(3)), ("a.twice", json!(1)), ("b.twice", json!(2))]
        {
            let definition =
                KeyDefinition::new(name, initial, None, Reducer::Replace, KeyScope::Thread, true).unwrap();
            keys.insert(definition).unwrap();
        }
        let mut state = State::default();
        state.set("trip.city", json!("Bern {days}\u{202e}"));
        fill(&Arc::from(instructions), &keys, &state).to_string()
    }

    #[test]
    fn a11_a_name_in_braces_is_the_value_of_that_key() {
        assert_eq!(filled("To {city}, {trip.days} days."), "To Bern {days}, 3 days.");
        assert_eq!(filled("{trip.city}{days}"), "Bern {days}3");
    }

    #[test]
    fn a11_an_unknown_name_stays_as_it_is() {
        for unknown in ["{nowhere}", "{twice}", "{}", "{", "a } b {", "{\"json\": {\"a\": 1}}", "{ city }"] {
            assert_eq!(filled(unknown), unknown);
        }
        assert_eq!(filled("{{city}}"), "{Bern {days}}");
        assert_eq!(filled("{a.twice}"), "1");
    }
}
