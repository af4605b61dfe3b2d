//! The inputs of a run: its identity, its limits and a person's decisions.

use crate::agents::{AgentSpec, RunLimits};
use crate::context::RunIdentity;
use crate::message::Message;
use crate::state::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;
use std::sync::Arc;

/// The maximum number of reruns of one call after conflicts, and also after the end of its process.
/// Neither counts against the retries after a timeout.
pub const MAX_RERUNS: u32 = 16;
/// The pause before a retry, in milliseconds.
pub const RETRY_PAUSE_MS: u64 = 500;
/// The maximum number of questions that one call may ask a person.
pub const MAX_SUSPENSIONS: u32 = 16;
/// The maximum number of continuations of a reply that was cut off by its length.
pub const MAX_CONTINUATIONS: u32 = 2;

/// The specification of a run, recorded as its first event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The ids of the run, its thread and its agent.
    pub identity: RunIdentity,
    /// The agent that runs.
    pub agent: Arc<AgentSpec>,
    /// The limits of the run.
    pub limits: RunLimits,
    /// The task of the run.
    pub task: Task,
    /// Whether the run continues when no client listens to its events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
}

impl RunSpec {
    /// Returns whether the run offers the tool. A direct call names its tool itself, and the gate
    /// decides who may call it. The model sees only the tools that its agent lists, so an unlisted
    /// tool does not exist for it.
    #[must_use]
    pub fn offers(&self, tool_name: &str) -> bool {
        self.agent.lists(tool_name) || matches!(self.task, Task::Call { .. })
    }
}

/// The task of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Answer this message, in as many model turns as that takes.
    Prompt(String),
    /// Make this one call, without a model.
    Call {
        /// The tool's name.
        tool_name: SmolStr,
        /// The arguments as the text that was entered.
        arguments: Arc<str>,
    },
}

/// The conversation and state of the thread on which a run starts.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// The conversation so far. Every call in it has its answer.
    pub messages: Arc<Vec<Message>>,
    /// The thread's keys.
    pub state: State,
}

/// A person's answer to a suspended call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The id of the decision. Sending the same decision twice changes nothing. If the id is empty,
    /// the host generates one.
    pub id: String,
    /// The id of the call or suspension that it answers.
    pub target: String,
    /// The decision itself.
    pub answer: DecisionAnswer,
    /// The reason, in the person's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The principal who decided; `None` if it was decided without one, such as on the command
    /// line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whether the principal sent an API key, which programs use, rather than the cookie of a session. `false`
    /// in records of earlier versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_key: bool,
    /// The time of the decision, in milliseconds since the Unix epoch; 0 means the time at which
    /// the host receives it.
    pub at_ms: u64,
}

impl Decision {
    /// Continues the call or suspension with this value, which fits the question.
    #[must_use]
    pub fn resume(target: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(target.into(), DecisionAnswer::Resume(value.into()))
    }

    /// Ends the call without running it.
    #[must_use]
    pub fn cancel(target: impl Into<String>) -> Self {
        Self::new(target.into(), DecisionAnswer::Cancel)
    }

    fn new(target: String, answer: DecisionAnswer) -> Self {
        Self { id: String::new(), target, answer, reason: None, by: None, by_key: false, at_ms: 0 }
    }

    /// Adds a reason for the model and the record.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Names the principal who decides.
    #[must_use]
    pub fn by(mut self, principal: impl Into<String>) -> Self {
        self.by = Some(principal.into());
        self
    }

    /// Sets the id, so that the decision can be sent twice.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }
}

/// A person's choice for a suspended call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionAnswer {
    /// The call continues with this value.
    Resume(Value),
    /// The call ends without running.
    Cancel,
}
