//! Requests to a host.

use serde::Serialize;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tollgate_agent::SmolStr;
use tollgate_agent::message::Message;
use tollgate_agent::run::RunLimits;

/// A prompt for an agent.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The agent.
    pub agent_id: String,
    /// The user's message.
    pub prompt: String,
    /// The conversation to continue; `None` starts a new one.
    pub thread_id: Option<String>,
    /// The conversation that precedes the prompt, for a client that keeps conversations itself.
    /// Only a thread without messages accepts one.
    pub history: Vec<Message>,
    /// The behavior if another run of the thread is active.
    pub busy: Busy,
    /// Whether it continues when no client listens to its events. Otherwise it is cancelled 10
    /// seconds after the last client has left; see [`Host::follow`](crate::Host::follow).
    pub detached: bool,
    /// The principal on whose behalf it runs. The record and native gates know it, guests do not.
    pub principal: Option<SmolStr>,
    /// Whether another agent asks for the run, on behalf of the principal. It is part of the record.
    pub asked_by_agent: bool,
    /// The id of the new run; `None` generates one. If a run has this id already, the request
    /// fails, so a request that is sent twice with the same id starts one run.
    pub run_id: Option<String>,
    /// Limits of this run in place of its agent's.
    pub options: RunOptions,
}

/// Limits of one run, which replace those of its agent. `None` keeps the agent's limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Maximum number of model turns.
    pub model_turns: Option<u32>,
    /// Maximum number of calls that the model may request.
    pub tool_calls: Option<u32>,
    /// Maximum number of tokens read and written.
    pub tokens: Option<u64>,
    /// Maximum wall time in milliseconds, without the time spent waiting for a person.
    pub wall_ms: Option<u64>,
    /// Timeout of one attempt in milliseconds, for tools that do not set one. The agent's ceiling
    /// for timeouts applies to it.
    pub timeout_ms: Option<u32>,
}

impl RunOptions {
    /// Returns the limits with these options applied.
    pub(super) fn applied_to(&self, limits: &RunLimits) -> RunLimits {
        RunLimits {
            model_turns: self.model_turns.unwrap_or(limits.model_turns),
            tool_calls: self.tool_calls.unwrap_or(limits.tool_calls),
            tokens: self.tokens.or(limits.tokens),
            wall_ms: self.wall_ms.unwrap_or(limits.wall_ms),
            timeout_ms: self.timeout_ms.unwrap_or(limits.timeout_ms),
            ..limits.clone()
        }
    }
}

impl RunRequest {
    /// Creates a prompt that begins a new conversation.
    #[must_use]
    pub fn new(agent_id: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            agent_id: agent_id.into(),
            prompt: prompt.into(),
            thread_id: None,
            history: Vec::new(),
            busy: Busy::Refuse,
            detached: false,
            principal: None,
            asked_by_agent: false,
            run_id: None,
            options: RunOptions::default(),
        }
    }

    /// Sets limits of this run in place of its agent's.
    #[must_use]
    pub fn with_options(mut self, options: RunOptions) -> Self {
        self.options = options;
        self
    }

    /// Makes the run continue when no client listens.
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Continues this conversation.
    #[must_use]
    pub fn on_thread(mut self, thread_id: impl Into<String>) -> Self {
        self.thread_id = Some(thread_id.into());
        self
    }

    /// Puts these messages before the prompt. Every call in them must have its answer.
    #[must_use]
    pub fn with_history(mut self, messages: Vec<Message>) -> Self {
        self.history = messages;
        self
    }
}

/// The behavior if another run of the thread is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// Refuse the new run.
    Refuse,
    /// Wait for the thread's other runs to finish.
    Queue,
}

/// One call without a model.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The tool's name.
    pub tool_name: SmolStr,
    /// The arguments, as JSON text; blank counts as `{}`.
    pub arguments: Arc<str>,
    /// The thread whose state the call reads and changes; `None` creates a new one.
    pub thread_id: Option<String>,
    /// Whether nothing has used that thread before, as with a generated id. Then nothing is read
    /// from the store, so the call sees no state. Its changes are still committed after those of
    /// others, if there are any.
    pub begins_thread: bool,
    /// Ends the call early.
    pub cancel: CancellationToken,
    /// Whether it continues when no client listens to its events; see
    /// [`RunRequest::detached`].
    pub detached: bool,
    /// The principal on whose behalf it runs, as for [`RunRequest::principal`].
    pub principal: Option<SmolStr>,
    /// The id of the new run, as for [`RunRequest::run_id`].
    pub run_id: Option<String>,
}

impl CallRequest {
    /// Creates a call on a thread of its own, with arguments such as a struct or a
    /// [`Value`](serde_json::Value).
    ///
    /// # Errors
    /// The arguments have no representation in JSON, such as a map whose keys are not texts.
    pub fn new(tool_name: impl Into<SmolStr>, arguments: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self::from_json(tool_name, serde_json::to_string(arguments)?))
    }

    /// Creates a call on a thread of its own from the JSON text of its arguments. The call itself
    /// reports a text that is not valid.
    #[must_use]
    pub fn from_json(tool_name: impl Into<SmolStr>, arguments: impl Into<Arc<str>>) -> Self {
        Self {
            tool_name: tool_name.into(),
            arguments: arguments.into(),
            thread_id: None,
            begins_thread: false,
            cancel: CancellationToken::new(),
            detached: false,
            principal: None,
            run_id: None,
        }
    }

    /// Makes the call read and change the state of this thread.
    #[must_use]
    pub fn on_thread(mut self, thread_id: impl Into<String>) -> Self {
        self.thread_id = Some(thread_id.into());
        self
    }

    /// Makes the call begin this thread; see [`begins_thread`](Self::begins_thread).
    #[must_use]
    pub fn on_new_thread(mut self, thread_id: impl Into<String>) -> Self {
        self.begins_thread = true;
        self.on_thread(thread_id)
    }

    /// Returns the thread if it may be stored already.
    pub(super) fn stored_thread(&self) -> Option<&str> {
        self.thread_id.as_deref().filter(|_| !self.begins_thread)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[test]
    fn arguments_are_written_as_json() {
        let request = CallRequest::new("add", &json!({"n": 4})).unwrap();
        assert_eq!(&*request.arguments, r#"{"n":4}"#);
        assert!(CallRequest::new("add", &BTreeMap::from([((1, 2), 3)])).is_err(), "its key is not a text");
        assert_eq!(&*CallRequest::from_json("add", "not JSON").arguments, "not JSON");
    }
}
