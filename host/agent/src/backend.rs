//! What the backend of an agent can do: whoever replies for it, here or elsewhere.
//!
//! Tollgate's own loop can do everything. A model that is an agent of its own,
//! behind a wire, often cannot; what a request needs and the backend lacks is
//! refused before anything starts, all of it at once.

use serde::{Deserialize, Serialize};

/// What a backend can do, or what a request needs of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capabilities {
    /// Can be stopped while it works.
    pub cancellation: bool,
    /// Goes on with a conversation that it has answered in before.
    pub continuation: bool,
    /// Takes a person's decision about a call.
    pub decisions: bool,
    /// Can be asked again after the host's process ended.
    pub persistence: bool,
    /// Can be left waiting for a person.
    pub waits: bool,
    /// Takes a whole conversation, not only one message.
    pub transcript: bool,
    /// Answers in the shape of a schema.
    pub output: bool,
    /// Takes state to begin with, and hands state back.
    pub state: bool,
}

impl Capabilities {
    /// Nothing: where a request needs nothing, or a backend can only answer.
    pub const NONE: Self = Self {
        cancellation: false,
        continuation: false,
        decisions: false,
        persistence: false,
        waits: false,
        transcript: false,
        output: false,
        state: false,
    };
    /// Everything: Tollgate's own loop.
    pub const ALL: Self = Self {
        cancellation: true,
        continuation: true,
        decisions: true,
        persistence: true,
        waits: true,
        transcript: true,
        output: true,
        state: true,
    };

    /// What of these needs is lacking, by name; empty where nothing is.
    #[must_use]
    pub fn lacking(self, needs: Self) -> Vec<String> {
        [
            ("cancellation", self.cancellation, needs.cancellation),
            ("continuation", self.continuation, needs.continuation),
            ("decisions", self.decisions, needs.decisions),
            ("persistence", self.persistence, needs.persistence),
            ("waits", self.waits, needs.waits),
            ("transcript", self.transcript, needs.transcript),
            ("output", self.output, needs.output),
            ("state", self.state, needs.state),
        ]
        .into_iter()
        .filter(|(_, has, needed)| *needed && !has)
        .map(|(name, _, _)| name.to_owned())
        .collect()
    }
}

impl Default for Capabilities {
    fn default() -> Self {
        Self::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d11_all_that_is_lacking_is_named_at_once() {
        let can = Capabilities { transcript: true, ..Capabilities::NONE };
        let needs = Capabilities { transcript: true, state: true, cancellation: true, ..Capabilities::NONE };
        assert_eq!(can.lacking(needs), ["cancellation", "state"]);
        assert!(can.lacking(Capabilities::NONE).is_empty());
        assert!(Capabilities::default().lacking(Capabilities::ALL).is_empty());
        assert_eq!(Capabilities::NONE.lacking(Capabilities::ALL).len(), 8);
    }
}
