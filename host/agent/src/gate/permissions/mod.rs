//! The operator's permission rules: which calls are allowed, asked about or denied. Deny
//! outweighs ask, and ask outweighs allow.
//!
//! A person's answer may be remembered: for the run and the thread in keys of the host's
//! own state, which no tool reads, and permanently in the configuration. A remembered
//! answer answers the same question again; it never outweighs a deny. It is bound to the
//! version of the tool that was asked about.

mod path;
mod pattern;
mod remembered;

pub(crate) use remembered::change;

pub use pattern::{RuleError, RuleSpec};
pub use remembered::{
    MAX_REMEMBERED, REMEMBERED_IN_RUN, REMEMBERED_IN_THREAD, Scope, answered, asks_to_permit, wants_more,
};

use super::{ProposedCall, Verdict};
use crate::outcome::{ResumeMode, Ticket};
use pattern::Rule;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The treatment of calls that no rule matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DefaultRule {
    /// This gate lets them run.
    Allow,
    /// A person is asked.
    #[default]
    Ask,
    /// They are denied.
    Deny,
}

/// The gate that applies the rules.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
    remembered: Vec<Rule>,
    /// The number of remembered answers without a version, whose question is asked again.
    unbound: usize,
    otherwise: DefaultRule,
}

impl Permissions {
    /// Creates a gate without rules: every call gets this treatment.
    #[must_use]
    pub fn new(otherwise: DefaultRule) -> Self {
        Self { otherwise, ..Self::default() }
    }

    /// Lets matching calls run without a question.
    ///
    /// # Errors
    /// The rule is invalid.
    pub fn allow(mut self, rule: RuleSpec) -> Result<Self, RuleError> {
        self.allow.push(Rule::new(rule)?);
        Ok(self)
    }

    /// Asks a person about matching calls.
    ///
    /// # Errors
    /// The rule is invalid.
    pub fn ask(mut self, rule: RuleSpec) -> Result<Self, RuleError> {
        self.ask.push(Rule::new(rule)?);
        Ok(self)
    }

    /// Denies matching calls.
    ///
    /// # Errors
    /// The rule is invalid.
    pub fn deny(mut self, rule: RuleSpec) -> Result<Self, RuleError> {
        self.deny.push(Rule::new(rule)?);
        Ok(self)
    }

    /// Adds a permanent answer to questions about matching calls. An answer that names
    /// no owner and no digest is counted and otherwise ignored.
    ///
    /// # Errors
    /// The rule is invalid, or there are more than [`MAX_REMEMBERED`].
    pub fn remembered(mut self, rule: RuleSpec) -> Result<Self, RuleError> {
        self.remember(rule)?;
        Ok(self)
    }

    /// Like [`remembered`](Self::remembered), for a gate in use. An answer that it has is not
    /// added again.
    ///
    /// # Errors
    /// The same as those of [`remembered`](Self::remembered).
    pub fn remember(&mut self, rule: RuleSpec) -> Result<(), RuleError> {
        let rule = Rule::new(rule)?;
        if !rule.spec().is_bound() {
            self.unbound += 1;
            return Ok(());
        }
        if self.remembered.iter().any(|known| known.spec() == rule.spec()) {
            return Ok(());
        }
        if self.remembered.len() >= MAX_REMEMBERED {
            return Err(RuleError(format!("at most {MAX_REMEMBERED} answers are remembered; remove some")));
        }
        self.remembered.push(rule);
        Ok(())
    }

    /// Returns the number of remembered answers without an owner or digest, whose question
    /// is asked again.
    #[must_use]
    pub fn unbound_answers(&self) -> usize {
        self.unbound
    }

    /// Returns the tools that allow rules name literally and without an owner.
    pub fn tools_allowed_by_name(&self) -> impl Iterator<Item = &str> {
        let rules = self.allow.iter().map(Rule::spec).filter(|spec| spec.owner.is_none());
        rules.map(|spec| spec.tool.as_str()).filter(|tool| !tool.contains(['*', '?']))
    }

    /// Returns the lists of rules and the tools that each names, as they are configured.
    pub fn named_tools(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let lists = [("allow", &self.allow), ("ask", &self.ask), ("deny", &self.deny)];
        lists
            .into_iter()
            .flat_map(|(list, rules)| rules.iter().map(move |rule| (list, rule.spec().tool.as_str())))
    }

    fn is_remembered(&self, call: &ProposedCall<'_>) -> bool {
        self.remembered.iter().any(|rule| rule.matches_all(call)) || remembered::in_state(call)
    }

    /// Decides whether this call may run.
    #[must_use]
    pub fn judge(&self, call: &ProposedCall<'_>) -> Verdict {
        let tool = &call.tool.descriptor.name;
        if let Some(rule) = self.deny.iter().find(|rule| rule.matches_any(call)) {
            return Verdict::Deny(format!("the operator's rules deny it ({rule})."));
        }
        let is_asked = self.ask.iter().any(|rule| rule.matches_any(call));
        let is_allowed = self.allow.iter().any(|rule| rule.matches_all(call));
        match (is_asked, is_allowed, self.otherwise) {
            (true, _, _) | (false, false, DefaultRule::Ask) => match self.is_remembered(call) {
                true => Verdict::Allow,
                false => Verdict::Suspend(Box::new(question(tool, call.arguments.value()))),
            },
            (false, true, _) | (false, false, DefaultRule::Allow) => Verdict::Allow,
            (false, false, DefaultRule::Deny) => {
                Verdict::Deny(format!("no rule of the operator allows '{tool}' with these arguments."))
            }
        }
    }
}

/// Returns the question to a person. Cancelling the call means no.
fn question(tool: &str, arguments: &Value) -> Ticket {
    Ticket {
        action: "permit".to_owned(),
        message: format!("May '{tool}' run with these arguments?"),
        parameters: arguments.clone(),
        response_schema: Some(remembered::answer_schema()),
        resume_mode: ResumeMode::ReplayToolCall,
    }
}

#[cfg(test)]
mod tests;
