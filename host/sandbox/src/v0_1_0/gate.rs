//! What a gate is asked and what it answers, from and to the host's own words.

use super::context::{lent_agent, lent_identity};
use super::generated::of_gates::exports::tollgate::tool::gate as wit;
use super::output::{lift_result, lift_ticket};
use super::types;
use serde_json::Value;
use tollgate_agent::gate::{GateDescriptor, ProposedCall, Verdict};
use tollgate_agent::outcome::Fault;
use tollgate_agent::state::Access;
use tollgate_agent::text::clean;

pub(crate) use super::generated::of_gates::GateComponentPre as GatePre;

/// The longest reason of a verdict, in bytes.
const MAX_REASON_BYTES: usize = 2_000;

/// Reads what a gate says of itself, or says which part of it is not acceptable.
pub(crate) fn lift_gate_descriptor(given: wit::GateDescriptor) -> Result<GateDescriptor, String> {
    GateDescriptor::checked(&given.id, &given.description, given.reads).map_err(|why| why.to_string())
}

/// Reads a gate's answer.
///
/// # Errors
/// Part of it is not what the contract says.
pub(crate) fn lift_verdict(gate: &str, given: wit::Verdict) -> Result<Verdict, Fault> {
    Ok(match given {
        wit::Verdict::Block(reason) => Verdict::Block(clean(&reason, MAX_REASON_BYTES)),
        wit::Verdict::Deny(reason) => Verdict::Deny(clean(&reason, MAX_REASON_BYTES)),
        wit::Verdict::Suspend(ticket) => Verdict::Suspend(Box::new(lift_ticket(gate, ticket)?)),
        wit::Verdict::SetResult(result) => Verdict::SetResult(Box::new(lift_result(gate, result)?)),
        wit::Verdict::Allow => Verdict::Allow,
    })
}

/// What a gate is shown of one call, written out so that it can be lent.
pub(crate) struct Shown<'a> {
    call: &'a ProposedCall<'a>,
    settings: &'a str,
    entries: Vec<(&'a str, String)>,
    decided: Option<String>,
}

impl<'a> Shown<'a> {
    pub(crate) fn of(call: &'a ProposedCall<'a>, access: &'a Access, settings: &'a str) -> Self {
        let visible = call.snapshot.visible(call.keys, access);
        Self {
            call,
            settings,
            entries: visible.map(|(key, value)| (key, value.to_string())).collect(),
            decided: call.decided.map(Value::to_string),
        }
    }

    /// How many bytes go into the guest.
    pub(crate) fn bytes(&self) -> u64 {
        let entries: usize = self.entries.iter().map(|(key, value)| key.len() + value.len()).sum();
        let decided = self.decided.as_ref().map_or(0, String::len);
        (self.call.arguments.text().len() + entries + decided + self.settings.len()) as u64
    }

    /// The entries as the call lends them.
    pub(crate) fn entries(&self) -> Vec<types::EntryParam<'_>> {
        self.entries.iter().map(|(key, value)| types::EntryParam { key, value }).collect()
    }

    /// The agents that the calling one may hand to.
    pub(crate) fn delegates(&self) -> Vec<&str> {
        self.call.agent.delegates.iter().map(String::as_str).collect()
    }

    /// The call.
    pub(crate) fn lent<'b>(
        &'b self,
        entries: &'b [types::EntryParam<'b>],
        delegates: &'b [&'b str],
    ) -> wit::ProposedCall<'b> {
        let call = self.call;
        let descriptor = &call.tool.descriptor;
        wit::ProposedCall {
            call_id: call.call_id,
            tool_name: &descriptor.name,
            tool_id: &descriptor.id,
            component_id: call.component_id(),
            category: descriptor.category.as_deref(),
            args: call.arguments.text(),
            run_identity: lent_identity(call.identity),
            agent: lent_agent(call.agent, delegates),
            snapshot: types::Snapshot { revision: call.snapshot.revision(), values: entries },
            calls_before: wit::CallsBefore {
                of_tool: call.calls_before.of_tool,
                in_run: call.calls_before.in_run,
            },
            now_ms: call.now_ms,
            decided: self.decided.as_deref(),
            settings: self.settings,
        }
    }
}
