//! Requests of a call to other agents, and their outcomes.
//!
//! A child is a run of its own. It is identified by the call that requested it and the
//! position of the request among that call's requests: the same request after a retry or
//! a decision gets the same child.

use crate::message::Message;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The deepest nesting of agents, not counting the first one.
pub const MAX_DEPTH: u32 = 4;
/// The maximum number of children that one call may request.
pub const MAX_CHILDREN: u32 = 64;
/// The maximum number of messages that a child begins with.
pub const MAX_CHILD_MESSAGES: usize = 64;
/// The maximum size of all those messages together, in bytes.
pub const MAX_CHILD_MESSAGES_BYTES: usize = 1024 * 1024;
/// The maximum number of keys that a component's request may seed, and of those that it may export.
pub const MAX_CHILD_KEYS: usize = 1_024;
/// The longest text of a child that its parent receives, in bytes.
pub const MAX_CHILD_TEXT_BYTES: usize = 1024 * 1024;

/// A call's request for a run of another agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildRequest {
    /// The agent.
    pub agent_id: String,
    /// The initial conversation; the last message is the user's.
    pub messages: Vec<Message>,
    /// The child's state before its first step, by key.
    pub seed: Vec<(String, Value)>,
    /// The keys whose final values the parent receives.
    pub exports: Vec<String>,
    /// How much of the child's text the parent's clients see.
    pub streaming: Streaming,
}

impl ChildRequest {
    /// Creates a request that asks an agent one question. It is silent, and has no seed and no exports.
    #[must_use]
    pub fn new(agent_id: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            agent_id: agent_id.into(),
            messages: vec![Message::User(prompt.into())],
            seed: Vec::new(),
            exports: Vec::new(),
            streaming: Streaming::Silent,
        }
    }

    /// Sets the initial value of a key.
    #[must_use]
    pub fn with_seed(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.seed.push((key.into(), value.into()));
        self
    }

    /// Adds a key whose final value the parent receives.
    #[must_use]
    pub fn with_export(mut self, key: impl Into<String>) -> Self {
        self.exports.push(key.into());
        self
    }

    /// Sets how much of the child's text the parent's clients see.
    #[must_use]
    pub fn with_streaming(mut self, streaming: Streaming) -> Self {
        self.streaming = streaming;
        self
    }
}

/// The part of a child's text that the parent's clients see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Streaming {
    /// Nothing.
    #[default]
    Silent,
    /// The text is sent as the call's output; errors arrive wrapped as text.
    Passthrough,
    /// Same as `Passthrough`, but the child's errors arrive as errors.
    PassthroughRawErrors,
}

/// The end of a child, or its question to a person.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildOutcome {
    /// The child's run.
    pub run_id: String,
    /// Its status.
    pub status: ChildStatus,
    /// Its last text.
    pub response: Option<String>,
    /// The text of all its replies, one after another, as it streamed them; at most
    /// [`MAX_CHILD_TEXT_BYTES`].
    pub streamed: String,
    /// Structured output, if its agent declares a schema for it.
    pub output: Option<Value>,
    /// The number of the model's turns.
    pub steps: u32,
    /// The final values of the exported run-scoped keys; `None` if the agent's backend
    /// cannot return state.
    pub state: Option<BTreeMap<String, Arc<Value>>>,
    /// The final values of the exported thread-scoped keys; `None` in the same case.
    pub thread_state: Option<BTreeMap<String, Arc<Value>>>,
    /// Whether one of its calls asked to end the loop that it runs in.
    pub escalated: bool,
}

impl ChildOutcome {
    /// Returns the outcome if the child completed.
    ///
    /// # Errors
    /// A description of its status if it did not complete.
    pub fn completed(self) -> Result<Self, ChildError> {
        match self.status.words() {
            None => Ok(self),
            Some(words) => Err(ChildError::ExecutionFailed(format!("the child agent {words}"))),
        }
    }
}

/// The status of a child. A child that does not complete is an outcome, not an error: the
/// tool decides how to continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChildStatus {
    /// It answered.
    Completed,
    /// It ended by asking for more input.
    WaitingInput(Option<String>),
    /// It ended by asking for a sign-in.
    WaitingAuth(Option<String>),
    /// It waits for a person to decide this.
    Suspended(Option<String>),
    /// It failed, for this reason.
    Failed(String),
    /// It was cancelled.
    Cancelled,
    /// It ran out of time.
    Timeout,
}

impl ChildStatus {
    /// Describes the status for a sentence about the child; `None` if it completed.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let waits = |how: &str, what: &Option<String>| match what {
            Some(what) => format!("{how}: {what}"),
            None => how.to_owned(),
        };
        Some(match self {
            ChildStatus::Completed => return None,
            ChildStatus::WaitingInput(what) => waits("waits for input", what),
            ChildStatus::WaitingAuth(what) => waits("waits for a sign-in", what),
            ChildStatus::Suspended(what) => waits("waits for a person", what),
            ChildStatus::Failed(reason) => format!("failed: {reason}"),
            ChildStatus::Cancelled => "was cancelled".to_owned(),
            ChildStatus::Timeout => "ran out of time".to_owned(),
        })
    }
}

/// The reason why a child could not be started or did not complete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChildError {
    /// No agent of this id is configured.
    #[error("there is no agent \"{0}\"")]
    AgentNotFound(String),
    /// The agent, or one of the keys to seed or export, is not granted.
    #[error("\"{0}\" is not granted")]
    NotGranted(String),
    /// A seeded key that the child does not register, or a value that it refuses.
    #[error("the child agent refuses its first state: {0}")]
    BadSeed(String),
    /// All capabilities that the request needs and the agent's backend lacks.
    #[error("the child agent's backend cannot do what is asked: {}", .0.join(", "))]
    Unsupported(Vec<String>),
    /// The depth that this child would have had.
    #[error("a child agent at depth {0} is too deep: agents nest at most {MAX_DEPTH} levels")]
    TooDeep(u32),
    /// It could not be run or did not complete, for this reason.
    #[error("{0}")]
    ExecutionFailed(String),
}

impl ChildError {
    /// Creates the error for an agent or key that is not granted; its name is cleaned for people.
    #[must_use]
    pub fn not_granted(what: &str) -> Self {
        ChildError::NotGranted(crate::text::clean(what, 140))
    }

    /// Creates the error for a request with more messages, or more text in them, than the limits.
    #[must_use]
    pub fn too_many_messages() -> Self {
        ChildError::ExecutionFailed(format!(
            "a child begins with at most {MAX_CHILD_MESSAGES} messages and {MAX_CHILD_MESSAGES_BYTES} bytes in all"
        ))
    }

    /// Creates the error for a call that has requested as many children as it may.
    #[must_use]
    pub fn too_many_children() -> Self {
        ChildError::ExecutionFailed(format!("one call may run at most {MAX_CHILDREN} children"))
    }
}

/// The keys that a component may pass to another agent, and read from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegateGrant {
    /// Keys that may be set before the child's first step.
    pub seed: BTreeSet<String>,
    /// Keys that may be read from the child.
    pub export: BTreeSet<String>,
}

/// The agents that the tools of one owner may run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Delegates {
    /// No agent.
    #[default]
    None,
    /// These agents, with the keys that may be passed.
    Granted(BTreeMap<String, DelegateGrant>),
    /// Every agent, with every key: code of the embedding program.
    Any,
}

impl Delegates {
    /// Checks that the request stays within the grant.
    ///
    /// # Errors
    /// The first thing that is not granted: the agent, or a key.
    pub fn check(&self, request: &ChildRequest) -> Result<(), ChildError> {
        let Some(grant) = self.to_agent(&request.agent_id)? else { return Ok(()) };
        let seeded = request.seed.iter().map(|(key, _)| key).find(|key| !grant.seed.contains(*key));
        let exported = request.exports.iter().find(|key| !grant.export.contains(*key));
        match seeded.or(exported) {
            Some(key) => Err(ChildError::not_granted(key)),
            None => Ok(()),
        }
    }

    /// Checks the agent alone, before the rest of a request is read.
    ///
    /// # Errors
    /// The agent is not granted.
    pub fn check_agent(&self, agent_id: &str) -> Result<(), ChildError> {
        self.to_agent(agent_id).map(|_| ())
    }

    /// Returns the grant for an agent; `None` if everything is granted.
    fn to_agent(&self, agent_id: &str) -> Result<Option<&DelegateGrant>, ChildError> {
        let grant = match self {
            Delegates::Any => return Ok(None),
            Delegates::None => None,
            Delegates::Granted(agents) => agents.get(agent_id),
        };
        grant.map(Some).ok_or_else(|| ChildError::not_granted(agent_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d3_a_component_seeds_and_exports_what_was_granted_with_the_delegate() {
        let grant =
            DelegateGrant { seed: ["a.brief".to_owned()].into(), export: ["a.found".to_owned()].into() };
        let granted = Delegates::Granted([("scout".to_owned(), grant)].into());
        let asked = || ChildRequest::new("scout", "Look.");
        let denied = |request: ChildRequest, what: &str| {
            assert_eq!(granted.check(&request), Err(ChildError::NotGranted(what.to_owned())));
            assert_eq!(Delegates::Any.check(&request), Ok(()));
        };
        assert_eq!(granted.check_agent("scout"), Ok(()));
        assert_eq!(granted.check_agent("other"), Err(ChildError::NotGranted("other".to_owned())));
        assert_eq!(granted.check(&asked().with_seed("a.brief", 1).with_export("a.found")), Ok(()));
        denied(asked().with_seed("a.found", 1), "a.found");
        denied(asked().with_export("a.brief"), "a.brief");
        denied(ChildRequest::new("other", "Look."), "other");
        assert_eq!(Delegates::None.check(&asked()), Err(ChildError::NotGranted("scout".to_owned())));
    }

    #[test]
    fn d4_the_checked_form_errors_on_anything_but_completion() {
        let outcome = |status| ChildOutcome {
            run_id: "r".to_owned(),
            status,
            response: None,
            streamed: String::new(),
            output: None,
            steps: 1,
            state: None,
            thread_state: None,
            escalated: false,
        };
        assert!(outcome(ChildStatus::Completed).completed().is_ok());
        for status in [
            ChildStatus::Failed("no model".to_owned()),
            ChildStatus::Suspended(None),
            ChildStatus::WaitingInput(Some("which?".to_owned())),
            ChildStatus::WaitingAuth(None),
            ChildStatus::Cancelled,
            ChildStatus::Timeout,
        ] {
            assert!(outcome(status).completed().is_err());
        }
    }
}
