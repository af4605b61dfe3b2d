//! What a component shows of itself and asks of its host: that which a person looks at
//! before they let a new version take an old one's place.
//!
//! Its tools' words reach models, so they are part of it; but only powers and other
//! components' state are more than a component had before.

use crate::descriptor::{ComponentDescriptor, StateAccess, ToolDescriptor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A component's tools, state and powers. Two that are equal ask for the same, in the
/// same words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Surface {
    /// The component's id.
    pub id: String,
    /// Its tools, sorted by name.
    pub tools: Vec<ToolDescriptor>,
    /// The state that its tools see, change and bring along, sorted by key.
    pub state: Vec<StateAccess>,
    /// The powers that its imports need, such as `files`.
    pub powers: BTreeSet<String>,
}

impl Surface {
    /// The surface of a component that says this of itself and needs these powers.
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

    /// Its one text, of which a hash is taken.
    #[must_use]
    pub fn text(&self) -> String {
        // Its keys are texts, so that it can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What it asks for that the other does not, in words for a person: powers, and
    /// other components' state. None of it is granted by being asked for.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Vec<String> {
        let powers = self.powers.difference(&other.powers).map(|power| format!("the power `{power}`"));
        let foreign = |surface: &Self, wants: fn(&StateAccess) -> bool| -> BTreeSet<String> {
            let of_others =
                surface.state.iter().filter(|key| !key.key.starts_with(&format!("{}.", surface.id)));
            of_others.filter(|key| wants(key)).map(|key| crate::text::clean(&key.key, 140)).collect()
        };
        let more = |wants: fn(&StateAccess) -> bool, verb: &'static str| {
            let before = foreign(other, wants);
            foreign(self, wants)
                .into_iter()
                .filter(move |key| !before.contains(key))
                .map(move |key| format!("to {verb} the state key `{key}`"))
        };
        powers.chain(more(|key| key.read, "read")).chain(more(|key| key.write, "write")).collect()
    }

    /// The tools whose words for the model differ from the other's, or that the other
    /// does not have, sorted by name.
    #[must_use]
    pub fn reworded(&self, other: &Self) -> Vec<&str> {
        let same = |tool: &&ToolDescriptor| !other.tools.contains(tool);
        self.tools.iter().filter(same).map(|tool| tool.name.as_str()).collect()
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
        assert_eq!(same.beyond(&before), Vec::<String>::new());
        assert_eq!(same.reworded(&before), ["add"]);
        let more =
            component(&["files", "http"], &[("mail.box", true, true), ("plan.day", true, false)], "Adds.");
        assert_eq!(
            more.beyond(&before),
            ["the power `http`", "to read the state key `plan.day`", "to write the state key `mail.box`"]
        );
        assert_eq!(before.reworded(&more), Vec::<&str>::new());
    }

    #[test]
    fn the_text_tells_surfaces_apart_and_reads_back() {
        let one = component(&["files"], &[], "Adds.");
        assert_eq!(one.text(), component(&["files"], &[], "Adds.").text());
        assert_ne!(one.text(), component(&["files"], &[], "Adds!").text());
        assert_eq!(serde_json::from_str::<Surface>(&one.text()).ok(), Some(one));
    }
}
