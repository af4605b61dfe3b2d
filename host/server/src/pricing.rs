//! The cost of a run's tokens, by the models that replied.

use tollgate_agent::message::TokenUsage;
use tollgate_agent::run::RunUsage;

/// The price of a model, per million tokens, in the operator's currency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Price of a million tokens read.
    pub input: f64,
    /// Price of a million tokens written.
    pub output: f64,
}

impl Price {
    /// Returns the cost of these tokens.
    pub(crate) fn of(self, tokens: TokenUsage) -> f64 {
        #[allow(clippy::cast_precision_loss)] // A price needs no more digits.
        let millions = |tokens: u64| tokens as f64 / 1_000_000.0;
        millions(tokens.input_tokens) * self.input + millions(tokens.output_tokens) * self.output
    }
}

/// The prices that count for one agent.
pub(crate) struct Prices<'a, F> {
    /// The name under which the configuration knows the agent's model, if it has one now.
    pub(crate) configured: Option<&'a str>,
    /// Returns the price of the model with this name.
    pub(crate) price: F,
}

impl<F: Fn(&str) -> Option<Price>> Prices<'_, F> {
    /// Returns the price of the agent's model, for records that do not name the model.
    pub(crate) fn of_configured(&self) -> Option<Price> {
        (self.price)(self.configured?)
    }

    /// Returns the price of a model under the name that replied, or else under the configured name:
    /// providers name the dated version of an alias.
    pub(crate) fn of_reply(&self, model: &str) -> Option<Price> {
        (self.price)(model).or_else(|| self.of_configured())
    }

    /// Returns the tokens of a run with its children, each part with the price that counts for it.
    pub(crate) fn parts(&self, usage: &RunUsage) -> Vec<(TokenUsage, Option<Price>)> {
        let named = usage.models.iter().fold(TokenUsage::default(), |sum, one| sum.plus(one.tokens));
        let mut parts: Vec<_> =
            usage.models.iter().map(|one| (one.tokens, self.of_reply(&one.model))).collect();
        // Children, and records that do not name the model.
        let all = usage.all_tokens();
        let rest = TokenUsage {
            input_tokens: all.input_tokens.saturating_sub(named.input_tokens),
            output_tokens: all.output_tokens.saturating_sub(named.output_tokens),
        };
        parts.push((rest, self.of_configured()));
        parts
    }

    /// Returns the cost of a run with its children; `None` if no price is known.
    pub(crate) fn cost(&self, usage: &RunUsage) -> Option<f64> {
        let costs = self.parts(usage).into_iter().filter_map(|(tokens, price)| Some(price?.of(tokens)));
        costs.reduce(|sum, cost| sum + cost)
    }
}
