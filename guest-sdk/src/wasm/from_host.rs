//! Conversions from the contract's types to the SDK's.

use super::bindings::tollgate::tool::types as wit;
use crate::context::Facts;
use crate::identity::{AgentView, Resumption, RunIdentity};

impl From<wit::ToolCallContext> for Facts {
    fn from(ctx: wit::ToolCallContext) -> Self {
        Self {
            call_id: ctx.call_id,
            tool_name: ctx.tool_name,
            identity: ctx.run_identity.into(),
            agent: ctx.agent.into(),
            revision: ctx.snapshot.revision,
            snapshot: ctx.snapshot.values.into_iter().map(|entry| (entry.key, entry.value)).collect(),
            deadline_ms: ctx.deadline_ms,
            attempt: ctx.attempt,
            resume: ctx.resume.map(Into::into),
        }
    }
}

impl From<wit::RunIdentity> for RunIdentity {
    fn from(identity: wit::RunIdentity) -> Self {
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

impl From<wit::AgentView> for AgentView {
    fn from(agent: wit::AgentView) -> Self {
        Self { id: agent.id, description: agent.description, delegates: agent.delegates }
    }
}

impl From<wit::Resumption> for Resumption {
    fn from(resumption: wit::Resumption) -> Self {
        Self {
            suspension_id: resumption.suspension_id,
            action: resumption.action,
            message: resumption.message,
            decision_id: resumption.decision_id,
            reason: resumption.reason,
            decided_at_ms: resumption.decided_at_ms,
            value: resumption.value,
        }
    }
}
