//! Conversion of a gate's questions and answers from and to the host's types.

use super::context::{lent_agent, lent_identity};
use super::generated::of_gates::exports::tollgate::tool::gate as wit;
use super::output::{check_question, check_result, lift_result, lift_ticket, result_bytes, ticket_bytes};
use super::types;
use crate::admission::Slot;
use crate::blocking::{LARGE_BYTES, offload};
use crate::budget::Reservation;
use crate::meter::Stop;
use serde_json::Value;
use std::sync::Arc;
use tollgate_agent::gate::{GateDescriptor, ProposedCall, Verdict};
use tollgate_agent::json;
use tollgate_agent::outcome::Fault;
use tollgate_agent::state::Access;
use tollgate_agent::text::clean;

pub(crate) use super::generated::of_gates::GateComponentPre as GatePre;

/// The maximum length of a verdict's reason, in bytes.
const MAX_REASON_BYTES: usize = 2_000;

/// Reads a gate's descriptor. The error names the part that is not acceptable.
pub(crate) fn lift_gate_descriptor(given: wit::GateDescriptor) -> Result<GateDescriptor, String> {
    GateDescriptor::checked(&given.id, &given.description, given.reads).map_err(|why| why.to_string())
}

/// A verdict with the memory that a large one takes, or the fault in the answer.
type ReadVerdict = Result<(Verdict, Option<Arc<Reservation>>), Fault>;

/// Reads a gate's answer; a large one is read on a thread that blocks no call. Its memory is
/// charged to the slot before anything is parsed.
///
/// # Errors
/// Fails if the question or the host has no room for the parsed form.
pub(crate) async fn read_verdict(
    gate: &str,
    given: wit::Verdict,
    slot: &Arc<Slot>,
) -> wasmtime::Result<ReadVerdict> {
    if verdict_bytes(&given) <= LARGE_BYTES {
        return Ok(read(gate, given, slot)?);
    }
    let (gate, slot) = (gate.to_owned(), Arc::clone(slot));
    Ok(offload(move || read(&gate, given, &slot)).await?)
}

fn read(gate: &str, given: wit::Verdict, slot: &Slot) -> Result<ReadVerdict, Stop> {
    let held = match &given {
        wit::Verdict::SetResult(result) => check_result(gate, result),
        wit::Verdict::Suspend(ticket) => check_question(gate, ticket),
        // Its reason is truncated.
        wit::Verdict::Block(_) | wit::Verdict::Deny(_) | wit::Verdict::Allow => Ok(0),
    };
    let held = match held {
        Ok(held) => held,
        Err(fault) => return Ok(Err(fault)),
    };
    slot.charge(held)?;
    let verdict = lift_verdict(gate, given);
    Ok(verdict.map(|verdict| (verdict, slot.hand_over(held).map(Arc::new))))
}

/// Returns how many bytes of text a gate answered.
fn verdict_bytes(given: &wit::Verdict) -> u64 {
    let bytes = match given {
        wit::Verdict::Block(reason) | wit::Verdict::Deny(reason) => reason.len(),
        wit::Verdict::Suspend(ticket) => ticket_bytes(ticket),
        wit::Verdict::SetResult(result) => result_bytes(result),
        wit::Verdict::Allow => 0,
    };
    bytes as u64
}

fn lift_verdict(gate: &str, given: wit::Verdict) -> Result<Verdict, Fault> {
    Ok(match given {
        wit::Verdict::Block(reason) => Verdict::Block(clean(&reason, MAX_REASON_BYTES)),
        wit::Verdict::Deny(reason) => Verdict::Deny(clean(&reason, MAX_REASON_BYTES)),
        wit::Verdict::Suspend(ticket) => Verdict::Suspend(Box::new(lift_ticket(gate, ticket)?)),
        wit::Verdict::SetResult(result) => Verdict::SetResult(Box::new(lift_result(gate, result)?)),
        wit::Verdict::Allow => Verdict::Allow,
    })
}

/// Returns how many bytes of a call a gate is shown, without writing them to memory. Counting ends beyond
/// `most_bytes`.
pub(crate) fn shown_bytes(call: &ProposedCall<'_>, access: &Access, settings: &str, most_bytes: u64) -> u64 {
    let decided = call.decided.map_or(0, json::written_bytes);
    let mut bytes = (call.arguments.text().len() + settings.len()).saturating_add(decided) as u64;
    for (key, value) in call.snapshot.visible(call.keys, access) {
        if bytes > most_bytes {
            break;
        }
        bytes = bytes.saturating_add(key.len().saturating_add(json::written_bytes(value)) as u64);
    }
    bytes
}

/// The parts of a call that a gate sees, serialized so that they can be lent.
pub(crate) struct GateCallView<'a> {
    call: &'a ProposedCall<'a>,
    settings: &'a str,
    entries: Vec<(&'a str, String)>,
    decided: Option<String>,
}

impl<'a> GateCallView<'a> {
    pub(crate) fn of(call: &'a ProposedCall<'a>, access: &'a Access, settings: &'a str) -> Self {
        let visible = call.snapshot.visible(call.keys, access);
        Self {
            call,
            settings,
            entries: visible.map(|(key, value)| (key, value.to_string())).collect(),
            decided: call.decided.map(Value::to_string),
        }
    }

    /// Returns the entries as the call lends them.
    pub(crate) fn entries(&self) -> Vec<types::EntryParam<'_>> {
        self.entries.iter().map(|(key, value)| types::EntryParam { key, value }).collect()
    }

    /// Returns the agents to which the calling one may delegate.
    pub(crate) fn delegates(&self) -> Vec<&str> {
        self.call.agent.delegates.iter().map(String::as_str).collect()
    }

    /// Returns the call.
    pub(crate) fn to_wit<'b>(
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
