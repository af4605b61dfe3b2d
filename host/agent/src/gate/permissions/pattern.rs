//! One rule: a pattern for the tool's name, and where wanted one for the arguments.

use crate::gate::ProposedCall;
use crate::text::clean;
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The largest compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A rule as it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// The tool's name; `*` stands for any letters, `?` for one.
    pub tool: String,
    /// These very arguments, in the host's own writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// A JSON pointer into the arguments, such as `/path`; all of them where it is
    /// absent and a pattern is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What stands there, whole: `*` is any letters but `/`, `**` any at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// A regular expression that is found in what stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
}

impl RuleSpec {
    /// Every call of the tools of this name.
    #[must_use]
    pub fn of_tool(tool: impl Into<String>) -> Self {
        Self { tool: tool.into(), ..Self::default() }
    }
}

/// Why a rule cannot be meant: a sentence that says what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(String);

/// A rule whose patterns are compiled.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    spec: RuleSpec,
    tool: Regex,
    value: Option<Regex>,
}

impl Rule {
    pub(super) fn new(spec: RuleSpec) -> Result<Self, RuleError> {
        if spec.tool.is_empty() {
            return Err(RuleError("`tool` is empty; write a tool's name, or \"*\" for all".to_owned()));
        }
        if spec.at.as_ref().is_some_and(|at| !at.is_empty() && !at.starts_with('/')) {
            return Err(RuleError("`at` is a JSON pointer and begins with /, such as \"/path\"".to_owned()));
        }
        let value = match (&spec.glob, &spec.matches) {
            (Some(_), Some(_)) => {
                return Err(RuleError("a rule has `glob` or `matches`, not both".to_owned()));
            }
            (Some(glob), None) => Some(compiled(&of_glob(glob))?),
            (None, Some(pattern)) => Some(compiled(pattern)?),
            (None, None) if spec.at.is_some() => {
                return Err(RuleError(
                    "`at` says where to look; say for what by `glob` or `matches`".to_owned(),
                ));
            }
            (None, None) => None,
        };
        Ok(Self { tool: compiled(&of_glob(&spec.tool))?, value, spec })
    }

    /// Whether any part of what the rule looks at matches: for rules that hold back.
    pub(super) fn matches_any(&self, call: &ProposedCall<'_>) -> bool {
        self.is_about(call) && self.looks_at(call, any)
    }

    /// Whether every part of what the rule looks at matches: for rules that let
    /// through.
    pub(super) fn matches_all(&self, call: &ProposedCall<'_>) -> bool {
        self.is_about(call) && self.looks_at(call, all)
    }

    fn is_about(&self, call: &ProposedCall<'_>) -> bool {
        let is_same = |text: &String| text == call.arguments.text();
        self.tool.is_match(&call.tool.descriptor.name) && self.spec.arguments.as_ref().is_none_or(is_same)
    }

    fn looks_at(&self, call: &ProposedCall<'_>, found: impl Fn(&Regex, &Value) -> bool) -> bool {
        let Some(pattern) = &self.value else { return true };
        let at = self.spec.at.as_deref().unwrap_or_default();
        call.arguments.value().pointer(at).is_some_and(|value| found(pattern, value))
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

fn any(pattern: &Regex, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| any(pattern, item)),
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| pattern.is_match(name) || any(pattern, field))
        }
        leaf => matches_leaf(pattern, leaf),
    }
}

fn all(pattern: &Regex, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(|item| all(pattern, item)),
        Value::Object(fields) => fields.values().all(|field| all(pattern, field)),
        leaf => matches_leaf(pattern, leaf),
    }
}

fn matches_leaf(pattern: &Regex, value: &Value) -> bool {
    match value {
        Value::String(text) => pattern.is_match(text),
        other => pattern.is_match(&other.to_string()),
    }
}

/// The regular expression that a glob stands for.
fn of_glob(glob: &str) -> String {
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
        RuleError(format!("\"{}\" is no pattern: {}", clean(pattern, 100), clean(&why, 200)))
    })
}
