//! The context of a call, lent to the guest without copying.

use super::types;
use crate::attempt::CallContext;
use serde_json::Value;
use std::io::{self, Write};
use tollgate_agent::context::{AgentView, Resumption, RunIdentity};
use tollgate_agent::json;

/// Larger values are left out of the list; the tool reads them with `read-state`.
const MAX_LISTED_BYTES: usize = 64 * 1024;

/// The part of the state that a call's tool is shown, measured and not yet serialized.
pub(crate) struct MeasuredContext<'a> {
    call: &'a CallContext<'a>,
    values: Vec<(&'a str, &'a Value)>,
    bytes: u64,
}

/// The visible part of the state, serialized, and everything else in the context that must be
/// serialized before it can be lent.
pub(crate) struct ContextView<'a> {
    call: &'a CallContext<'a>,
    entries: Vec<(&'a str, String)>,
    decision: Option<String>,
}

impl<'a> MeasuredContext<'a> {
    /// Measures the state that the call's tool may see.
    pub(crate) fn of(call: &'a CallContext<'a>) -> Self {
        let decision = call.resume.map_or(0, |resume| json::written_bytes(&resume.value));
        let (mut values, mut bytes) = (Vec::new(), decision as u64);
        for (key, value) in call.snapshot.visible(call.keys, &call.permit.tool().access) {
            if let Some(value_bytes) = listed_bytes(value) {
                values.push((key, value));
                bytes = bytes.saturating_add((key.len() + value_bytes) as u64);
            }
        }
        Self { call, values, bytes }
    }

    /// Returns how many bytes of state and decision there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Serializes the state and the decision.
    pub(crate) fn written(self) -> ContextView<'a> {
        let entries = self.values.into_iter().map(|(key, value)| (key, value.to_string())).collect();
        let decision = self.call.resume.map(|resume| resume.value.to_string());
        ContextView { call: self.call, entries, decision }
    }
}

impl<'a> ContextView<'a> {
    /// Returns the entries as the context lends them.
    pub(crate) fn entries(&self) -> Vec<types::EntryParam<'_>> {
        self.entries.iter().map(|(key, value)| types::EntryParam { key, value }).collect()
    }

    /// Returns the context of one attempt.
    pub(crate) fn context<'b>(
        &'b self,
        entries: &'b [types::EntryParam<'b>],
        delegates: &'b [&'b str],
        deadline_ms: u32,
    ) -> types::ToolCallContext<'b> {
        let call = self.call;
        types::ToolCallContext {
            call_id: call.permit.call_id(),
            tool_name: &call.permit.tool().descriptor.name,
            run_identity: lent_identity(call.identity),
            agent: lent_agent(call.agent, delegates),
            snapshot: types::Snapshot { revision: call.snapshot.revision(), values: entries },
            deadline_ms,
            attempt: call.attempt,
            resume: call
                .resume
                .zip(self.decision.as_deref())
                .map(|(resume, value)| wit_resumption(resume, value)),
        }
    }
}

pub(super) fn lent_identity(identity: &RunIdentity) -> types::RunIdentity<'_> {
    types::RunIdentity {
        run_id: &identity.run_id,
        thread_id: identity.client_thread_id(),
        agent_id: &identity.agent_id,
        parent_run_id: identity.parent_run_id.as_deref(),
        parent_thread_id: identity.client_parent_thread_id(),
        parent_call_id: identity.parent_call_id.as_deref(),
    }
}

pub(super) fn lent_agent<'a>(agent: &'a AgentView, delegates: &'a [&'a str]) -> types::AgentView<'a> {
    types::AgentView { id: &agent.id, description: agent.description.as_deref(), delegates }
}

fn wit_resumption<'a>(resume: &'a Resumption, value: &'a str) -> types::Resumption<'a> {
    types::Resumption {
        suspension_id: &resume.suspension_id,
        action: &resume.action,
        message: &resume.message,
        decision_id: &resume.decision_id,
        value,
        reason: resume.reason.as_deref(),
        decided_at_ms: resume.decided_at_ms,
    }
}

/// Returns the length of the value's JSON, unless it is too long for the list.
fn listed_bytes(value: &Value) -> Option<usize> {
    let mut length = LimitedLength(0);
    serde_json::to_writer(&mut length, value).ok()?;
    Some(length.0)
}

/// Counts up to the size of a listed value, so that a value of many megabytes costs no more than the
/// largest listed one.
struct LimitedLength(usize);

impl Write for LimitedLength {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 + bytes.len() > MAX_LISTED_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_above_64_kib_are_not_listed() {
        assert_eq!(listed_bytes(&json!({"a": [1, null]})), Some(r#"{"a":[1,null]}"#.len()));
        assert!(listed_bytes(&json!("x".repeat(MAX_LISTED_BYTES - 2))).is_some());
        assert!(listed_bytes(&json!("x".repeat(MAX_LISTED_BYTES - 1))).is_none());
    }
}
