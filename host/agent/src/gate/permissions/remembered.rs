//! Answers that hold for longer than one call.

use super::pattern::{Rule, RuleSpec};
use crate::catalog::{Catalog, Tool};
use crate::gate::{PERMISSIONS_ID, ProposedCall};
use crate::proposal::Arguments;
use crate::question::SuspendedCall;
use crate::state::{KeyScope, KeyUpdate, State, StateChange};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// The host's own key with the answers of this run.
pub const REMEMBERED_IN_RUN: &str = "host.permissions-run";
/// The host's own key with the answers of this thread.
pub const REMEMBERED_IN_THREAD: &str = "host.permissions";
/// The maximum number of answers in one scope. For a run or a thread, the oldest are dropped.
pub const MAX_REMEMBERED: usize = 256;

/// The scope in which an answer is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// For this run.
    Run,
    /// For this thread.
    Thread,
    /// Permanently: for this thread, and in the configuration.
    Always,
}

/// A person's answer that may also cover later calls.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RememberedAnswer {
    remember: Scope,
    #[serde(default, rename = "for")]
    about: AnswerSubject,
}

/// The later calls of the tool that an answer covers.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AnswerSubject {
    /// Those with the same arguments.
    #[default]
    Arguments,
    /// All of them.
    Tool,
}

/// Returns the schema of an answer: `true` for this call only, or an object that says how long to
/// remember the answer.
pub(super) fn answer_schema() -> Value {
    json!({"anyOf": [
        {"const": true},
        {
            "type": "object",
            "properties": {
                "remember": {"enum": ["run", "thread", "always"]},
                "for": {"enum": ["arguments", "tool"], "default": "arguments"},
            },
            "required": ["remember"],
            "additionalProperties": false,
        },
    ]})
}

/// Returns whether the permission rules asked this question, for a call of this run or of a
/// child run.
#[must_use]
pub fn asks_to_permit(asked: &SuspendedCall) -> bool {
    asked.gate.as_deref() == Some(PERMISSIONS_ID)
        || asked.ticket.response_schema.as_ref() == Some(&answer_schema())
}

/// Returns whether this answer to the permission rules covers more than one call.
#[must_use]
pub fn wants_more(asked: &SuspendedCall, answer: &Value) -> bool {
    asks_to_permit(asked) && *answer != Value::Bool(true)
}

/// Returns the rule to remember for this answer, with its scope, bound to the version of
/// the tool that was asked about. `None` if another gate asked, if the answer covers one
/// call only, or if the tool has changed since.
#[must_use]
pub fn answered(catalog: &Catalog, asked: &SuspendedCall, answer: &Value) -> Option<(Scope, RuleSpec)> {
    if asked.gate.as_deref() != Some(PERMISSIONS_ID) {
        return None;
    }
    let RememberedAnswer { remember, about } = RememberedAnswer::deserialize(answer).ok()?;
    let version = asked.owner.as_ref()?;
    let is_same = |tool: &&Arc<Tool>| tool.owner.id == version.id && tool.owner.version == version.version;
    let tool = catalog.tool(&asked.tool_name).filter(is_same)?;
    let arguments = match about {
        AnswerSubject::Tool => None,
        AnswerSubject::Arguments => {
            Some(Arguments::from_value(asked.ticket.parameters.clone()).text().to_owned())
        }
    };
    let (owner, digest) = (Some(version.id.to_string()), Some(tool.digest().into_owned()));
    let rule = RuleSpec { owner, digest, arguments, ..RuleSpec::of_tool(asked.tool_name.as_str()) };
    Some((remember, rule))
}

/// Returns the change to the host's own keys that stores an answer; `None` if there is nothing to
/// remember.
pub(crate) fn change(
    state: &State,
    catalog: &Catalog,
    asked: &SuspendedCall,
    answer: &Value,
) -> Option<StateChange> {
    let (scope, rule) = answered(catalog, asked, answer)?;
    let (key, scope) = match scope {
        Scope::Run => (REMEMBERED_IN_RUN, KeyScope::Run),
        Scope::Thread | Scope::Always => (REMEMBERED_IN_THREAD, KeyScope::Thread),
    };
    let update = json!(rule);
    let mut rules = state.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    if !rules.contains(&update) {
        rules.push(update.clone());
    }
    let too_many = rules.len().saturating_sub(MAX_REMEMBERED);
    rules.drain(..too_many);
    let update = KeyUpdate {
        key: Arc::from(key),
        scope,
        persistent: true,
        update: Some(Arc::new(update)),
        value: Some(Arc::new(Value::Array(rules))),
        fold: None,
    };
    Some(StateChange { revision: state.revision() + 1, updates: [update].into() })
}

/// Returns whether an answer that this run or thread remembers covers the call.
pub(super) fn in_state(call: &ProposedCall<'_>) -> bool {
    [REMEMBERED_IN_RUN, REMEMBERED_IN_THREAD].into_iter().any(|key| {
        let rules = call.snapshot.get(call.keys, key).and_then(Value::as_array);
        // Most rules are about other tools. Skipping them first avoids compiling their patterns.
        let is_about = |rule: &&Value| rule["tool"].as_str() == Some(call.tool.descriptor.name.as_str());
        rules.into_iter().flatten().filter(is_about).any(|rule| {
            let spec = RuleSpec::deserialize(rule).ok().filter(RuleSpec::is_bound);
            spec.and_then(|spec| Rule::new(spec).ok()).is_some_and(|rule| rule.matches_all(call))
        })
    })
}
