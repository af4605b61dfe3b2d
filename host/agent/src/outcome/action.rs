//! The actions that a tool or a hook may request from the agent loop.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An action that a tool requests from the agent loop besides its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Hand the thread to this agent.
    TransferToAgent(String),
    /// End the enclosing loop agent.
    Escalate,
    /// A note for the model's next turn.
    AddContext(String),
    /// A note for the model in a later turn of this run.
    ScheduleContext(ScheduledNote),
    /// The tools that the model is offered in its next turn.
    FilterTools(ToolFilter),
}

/// A note that the model reads in a later turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledNote {
    /// The note.
    pub note: String,
    /// The number of turns from now: 1 is the next turn; at most 256.
    pub in_turns: u32,
}

/// The tools that the model is offered in a turn, out of those that its agent lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFilter {
    /// If present, only these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<BTreeSet<String>>,
    /// None of these.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hidden: BTreeSet<String>,
}

impl ToolFilter {
    /// Offers only these tools.
    #[must_use]
    pub fn only(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { only: Some(names.into_iter().map(Into::into).collect()), hidden: BTreeSet::new() }
    }

    /// Offers all tools except these.
    #[must_use]
    pub fn without(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { only: None, hidden: names.into_iter().map(Into::into).collect() }
    }

    /// Returns whether the model is offered the tool.
    #[must_use]
    pub fn shows(&self, tool_name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(tool_name)) && !self.hidden.contains(tool_name)
    }

    /// Returns whether it hides no tool.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.only.is_none() && self.hidden.is_empty()
    }

    /// Returns the tools that both offer.
    #[must_use]
    pub fn and(mut self, other: &ToolFilter) -> Self {
        self.only = match (self.only, &other.only) {
            (Some(mine), Some(theirs)) => Some(mine.intersection(theirs).cloned().collect()),
            (mine, theirs) => mine.or_else(|| theirs.clone()),
        };
        self.hidden.extend(other.hidden.iter().cloned());
        self
    }
}

/// The actions that a component was granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionGrants {
    /// May hand the thread to another agent.
    pub transfer: bool,
    /// May end the enclosing loop agent.
    pub escalate: bool,
    /// May leave a note for the model.
    pub add_context: bool,
    /// May choose which tools the model is offered in its next turn.
    #[serde(default)]
    pub filter_tools: bool,
}

impl ActionGrants {
    /// Returns the granted actions, as configuration spells them.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let named = [
            ("transfer", self.transfer),
            ("escalate", self.escalate),
            ("add-context", self.add_context),
            ("filter-tools", self.filter_tools),
        ];
        named.into_iter().filter_map(|(name, granted)| granted.then_some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h2_filters_show_what_both_show() {
        let filter = ToolFilter::only(["a", "b", "c"]).and(&ToolFilter::without(["b"]));
        assert_eq!(["a", "b", "c", "d"].map(|name| filter.shows(name)), [true, false, true, false]);
        let narrower = filter.and(&ToolFilter::only(["c", "d"]));
        assert_eq!(["a", "c", "d"].map(|name| narrower.shows(name)), [false, true, false]);
        assert!(ToolFilter::default().is_open() && ToolFilter::default().shows("a"));
    }
}
