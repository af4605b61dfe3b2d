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
    /// The principal on whose behalf the run works; `None` if it was started without one, such as
    /// on the command line. Guests do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<SmolStr>,
    /// Whether another agent asked for the run, on behalf of the principal. The principal then does
    /// not answer the questions of gates. Guests do not see it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked_by_agent: bool,
    /// The number of ancestors of this run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// Whether the run is part of a loop that its calls may end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_loop: bool,
}

impl RunIdentity {
    /// Returns the thread's id as its principal and guests know it. A principal's threads are
    /// stored under the principal's name.
    #[must_use]
    pub fn client_thread_id(&self) -> &str {
        client_thread_id(&self.thread_id, self.principal.as_deref())
    }

    /// Returns the parent's thread id as guests know it.
    #[must_use]
    pub fn client_parent_thread_id(&self) -> Option<&str> {
        Some(client_thread_id(self.parent_thread_id.as_deref()?, self.principal.as_deref()))
    }
}

/// Returns a stored thread id without the name of its principal.
#[must_use]
pub fn client_thread_id<'a>(thread_id: &'a str, principal: Option<&str>) -> &'a str {
    let own = principal.and_then(|name| thread_id.strip_prefix(name)?.strip_prefix('/'));
    own.unwrap_or(thread_id)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(depth: &u32) -> bool {
    *depth == 0
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

/// A person's decision, as the gates see it. The tool sees it only if the question was its own.
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
