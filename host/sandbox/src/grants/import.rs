//! The imports of a component, read from its type before anything of it runs.

use super::Power;
use serde::{Deserialize, Serialize};

/// An interface that a component imports and that this host provides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Import {
    /// The interface with its version, such as `wasi:clocks/wall-clock@0.2.6`.
    pub interface: String,
    /// The power that must be granted to use it; `None` if it needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
}
