//! The description that a component gate gives of itself, and the checks before any of it
//! is trusted.

use crate::name;
use crate::state::{Access, key};
use crate::text::clean;
use serde::{Deserialize, Serialize};

/// The most state keys that a gate may read.
pub const MAX_GATE_READS: usize = 64;
/// The longest description of a gate, in bytes; a longer one is cut.
pub const MAX_GATE_DESCRIPTION_BYTES: usize = 4 * 1024;

/// The ids that no gate may take: those of the host's own components and gates.
const RESERVED: [&str; 4] = ["host", "tollgate", super::ToolList::ID, super::PERMISSIONS_ID];

/// A checked description of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateDescriptor {
    /// Its id, which fits `[a-z][a-z0-9-]{0,63}` and is not one of the host's own.
    pub id: String,
    /// The calls that it holds back, described for people.
    pub description: String,
    /// The state keys that it reads.
    pub reads: Vec<String>,
}

/// The reason why a gate's description of itself is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GateDescriptorError(String);

impl GateDescriptor {
    /// Checks a gate's description, and cleans the text that people will read.
    ///
    /// # Errors
    /// The id is invalid or is the host's own, there are too many keys, or one of
    /// them is not a valid key or is the host's own.
    pub fn checked(id: &str, description: &str, reads: Vec<String>) -> Result<Self, GateDescriptorError> {
        if !name::is_id(id) || RESERVED.contains(&id) {
            let shown = clean(id, 100);
            return Err(GateDescriptorError(format!(
                "the gate id \"{shown}\" must fit [a-z][a-z0-9-]{{0,63}} and not be reserved ({})",
                RESERVED.join(", ")
            )));
        }
        if reads.len() > MAX_GATE_READS {
            return Err(GateDescriptorError(format!(
                "it asks for {} state keys; a gate may read at most {MAX_GATE_READS}",
                reads.len()
            )));
        }
        for key in &reads {
            let shown = clean(key, 140);
            if key.starts_with("host.") {
                return Err(GateDescriptorError(format!(
                    "it asks for the state key \"{shown}\", which belongs to the host; no gate may read those"
                )));
            }
            if !key::is_key(key) {
                return Err(GateDescriptorError(format!(
                    "it asks for \"{shown}\", which is not a state key; a key is COMPONENT-ID.NAME"
                )));
            }
        }
        let description = clean(description, MAX_GATE_DESCRIPTION_BYTES);
        Ok(Self { id: id.to_owned(), description, reads })
    }

    /// Returns the state that it may read.
    #[must_use]
    pub fn access(&self) -> Access {
        let mut access = Access::default();
        self.reads.iter().for_each(|key| access.allow(key, true, false));
        access
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn checked(id: &str, reads: &[&str]) -> Result<GateDescriptor, GateDescriptorError> {
        GateDescriptor::checked(
            id,
            "Says\u{202e} no.\u{1b}[31m",
            reads.iter().map(|r| (*r).to_owned()).collect(),
        )
    }

    #[test]
    fn g7_what_a_gate_says_of_itself_is_checked_and_cleaned() {
        let gate = checked("budget", &["notes.items"]).unwrap();
        assert_eq!(gate.description, "Says no.[31m");
        assert!(gate.access().may_read("notes.items"));
        assert!(!gate.access().may_write("notes.items"));
        for (id, reads, words) in [
            ("Budget", vec![], "must fit"),
            ("tool-list", vec![], "reserved"),
            ("permissions", vec![], "reserved"),
            ("host", vec![], "reserved"),
            ("tollgate", vec![], "reserved"),
            ("a", vec!["host.permissions"], "belongs to the host"),
            ("a", vec!["items"], "not a state key"),
            ("a", vec!["a.b"; MAX_GATE_READS + 1], "65 state keys"),
        ] {
            let why = checked(id, &reads).unwrap_err().to_string();
            assert!(why.contains(words), "{why}");
        }
    }
}
