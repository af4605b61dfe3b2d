//! The context of a call: its run, thread and agent.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;

/// The run, thread and agent that a call belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunIdentity {
    /// The run. A direct call has a run id of its own.
    pub run_id: SmolStr,
    /// The conversation that the run continues.
    pub thread_id: SmolStr,
    /// The agent that runs.
    pub agent_id: SmolStr,
    /// The run whose call started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<SmolStr>,
    /// That run's thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_thread_id: Option<SmolStr>,
    /// The call that started this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call_id: Option<SmolStr>,
    /// The number of ancestors of this run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// Whether the run is part of a loop that its calls may end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_loop: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(depth: &u32) -> bool {
    *depth == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The agent as tools and gates see it: without prompt, model and credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentView {
    /// The agent's id.
    pub id: String,
    /// Its purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The agents to which it may hand the conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegates: Vec<String>,
}

/// A person's decision, as the continued call sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resumption {
    /// The suspension that was answered.
    pub suspension_id: String,
    /// The ticket's action, as it was asked.
    pub action: String,
    /// The ticket's message, as it was asked.
    pub message: String,
    /// The decision's own id.
    pub decision_id: String,
    /// The answer; it fits the ticket's schema.
    pub value: Value,
    /// The person's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The time of the decision, in milliseconds since the Unix epoch.
    pub decided_at_ms: u64,
}
