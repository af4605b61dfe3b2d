//! Agents as the catalog and runs know them, and the limits of their runs.

use crate::backend::Capabilities;
use crate::context::AgentView;
use crate::descriptor::ExecutionPolicy;
use crate::name;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The default timeout of one attempt, in milliseconds, if neither the tool nor the run sets one.
pub const DEFAULT_TIMEOUT_MS: u32 = 15_000;
/// The default number of retries of an idempotent tool.
pub const DEFAULT_RETRIES: u32 = 3;
/// The maximum number of retries that a tool may request.
pub const MAX_RETRIES: u32 = 10;

/// An agent as a run knows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// The view of the agent that tools and gates see.
    pub view: AgentView,
    /// The system prompt.
    #[serde(default)]
    pub instructions: Arc<str>,
    /// The names of the tools that the agent is offered; `*` means all.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The JSON Schema of the answer; `None` if the agent answers in free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Value>>,
    /// Capabilities of the backend that replies for the agent.
    #[serde(default)]
    pub backend: Capabilities,
    /// Whether the agent is a loop of other agents. Their calls may end the loop.
    #[serde(default)]
    pub is_loop: bool,
}

/// An agent to which a run can be handed, or of which a run can be made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownAgent {
    /// The specification of the agent.
    pub spec: Arc<AgentSpec>,
    /// The limits of its runs.
    pub limits: RunLimits,
}

impl AgentSpec {
    /// Returns whether the agent is offered the tool.
    #[must_use]
    pub fn lists(&self, tool_name: &str) -> bool {
        if tool_name == name::TRANSFER {
            return !self.view.delegates.is_empty();
        }
        lists(&self.tools, tool_name)
    }

    /// Returns the text that the model reads before the conversation: the instructions, and the
    /// schema of the answer if there is one.
    #[must_use]
    pub fn system(&self) -> Arc<str> {
        match &self.output {
            None => Arc::clone(&self.instructions),
            Some(schema) => {
                let shape = format!("Answer with JSON alone, of this JSON Schema: {schema}");
                Arc::from([&self.instructions, shape.as_str()].join("\n\n").trim_start())
            }
        }
    }

    /// Returns whether the agent runs other agents instead of asking a model.
    #[must_use]
    pub fn is_made_of_agents(&self) -> bool {
        self.lists(name::RUN_AGENT)
    }

    /// Returns the capabilities that every run of the agent needs of its backend.
    #[must_use]
    pub fn needs(&self) -> Capabilities {
        let has_tools = !self.tools.is_empty() || !self.view.delegates.is_empty();
        Capabilities {
            decisions: has_tools,
            waits: has_tools,
            output: self.output.is_some(),
            ..Capabilities::NONE
        }
    }
}

/// Returns whether a list of tools includes this one. `*` includes every tool except those with
/// which the host itself runs agents.
#[must_use]
pub fn lists(tools: &[String], tool_name: &str) -> bool {
    tools.iter().any(|t| t == tool_name || (t == "*" && !name::runs_agents(tool_name)))
}

/// The limits of a run. A run that reaches a limit ends as `stopped`, with the limit's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Maximum number of model turns.
    pub model_turns: u32,
    /// Maximum number of calls that the model may request.
    pub tool_calls: u32,
    /// Maximum number of tokens read and written; `None` means no limit.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Maximum wall time in milliseconds, without the time spent waiting for a person. It also
    /// bounds a direct call.
    pub wall_ms: u64,
    /// Maximum number of calls of one batch that run at once; at least 1. With 1, every call is a
    /// batch of its own.
    pub concurrency: u32,
    /// Timeout of one attempt in milliseconds, for tools that do not set one.
    pub timeout_ms: u32,
    /// Maximum duration in milliseconds of one attempt, whatever its tool requests. It also bounds
    /// all attempts of one call together, including the pauses between them. The time starts anew
    /// after a call has asked a person, and stands still while the call waits for child runs.
    pub timeout_ceiling_ms: u32,
    /// Maximum size of the conversation that the model sees, in bytes of its text. Older exchanges
    /// are omitted as a whole.
    pub history_bytes: usize,
    /// Maximum number of consecutive turns that request exactly the same calls; at least 2. The
    /// calls of the last of them do not run.
    pub identical_turns: u32,
    /// Tools whose success ends the run.
    #[serde(default)]
    pub stop_on_tools: Vec<String>,
    /// Texts that end the run when the model says one of them verbatim. Calls in the same reply do
    /// not run.
    #[serde(default)]
    pub stop_on_texts: Vec<String>,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            model_turns: 16,
            tool_calls: 256,
            tokens: None,
            wall_ms: 30 * 60 * 1000,
            concurrency: 5,
            timeout_ms: DEFAULT_TIMEOUT_MS,
            timeout_ceiling_ms: 300_000,
            history_bytes: 512 * 1024,
            identical_turns: 4,
            stop_on_tools: Vec::new(),
            stop_on_texts: Vec::new(),
        }
    }
}

impl RunLimits {
    /// Returns the timeout of one attempt: the tool's, or else the run's, but never more than the
    /// operator's maximum.
    #[must_use]
    pub fn attempt_timeout_ms(&self, policy: &ExecutionPolicy) -> u32 {
        let wanted = policy.timeout_ms.filter(|ms| *ms > 0);
        let run = Some(self.timeout_ms).filter(|ms| *ms > 0);
        wanted.or(run).unwrap_or(DEFAULT_TIMEOUT_MS).min(self.timeout_ceiling_ms.max(1))
    }
}

/// Returns how many attempts of a tool may follow those that timed out.
#[must_use]
pub fn max_retries(policy: &ExecutionPolicy) -> u32 {
    if policy.idempotent { policy.max_retries.unwrap_or(DEFAULT_RETRIES).min(MAX_RETRIES) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t1_the_timeout_is_the_tools_else_the_runs_else_15_s_under_the_ceiling() {
        let policy = |timeout_ms| ExecutionPolicy { timeout_ms, ..ExecutionPolicy::default() };
        let limits = RunLimits { timeout_ms: 7_000, timeout_ceiling_ms: 20_000, ..RunLimits::default() };
        for (tool, expected) in
            [(Some(5_000), 5_000), (None, 7_000), (Some(0), 7_000), (Some(u32::MAX), 20_000)]
        {
            assert_eq!(limits.attempt_timeout_ms(&policy(tool)), expected);
        }
        let unset = RunLimits { timeout_ms: 0, ..RunLimits::default() };
        assert_eq!(unset.attempt_timeout_ms(&policy(None)), DEFAULT_TIMEOUT_MS);
    }

    #[test]
    fn t4_only_idempotent_tools_have_retries() {
        let policy = |idempotent, max_retries| ExecutionPolicy {
            idempotent,
            max_retries,
            ..ExecutionPolicy::default()
        };
        assert_eq!(max_retries(&policy(false, Some(5))), 0);
        assert_eq!(max_retries(&policy(true, None)), 3);
        assert_eq!(max_retries(&policy(true, Some(0))), 0);
        assert_eq!(max_retries(&policy(true, Some(99))), 10);
    }
}
