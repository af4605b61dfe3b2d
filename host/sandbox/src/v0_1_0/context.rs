//! The context of a call, lent to the guest without copying.

use super::types;
use crate::attempt::CallContext;
use serde_json::Value;
use std::io::{self, Write};
use tollgate_agent::context::{AgentView, Resumption, RunIdentity};

/// Larger values are left out of the list; the tool reads them with `read-state`.
const MAX_LISTED_BYTES: usize = 64 * 1024;

/// The visible part of the state, serialized, and everything else in the context that must be
/// serialized before it can be lent.
pub(crate) struct ContextView<'a> {
    call: &'a CallContext<'a>,
    entries: Vec<(&'a str, String)>,
    decision: Option<String>,
}

impl<'a> ContextView<'a> {
    /// Serializes the state that the call's tool may see.
    pub(crate) fn of(call: &'a CallContext<'a>) -> Self {
        let access = &call.permit.tool().access;
        let entries = call
            .snapshot
            .visible(call.keys, access)
            .filter_map(|(key, value)| Some((key, listed(value)?)))
            .collect();
        let decision = call.resume.map(|resume| resume.value.to_string());
        Self { call, entries, decision }
    }

    /// Returns how many bytes of state and decision there are.
    pub(crate) fn bytes(&self) -> u64 {
        let entries: usize = self.entries.iter().map(|(key, value)| key.len() + value.len()).sum();
        (entries + self.decision.as_ref().map_or(0, String::len)) as u64
    }

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

/// Returns the value's JSON, unless it is too long for the list.
fn listed(value: &Value) -> Option<String> {
    let mut text = LimitedBuffer(Vec::new());
    serde_json::to_writer(&mut text, value).ok()?;
    String::from_utf8(text.0).ok()
}

/// A buffer limited to the size of a listed value, so that a value of many megabytes costs no
/// more than the largest listed one.
struct LimitedBuffer(Vec<u8>);

impl Write for LimitedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_LISTED_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
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
        assert_eq!(listed(&json!({"a": [1, null]})).as_deref(), Some(r#"{"a":[1,null]}"#));
        assert!(listed(&json!("x".repeat(MAX_LISTED_BYTES - 2))).is_some());
        assert!(listed(&json!("x".repeat(MAX_LISTED_BYTES - 1))).is_none());
    }
}
