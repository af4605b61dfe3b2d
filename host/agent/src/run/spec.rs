//! What a run is given: whose it is, what bounds it, and what a person decides.

use crate::backend::Capabilities;
use crate::context::{AgentView, RunIdentity};
use crate::descriptor::ExecutionPolicy;
use crate::message::Message;
use crate::name;
use crate::state::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;
use std::sync::Arc;

/// The time of one attempt where neither tool nor run says another, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: u32 = 15_000;
/// Retries of an idempotent tool that does not say how many.
pub const DEFAULT_RETRIES: u32 = 3;
/// The most retries that a tool may ask for.
pub const MAX_RETRIES: u32 = 10;
/// How often one call runs again because of a conflict, and how often because its process
/// ended. Neither uses up the retries after a timeout.
pub const MAX_RERUNS: u32 = 16;
/// The pause before a retry, in milliseconds.
pub const RETRY_PAUSE_MS: u64 = 500;
/// How often one call may ask a person.
pub const MAX_SUSPENSIONS: u32 = 16;
/// How often a reply that was cut off by its length is continued.
pub const MAX_CONTINUATIONS: u32 = 2;

/// What a run is: recorded as its first event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// Which run, thread and agent.
    pub identity: RunIdentity,
    /// The agent that runs.
    pub agent: Arc<AgentSpec>,
    /// What bounds it.
    pub limits: RunLimits,
    /// What is to be done.
    pub task: Task,
}

impl RunSpec {
    /// Whether the run offers the tool. A direct call names its tool itself, and
    /// the gate says who may call what; the model is told of what its agent lists,
    /// so what is not listed does not exist for it.
    #[must_use]
    pub fn offers(&self, tool_name: &str) -> bool {
        self.agent.lists(tool_name) || matches!(self.task, Task::Call { .. })
    }
}

/// What a run is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Answer this message, with as many turns of the model as that takes.
    Prompt(String),
    /// Make this one call, without a model.
    Call {
        /// The tool's name.
        tool_name: SmolStr,
        /// The arguments as text, as they were typed.
        arguments: Arc<str>,
    },
}

/// An agent as a run knows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// What tools and gates see of it.
    pub view: AgentView,
    /// The system prompt.
    #[serde(default)]
    pub instructions: Arc<str>,
    /// The names of the tools that it is offered; `*` is all.
    #[serde(default)]
    pub tools: Vec<String>,
    /// JSON Schema of its answer; none where it answers in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Value>>,
    /// What whoever replies for it can do.
    #[serde(default)]
    pub backend: Capabilities,
    /// Whether it is a loop of other agents, which their calls may end.
    #[serde(default)]
    pub is_loop: bool,
}

/// An agent that a run can be handed to or made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownAgent {
    /// What it is.
    pub spec: Arc<AgentSpec>,
    /// What bounds its runs.
    pub limits: RunLimits,
}

impl AgentSpec {
    /// Whether the agent is offered the tool.
    #[must_use]
    pub fn lists(&self, tool_name: &str) -> bool {
        if tool_name == name::TRANSFER {
            return !self.view.delegates.is_empty();
        }
        lists(&self.tools, tool_name)
    }

    /// What its model reads before the conversation: the instructions, and the shape
    /// of the answer where it has one.
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

    /// Whether it runs other agents instead of asking a model.
    #[must_use]
    pub fn is_made_of_agents(&self) -> bool {
        self.lists(name::RUN_AGENT)
    }

    /// What a run of it needs of its backend, whatever it is asked.
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

/// Whether a list of tools has this one. `*` is every tool but those with which
/// the host runs agents for itself.
#[must_use]
pub fn lists(tools: &[String], tool_name: &str) -> bool {
    tools.iter().any(|t| t == tool_name || (t == "*" && tool_name != name::RUN_AGENT))
}

/// What bounds a run. At a limit it ends as `stopped`, with the limit's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Turns of the model.
    pub model_turns: u32,
    /// Calls that the model may ask for, in all.
    pub tool_calls: u32,
    /// Tokens read and written, in all; none means no limit.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Wall time in milliseconds, time spent waiting for a person not counted. It bounds a
    /// direct call as well.
    pub wall_ms: u64,
    /// Calls of one batch that run at once; at least 1. With 1, every call is a
    /// batch.
    pub concurrency: u32,
    /// Milliseconds for one attempt of a tool that does not say.
    pub timeout_ms: u32,
    /// The most milliseconds for one attempt, whatever a tool says, and for all attempts of
    /// one call together, with the pauses between them. A call that asked a person begins
    /// anew; the wait for child runs does not count.
    pub timeout_ceiling_ms: u32,
    /// How much of the conversation the model is shown, in bytes of its text; older
    /// exchanges are left out, whole.
    pub history_bytes: usize,
    /// Turns in a row that ask for the very same calls: the last of them is not
    /// run. At least 2.
    pub identical_turns: u32,
    /// The run ends once one of these tools succeeded.
    #[serde(default)]
    pub stop_on_tools: Vec<String>,
    /// The run ends once the model says one of these texts, letter by letter; calls
    /// beside it are not run.
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
    /// How long one attempt may take: the tool's time, else the run's, never
    /// above the operator's ceiling.
    #[must_use]
    pub fn attempt_timeout_ms(&self, policy: &ExecutionPolicy) -> u32 {
        let wanted = policy.timeout_ms.filter(|ms| *ms > 0);
        let run = Some(self.timeout_ms).filter(|ms| *ms > 0);
        wanted.or(run).unwrap_or(DEFAULT_TIMEOUT_MS).min(self.timeout_ceiling_ms.max(1))
    }
}

/// How many attempts of a tool may follow ones that timed out.
#[must_use]
pub fn max_retries(policy: &ExecutionPolicy) -> u32 {
    if policy.idempotent { policy.max_retries.unwrap_or(DEFAULT_RETRIES).min(MAX_RETRIES) } else { 0 }
}

/// What the thread brings along: what was said, and the state as it stands.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// The conversation so far; every call in it has its answer.
    pub messages: Arc<Vec<Message>>,
    /// The thread's keys.
    pub state: State,
}

/// A person's answer to a suspended call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The decision's own id: the same decision twice changes nothing. Where it is
    /// empty, the host makes one.
    pub id: String,
    /// The call, or the suspension, that it answers.
    pub target: String,
    /// What is decided.
    pub answer: DecisionAnswer,
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When, in milliseconds since the Unix epoch; 0 for when the host hears of it.
    pub at_ms: u64,
}

impl Decision {
    /// The call, or the suspension, goes on with this value, which fits what was asked.
    #[must_use]
    pub fn resume(target: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(target.into(), DecisionAnswer::Resume(value.into()))
    }

    /// The call ends without running.
    #[must_use]
    pub fn cancel(target: impl Into<String>) -> Self {
        Self::new(target.into(), DecisionAnswer::Cancel)
    }

    fn new(target: String, answer: DecisionAnswer) -> Self {
        Self { id: String::new(), target, answer, reason: None, at_ms: 0 }
    }

    /// Says why, for the model and the record.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Gives it an id, so that it may be sent twice.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }
}

/// What a person decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionAnswer {
    /// The call goes on with this value.
    Resume(Value),
    /// The call ends without running.
    Cancel,
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
