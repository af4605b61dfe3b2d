//! The operator's permission rules: which calls may run, which are asked about,
//! which may not. Deny is stronger than ask, and ask than allow.
//!
//! What a person answers may be remembered: for the run and the thread as keys of
//! the host's own state, which no tool reads, and for always in the configuration.
//! A remembered answer answers the question again; it never outweighs a deny.

mod pattern;
mod remembered;

pub(crate) use remembered::change;

pub use pattern::{RuleError, RuleSpec};
pub use remembered::{REMEMBERED_IN_RUN, REMEMBERED_IN_THREAD, Scope, answered};

use super::{Gate, PERMISSIONS_ID, ProposedCall, Verdict};
use crate::outcome::{ResumeMode, Ticket};
use pattern::Rule;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What happens with calls that no rule matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Otherwise {
    /// They run, as far as this gate is concerned.
    Allow,
    /// A person is asked.
    #[default]
    Ask,
    /// They are denied.
    Deny,
}

/// The gate that knows the rules.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
    remembered: Vec<Rule>,
    otherwise: Otherwise,
}

impl Permissions {
    /// Without rules: every call comes to this.
    #[must_use]
    pub fn new(otherwise: Otherwise) -> Self {
        Self { otherwise, ..Self::default() }
    }

    /// Calls that match may run without a question.
    ///
    /// # Errors
    /// The rule cannot be meant.
    pub fn allow(mut self, rule: RuleSpec) -> Result<Self, RuleError> {
        self.allow.push(Rule::new(rule)?);
        Ok(self)
    }

    /// A person is asked about calls that match.
    ///
    /// # Errors
    /// The rule cannot be meant.
    pub fn ask(mut self, rule: RuleSpec) -> Result<Self, RuleError> {
        self.ask.push(Rule::new(rule)?);
        Ok(self)
    }

    /// Calls that match are denied.
    ///
    /// # Errors
    /// The rule cannot be meant.
    pub fn deny(mut self, rule: RuleSpec) -> Result<Self, RuleError> {
        self.deny.push(Rule::new(rule)?);
        Ok(self)
    }

    /// Questions about calls that match were answered for always.
    ///
    /// # Errors
    /// The rule cannot be meant.
    pub fn remembered(mut self, rule: RuleSpec) -> Result<Self, RuleError> {
        self.remembered.push(Rule::new(rule)?);
        Ok(self)
    }

    fn is_remembered(&self, call: &ProposedCall<'_>) -> bool {
        self.remembered.iter().any(|rule| rule.matches_all(call)) || remembered::in_state(call)
    }
}

impl Gate for Permissions {
    fn id(&self) -> &str {
        PERMISSIONS_ID
    }

    fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        let tool = &call.tool.descriptor.name;
        if let Some(rule) = self.deny.iter().find(|rule| rule.matches_any(call)) {
            return Verdict::Deny(format!("the operator's rules deny it ({rule})."));
        }
        let is_asked = self.ask.iter().any(|rule| rule.matches_any(call));
        let is_allowed = self.allow.iter().any(|rule| rule.matches_all(call));
        match (is_asked, is_allowed, self.otherwise) {
            (true, _, _) | (false, false, Otherwise::Ask) => match self.is_remembered(call) {
                true => Verdict::Allow,
                false => Verdict::Suspend(Box::new(question(tool, call.arguments.value()))),
            },
            (false, true, _) | (false, false, Otherwise::Allow) => Verdict::Allow,
            (false, false, Otherwise::Deny) => {
                Verdict::Deny(format!("no rule of the operator allows '{tool}' with these arguments."))
            }
        }
    }
}

/// What a person is asked. To say no is to cancel the call.
fn question(tool: &str, arguments: &Value) -> Ticket {
    Ticket {
        action: "permit".to_owned(),
        message: format!("May '{tool}' run with these arguments? `true` lets it run once."),
        parameters: arguments.clone(),
        response_schema: Some(remembered::answer_schema()),
        resume_mode: ResumeMode::ReplayToolCall,
    }
}

#[cfg(test)]
mod tests;
