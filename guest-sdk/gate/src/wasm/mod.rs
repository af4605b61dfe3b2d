//! The component's side of the contract, without the standard library: what that
//! brings imports, and a gate imports nothing.

mod bump;

use crate::call::{AgentView, CallsBefore, ProposedCall, RunIdentity};
use crate::gate::Gate;
use crate::verdict::{ResumeMode, SuppliedResult, Ticket, Verdict};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use bindings::exports::tollgate::tool::gate as wit;
use bindings::tollgate::tool::types;
use core::marker::PhantomData;

/// The contract as wit-bindgen writes it.
#[allow(missing_docs, unsafe_code, unreachable_pub, clippy::all)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "gate-component",
        pub_export_macro: true,
        default_bindings_module: "tollgate_gate::private::bindings",
    });
}

/// A gate as the host sees it.
pub struct Exported<G>(PhantomData<G>);

impl<G: Gate> wit::Guest for Exported<G> {
    fn describe() -> wit::GateDescriptor {
        wit::GateDescriptor {
            id: G::ID.to_owned(),
            description: G::DESCRIPTION.to_owned(),
            reads: G::READS.iter().map(|key| (*key).to_owned()).collect(),
        }
    }

    fn check_settings(settings: String) -> Result<(), String> {
        let settings = read::<G>(&settings)?;
        G::check(&settings).map_err(ToOwned::to_owned)
    }

    fn judge(call: wit::ProposedCall) -> wit::Verdict {
        match read::<G>(&call.settings) {
            Ok(settings) => G::judge(&call.into(), &settings).into(),
            Err(why) => wit::Verdict::Deny(format!("the gate's settings are not what they were: {why}")),
        }
    }
}

fn read<G: Gate>(settings: &str) -> Result<G::Settings, String> {
    serde_json::from_str(settings).map_err(|why| why.to_string())
}

impl From<wit::ProposedCall> for ProposedCall {
    fn from(call: wit::ProposedCall) -> Self {
        // The host writes JSON that can be read; what could not be is `null`.
        let parse = |text: String| serde_json::from_str(&text).unwrap_or_default();
        Self {
            call_id: call.call_id,
            tool_name: call.tool_name,
            tool_id: call.tool_id,
            component_id: call.component_id,
            category: call.category,
            args: parse(call.args),
            identity: call.run_identity.into(),
            agent: AgentView {
                id: call.agent.id,
                description: call.agent.description,
                delegates: call.agent.delegates,
            },
            revision: call.snapshot.revision,
            calls_before: CallsBefore {
                of_tool: call.calls_before.of_tool,
                in_run: call.calls_before.in_run,
            },
            now_ms: call.now_ms,
            decided: call.decided.map(parse),
            state: call.snapshot.values.into_iter().map(|entry| (entry.key, entry.value)).collect(),
        }
    }
}

impl From<types::RunIdentity> for RunIdentity {
    fn from(identity: types::RunIdentity) -> Self {
        Self {
            run_id: identity.run_id,
            thread_id: identity.thread_id,
            agent_id: identity.agent_id,
            parent_run_id: identity.parent_run_id,
            parent_thread_id: identity.parent_thread_id,
            parent_call_id: identity.parent_call_id,
        }
    }
}

impl From<Verdict> for wit::Verdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Block(reason) => Self::Block(reason),
            Verdict::Deny(reason) => Self::Deny(reason),
            Verdict::Suspend(ticket) => Self::Suspend(ticket.into()),
            Verdict::SetResult(result) => Self::SetResult(result.into()),
            Verdict::Allow => Self::Allow,
        }
    }
}

impl From<Ticket> for types::SuspendTicket {
    fn from(ticket: Ticket) -> Self {
        Self {
            action: ticket.action,
            message: ticket.message,
            parameters: ticket.parameters.to_string(),
            response_schema: ticket.response_schema.map(|schema| schema.to_string()),
            resume_mode: match ticket.resume_mode {
                ResumeMode::ReplayToolCall => types::ResumeMode::ReplayToolCall,
                ResumeMode::UseDecisionAsToolResult => types::ResumeMode::UseDecisionAsToolResult,
                ResumeMode::PassDecisionToTool => types::ResumeMode::PassDecisionToTool,
            },
        }
    }
}

impl From<SuppliedResult> for types::ToolResult {
    fn from(result: SuppliedResult) -> Self {
        Self {
            status: if result.is_error { types::ToolStatus::Error } else { types::ToolStatus::Success },
            data: result.data.to_string(),
            message: result.message,
        }
    }
}
