//! What a run used in all.

use super::event::Finished;
use crate::message::TokenUsage;
use crate::outcome::Usage;
use serde::{Deserialize, Serialize};

/// What a run used in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunUsage {
    /// Turns of the model.
    pub steps: u32,
    /// Calls that the model asked for.
    pub calls: u32,
    /// Tokens, as the provider counts them.
    pub tokens: TokenUsage,
    /// Fuel, wall time and memory of all calls.
    pub tools: Usage,
    /// What its children used.
    #[serde(default)]
    pub children: ChildUsage,
}

impl RunUsage {
    /// Turns of the model, its children's included.
    #[must_use]
    pub fn all_steps(&self) -> u32 {
        self.steps.saturating_add(self.children.steps)
    }

    /// Tokens, its children's included.
    #[must_use]
    pub fn all_tokens(&self) -> TokenUsage {
        self.tokens.plus(self.children.tokens)
    }
}

/// What the children of a run used, and theirs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildUsage {
    /// How many children ended.
    pub runs: u32,
    /// Turns of the model.
    pub steps: u32,
    /// Tokens.
    pub tokens: TokenUsage,
}

impl Finished {
    /// What its last attempt used.
    #[must_use]
    pub fn last_attempt(&self) -> Usage {
        self.usage.without(self.earlier)
    }
}
