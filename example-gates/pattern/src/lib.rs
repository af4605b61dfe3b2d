//! `pattern`: denies calls whose arguments match a pattern.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use tollgate_gate::{Gate, ProposedCall, Value, Verdict, export_gate};

/// The largest compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// The gate's settings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The gate denies calls that match one of these rules.
    pub deny: Vec<Rule>,
}

/// A pattern and the arguments that it applies to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The tool's name; all tools if absent.
    pub tool: Option<String>,
    /// A JSON pointer into the arguments, such as `/path`; all of them if absent.
    /// Nested values are searched too.
    #[serde(default)]
    pub at: String,
    /// A regular expression. It matches anywhere in a text unless it has anchors.
    pub matches: String,
    /// The reason given to the model.
    pub reason: Option<String>,
}

/// The gate.
#[derive(Debug)]
pub struct Pattern;

impl Gate for Pattern {
    const ID: &'static str = "pattern";
    const DESCRIPTION: &'static str = "Denies calls whose arguments match a pattern.";
    type Settings = Settings;

    fn check(settings: &Settings) -> Result<(), &'static str> {
        let bad_pointer = |rule: &Rule| !rule.at.is_empty() && !rule.at.starts_with('/');
        if settings.deny.is_empty() {
            return Err("they deny nothing; write deny = [{ at = \"/path\", matches = \"secret\" }]");
        }
        if settings.deny.iter().any(bad_pointer) {
            return Err("`at` is a JSON pointer and begins with /, such as \"/path\"");
        }
        if settings.deny.iter().any(|rule| rule.compiled().is_none()) {
            return Err("`matches` is not a regular expression, or is too large");
        }
        Ok(())
    }

    fn judge(call: &ProposedCall, settings: &Settings) -> Verdict {
        match settings.deny.iter().find(|rule| rule.matches(call)) {
            None => Verdict::Allow,
            Some(Rule { reason: Some(reason), .. }) => Verdict::deny(reason.as_str()),
            Some(rule) => Verdict::deny(format!(
                "the arguments of '{}' match a forbidden pattern ({}).",
                call.tool_name, rule.matches
            )),
        }
    }
}

impl Rule {
    fn compiled(&self) -> Option<Regex> {
        RegexBuilder::new(&self.matches).size_limit(MAX_PATTERN_BYTES).build().ok()
    }

    fn matches(&self, call: &ProposedCall) -> bool {
        if self.tool.as_ref().is_some_and(|tool| *tool != call.tool_name) {
            return false;
        }
        let Some(at) = call.args.pointer(&self.at) else { return false };
        // `check` has already compiled it. If it does not compile here, deny the call.
        self.compiled().is_none_or(|pattern| found(&pattern, at))
    }
}

/// Returns whether a text, a number or the name of a field within the value matches.
fn found(pattern: &Regex, value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => pattern.is_match(if *flag { "true" } else { "false" }),
        Value::Number(number) => pattern.is_match(&format!("{number}")),
        Value::String(text) => pattern.is_match(text),
        Value::Array(items) => items.iter().any(|item| found(pattern, item)),
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| pattern.is_match(name) || found(pattern, field))
        }
    }
}

export_gate!(Pattern);

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_gate::json;

    fn settings(tool: Option<&str>, at: &str, matches: &str) -> Settings {
        let rule = Rule {
            tool: tool.map(ToString::to_string),
            at: at.to_string(),
            matches: matches.to_string(),
            reason: None,
        };
        Settings { deny: [rule].into() }
    }

    fn denies(settings: &Settings, args: Value) -> bool {
        Pattern::judge(&ProposedCall::for_test("read", args), settings) != Verdict::Allow
    }

    #[test]
    fn a_pattern_is_found_where_it_is_looked_for() {
        let keys = settings(Some("read"), "/path", r"\.key$");
        assert!(denies(&keys, json!({"path": "a/b.key"})));
        assert!(!denies(&keys, json!({"path": "a/b.key.txt"})));
        assert!(!denies(&keys, json!({"other": "a/b.key"})));
        assert!(!denies(&settings(Some("write"), "/path", "."), json!({"path": "x"})));
    }

    #[test]
    fn without_a_pointer_everything_is_searched() {
        let anywhere = settings(None, "", "(?i)secret");
        assert!(denies(&anywhere, json!({"a": [{"b": "the SECRET"}]})));
        assert!(denies(&anywhere, json!({"secret": 1})));
        assert!(!denies(&anywhere, json!({"a": 1})));
    }

    #[test]
    fn settings_that_cannot_be_meant_are_refused() {
        assert!(Pattern::check(&Settings { deny: Vec::new() }).is_err());
        assert!(Pattern::check(&settings(None, "path", "x")).is_err());
        assert!(Pattern::check(&settings(None, "", "(")).is_err());
        assert!(Pattern::check(&settings(None, "", "x")).is_ok());
    }
}
