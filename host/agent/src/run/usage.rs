//! Total resource usage of a run.

use super::event::Finished;
use crate::message::TokenUsage;
use crate::outcome::Usage;
use serde::{Deserialize, Serialize};

/// Total resource usage of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunUsage {
    /// Model turns.
    pub steps: u32,
    /// Calls that the model requested.
    pub calls: u32,
    /// Tokens, as the provider counts them.
    pub tokens: TokenUsage,
    /// Fuel, wall time and memory of all calls.
    pub tools: Usage,
    /// Usage of its children.
    #[serde(default)]
    pub children: ChildUsage,
}

impl RunUsage {
    /// Returns the number of model turns, including those of children.
    #[must_use]
    pub fn all_steps(&self) -> u32 {
        self.steps.saturating_add(self.children.steps)
    }

    /// Returns the number of tokens, including those of children.
    #[must_use]
    pub fn all_tokens(&self) -> TokenUsage {
        self.tokens.plus(self.children.tokens)
    }
}

/// Total usage of a run's children and their own children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildUsage {
    /// The number of children that ended.
    pub runs: u32,
    /// Model turns.
    pub steps: u32,
    /// Tokens.
    pub tokens: TokenUsage,
}

impl Finished {
    /// Returns the usage of the last attempt.
    #[must_use]
    pub fn last_attempt(&self) -> Usage {
        self.usage.without(self.earlier)
    }
}
