//! The capabilities of an agent's backend, which produces its replies here or elsewhere.
//!
//! Tollgate's own loop supports everything. A remote model that is an agent itself often
//! does not. A request that needs capabilities which the backend lacks is refused before
//! anything starts, and the refusal names all of them.

use serde::{Deserialize, Serialize};

/// The capabilities of a backend, or those that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capabilities {
    /// Can be cancelled while it works.
    pub cancellation: bool,
    /// Continues a conversation in which it has answered before.
    pub continuation: bool,
    /// Takes a person's decision about a call.
    pub decisions: bool,
    /// Can be asked again after the host's process ended.
    pub persistence: bool,
    /// Can be left waiting for a person.
    pub waits: bool,
    /// Accepts a whole conversation, not only one message.
    pub transcript: bool,
    /// Gives answers that fit a schema.
    pub output: bool,
    /// Accepts initial state, and returns state.
    pub state: bool,
}

impl Capabilities {
    /// No capabilities: a request without needs, or a backend that can only answer.
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
    /// All capabilities, as Tollgate's own loop has them.
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

    /// Returns the names of the missing capabilities; empty if none is missing.
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
