//! One rule: a pattern for the tool's name, optionally its owner, and optionally a
//! pattern for the arguments.

use super::path;
use crate::gate::ProposedCall;
use crate::name;
use crate::text::clean;
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The largest compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A rule as it is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// The tool's name; `*` matches any characters, `?` one.
    pub tool: String,
    /// The id of the component, plugin, server or agent that owns the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The tool's version, as [`Tool::digest`](crate::catalog::Tool::digest) gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Exactly these arguments, in the host's serialization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// A JSON pointer into the arguments, such as `/path`. If it is absent and a
    /// pattern is present, the rule examines all arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// A glob for the whole value: `*` matches any characters except `/`, `**` any at all, and `?`
    /// one character except `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// A regular expression that matches anywhere in the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
}

impl RuleSpec {
    /// Creates a rule for every call of the tools with this name.
    #[must_use]
    pub fn of_tool(tool: impl Into<String>) -> Self {
        Self { tool: tool.into(), ..Self::default() }
    }

    /// Returns whether it names one version of one owner's tool. For a remembered answer
    /// that does not, the question is asked again.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.owner.is_some() && self.digest.is_some()
    }
}

/// The reason why a rule is invalid, with a suggested fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(pub(super) String);

/// A rule with compiled patterns.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    spec: RuleSpec,
    tool: Regex,
    value: Option<ValuePattern>,
}

impl Rule {
    pub(super) fn new(spec: RuleSpec) -> Result<Self, RuleError> {
        if spec.tool.is_empty() {
            return Err(RuleError("`tool` is empty; write a tool's name, or \"*\" for all".to_owned()));
        }
        if spec.owner.as_ref().is_some_and(|owner| !name::is_id(owner)) {
            return Err(RuleError(
                "`owner` must be the id of a component, plugin, server or agent, such as \"find-in-files\""
                    .to_owned(),
            ));
        }
        if spec.at.as_ref().is_some_and(|at| !at.is_empty() && !at.starts_with('/')) {
            return Err(RuleError("`at` is a JSON pointer and begins with /, such as \"/path\"".to_owned()));
        }
        let value = match (&spec.glob, &spec.matches) {
            (Some(_), Some(_)) => {
                return Err(RuleError("a rule has `glob` or `matches`, not both".to_owned()));
            }
            (Some(glob), None) => Some(ValuePattern::of_glob(glob)?),
            (None, Some(pattern)) => Some(ValuePattern { regex: compiled(pattern)?, glob: None }),
            (None, None) if spec.at.is_some() => {
                return Err(RuleError("`at` needs a pattern; add `glob` or `matches`".to_owned()));
            }
            (None, None) => None,
        };
        Ok(Self { tool: compiled(&regex_of_glob(&spec.tool))?, value, spec })
    }

    pub(super) fn spec(&self) -> &RuleSpec {
        &self.spec
    }

    /// Returns whether any part of the examined value matches, as written or normalized:
    /// for rules that deny or ask.
    pub(super) fn matches_any(&self, call: &ProposedCall<'_>) -> bool {
        self.is_about(call) && self.has_match(call, ValuePattern::matches_any)
    }

    /// Returns whether the examined value is present, is not empty and matches in every
    /// part: for rules that allow.
    pub(super) fn matches_all(&self, call: &ProposedCall<'_>) -> bool {
        self.is_about(call) && self.has_match(call, ValuePattern::matches_all)
    }

    /// Returns whether the rule is about the call's tool, its owner, its version and its exact arguments.
    fn is_about(&self, call: &ProposedCall<'_>) -> bool {
        let RuleSpec { owner, digest, arguments, .. } = &self.spec;
        let tool = call.tool;
        self.tool.is_match(&tool.descriptor.name)
            && owner.as_ref().is_none_or(|owner| tool.owner.id == owner.as_str())
            && arguments.as_ref().is_none_or(|text| text == call.arguments.text())
            && digest.as_ref().is_none_or(|digest| tool.digest() == digest.as_str())
    }

    /// Returns whether the pattern matches the examined value, as `matches` decides. A rule without a
    /// pattern matches every call.
    fn has_match(&self, call: &ProposedCall<'_>, matches: impl Fn(&ValuePattern, &Value) -> bool) -> bool {
        let Some(pattern) = &self.value else { return true };
        let at = self.spec.at.as_deref().unwrap_or_default();
        call.arguments.value().pointer(at).is_some_and(|value| matches(pattern, value))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.spec.tool)?;
        let pattern = self.spec.glob.as_ref().or(self.spec.matches.as_ref());
        match pattern {
            Some(pattern) => {
                write!(f, " with {} = {pattern}", self.spec.at.as_deref().unwrap_or("arguments"))
            }
            None => Ok(()),
        }
    }
}

/// A compiled `glob` or `matches`.
#[derive(Debug, Clone)]
struct ValuePattern {
    regex: Regex,
    /// The glob that it was compiled from, unless it was a regular expression.
    glob: Option<String>,
}

impl ValuePattern {
    fn of_glob(glob: &str) -> Result<Self, RuleError> {
        Ok(Self { regex: compiled(&regex_of_glob(glob))?, glob: Some(glob.to_owned()) })
    }

    fn matches_any(&self, value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(|item| self.matches_any(item)),
            Value::Object(fields) => {
                fields.iter().any(|(name, field)| self.matches_any_form(name) || self.matches_any(field))
            }
            Value::String(text) => self.matches_any_form(text),
            other => self.regex.is_match(&other.to_string()),
        }
    }

    fn matches_all(&self, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty() && items.iter().all(|item| self.matches_all(item)),
            Value::Object(fields) => {
                !fields.is_empty()
                    && fields.iter().all(|(name, field)| self.matches_safely(name) && self.matches_all(field))
            }
            Value::String(text) => self.matches_safely(text),
            other => self.regex.is_match(&other.to_string()),
        }
    }

    /// Returns whether the text matches as written or normalized.
    fn matches_any_form(&self, text: &str) -> bool {
        self.regex.is_match(text)
            || path::normalized(text).is_some_and(|normalized| self.regex.is_match(&normalized))
    }

    /// Returns whether the text matches, and cannot lead outside the path of a glob.
    fn matches_safely(&self, text: &str) -> bool {
        !text.is_empty()
            && self.regex.is_match(text)
            && self.glob.as_ref().is_none_or(|glob| path::is_plain(text, glob))
    }
}

/// Translates a glob into a regular expression.
fn regex_of_glob(glob: &str) -> String {
    let mut pattern = String::from("(?s)^");
    let mut rest = glob;
    while let Some(c) = rest.chars().next() {
        let taken = if rest.starts_with("**") { 2 } else { c.len_utf8() };
        match c {
            '*' if taken == 2 => pattern.push_str(".*"),
            '*' => pattern.push_str("[^/]*"),
            '?' => pattern.push_str("[^/]"),
            other => pattern.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
        rest = &rest[taken..];
    }
    pattern.push('$');
    pattern
}

fn compiled(pattern: &str) -> Result<Regex, RuleError> {
    RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build().map_err(|why| {
        let why = why.to_string().lines().last().unwrap_or_default().trim().to_owned();
        RuleError(format!("\"{}\" is not a valid pattern: {}", clean(pattern, 100), clean(&why, 200)))
    })
}
