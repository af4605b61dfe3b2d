//! Total resource usage of a run.

use crate::message::{ModelReply, TokenUsage};
use crate::outcome::Usage;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// Total resource usage of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The part of each model that replied, without children, in the order of their first replies.
    /// At most 16 are listed; the others are counted as `(others)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelUsage>,
}

/// The part of one model in the usage of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// The model, as its replies name it.
    pub model: SmolStr,
    /// The number of replies.
    pub replies: u32,
    /// Tokens, as the provider counts them.
    pub tokens: TokenUsage,
}

/// The maximum number of models that the usage of a run lists.
const MAX_MODELS: usize = 16;
/// The name of all further models together.
const OTHER_MODELS: &str = "(others)";

impl RunUsage {
    /// Adds a model's reply.
    pub(super) fn add_reply(&mut self, reply: &ModelReply) {
        self.tokens = self.tokens.plus(reply.usage);
        let Some(model) = &reply.model else { return };
        let is_listed = |name: &str| self.models.iter().any(|one| one.model == name);
        let has_room = self.models.len() < MAX_MODELS || is_listed(model);
        let name = if has_room { model.clone() } else { SmolStr::new_static(OTHER_MODELS) };
        if !is_listed(&name) {
            self.models.push(ModelUsage { model: name.clone(), ..ModelUsage::default() });
        }
        for one in self.models.iter_mut().filter(|one| one.model == name) {
            one.replies = one.replies.saturating_add(1);
            one.tokens = one.tokens.plus(reply.usage);
        }
    }

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
