//! The surface of a component: the description of itself and the requests to its host, which a
//! person reviews before a new version replaces an old one.
//!
//! The descriptions of its tools are part of the surface because models read them. Only powers and
//! other components' state count as needs beyond every component's own.

use crate::descriptor::{ComponentDescriptor, StateAccess, ToolDescriptor};
use crate::text::clean;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The most bytes of a state key that a person is shown; a longer one is cut.
const MAX_SHOWN_KEY_BYTES: usize = 140;

/// A component's tools, state and powers. Two equal surfaces request the same things in the same
/// words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Surface {
    /// The component's id.
    pub id: String,
    /// Its tools, sorted by name.
    pub tools: Vec<ToolDescriptor>,
    /// The state that its tools read, write or define, sorted by key.
    pub state: Vec<StateAccess>,
    /// The powers that its imports need, such as `files`.
    pub powers: BTreeSet<String>,
}

impl Surface {
    /// Creates the surface of a component with this description that needs these powers.
    #[must_use]
    pub fn new(
        descriptor: &ComponentDescriptor,
        powers: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let mut tools = descriptor.tools.clone();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let mut state = descriptor.state.clone();
        state.sort_by(|a, b| a.key.cmp(&b.key));
        Self { id: descriptor.id.clone(), tools, state, powers: powers.into_iter().map(Into::into).collect() }
    }

    /// Returns the surface as the text that is hashed.
    #[must_use]
    pub fn text(&self) -> String {
        // All keys are strings, so serialization cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the powers and state that it needs beyond every component's own.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let own = format!("{}.", self.id);
        let foreign = |wants: fn(&StateAccess) -> bool| {
            let keys = self.state.iter().filter(|key| wants(key) && !key.key.starts_with(&own));
            keys.map(|key| key.key.clone()).collect()
        };
        Needs {
            powers: self.powers.clone(),
            reads: foreign(|key| key.read),
            writes: foreign(|key| key.write),
        }
    }
}

/// The needs of a component beyond computing and its own state, as its imports and its declaration
/// state them. Stating a need grants nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Needs {
    /// The powers that its imports need, such as `files`.
    pub powers: BTreeSet<String>,
    /// Other components' state keys that it reads.
    pub reads: BTreeSet<String>,
    /// Other components' state keys that it writes.
    pub writes: BTreeSet<String>,
}

impl Needs {
    /// Describes, for a person, the needs that the other does not have.
    #[must_use]
    pub fn excess_over(&self, other: &Self) -> Vec<String> {
        let powers = self.powers.difference(&other.powers).map(|power| format!("the power `{power}`"));
        let keys = |verb: &'static str, now: &BTreeSet<String>, before: &BTreeSet<String>| -> Vec<String> {
            let more = now.difference(before).map(|key| clean(key, MAX_SHOWN_KEY_BYTES));
            more.map(|key| format!("to {verb} the state key `{key}`")).collect()
        };
        powers
            .chain(keys("read", &self.reads, &other.reads))
            .chain(keys("write", &self.writes, &other.writes))
            .collect()
    }

    /// Describes all needs for a person.
    #[must_use]
    pub fn each(&self) -> Vec<String> {
        self.excess_over(&Self::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(powers: &[&str], keys: &[(&str, bool, bool)], description: &str) -> Surface {
        let state = keys.iter().map(|(key, read, write)| StateAccess {
            key: (*key).to_owned(),
            read: *read,
            write: *write,
            defines: None,
        });
        let descriptor = ComponentDescriptor {
            id: "notes".to_owned(),
            version: "1".to_owned(),
            tools: vec![ToolDescriptor::new("add", "add", description)],
            state: state.collect(),
        };
        Surface::new(&descriptor, powers.iter().copied())
    }

    #[test]
    fn powers_and_others_state_are_more_and_words_are_not() {
        let before =
            component(&["files"], &[("notes.items", true, false), ("mail.box", true, false)], "Adds.");
        let same = component(&["files"], &[("notes.items", true, true)], "Adds a note, really.");
        assert_eq!(same.needs().excess_over(&before.needs()), Vec::<String>::new());
        let more =
            component(&["files", "http"], &[("mail.box", true, true), ("plan.day", true, false)], "Adds.");
        assert_eq!(
            more.needs().excess_over(&before.needs()),
            ["the power `http`", "to read the state key `plan.day`", "to write the state key `mail.box`"]
        );
        assert_eq!(before.needs().each(), ["the power `files`", "to read the state key `mail.box`"]);
    }

    #[test]
    fn the_text_tells_surfaces_apart_and_reads_back() {
        let one = component(&["files"], &[], "Adds.");
        assert_eq!(one.text(), component(&["files"], &[], "Adds.").text());
        assert_ne!(one.text(), component(&["files"], &[], "Adds!").text());
        assert_eq!(serde_json::from_str::<Surface>(&one.text()).ok(), Some(one));
    }
}
