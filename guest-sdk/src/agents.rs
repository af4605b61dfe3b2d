//! Delegating work to another agent from within a call.

use crate::error::ToolError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A request for a child run: the agent, its messages and its initial state.
///
/// Each delegate is granted by name, with the keys that may be seeded and exported. The
/// child is identified by this call and the position of this request among the call's
/// requests: a call that is resumed or retried and makes the request again gets the
/// same child.
///
/// ```
/// use tollgate_sdk::{ChildOutcome, ChildRun, Context, ToolError, tool};
///
/// /// Has a text translated.
/// #[tool]
/// fn translate(text: &str, ctx: &Context) -> Result<String, ToolError> {
///     let child = ChildRun::new("translator").with_user_message(text);
///     let outcome = ctx.run_child(child)?.completed()?;
///     Ok(outcome.response.unwrap_or_default())
/// }
///
/// let ctx = Context::for_test().with_child(Ok(ChildOutcome::answered("Guten Tag")));
/// assert_eq!(translate("Good day", &ctx)?, "Guten Tag");
/// # Ok::<(), ToolError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChildRun {
    /// The agent to run.
    pub agent_id: String,
    /// The messages that start the child's thread.
    pub messages: Vec<ChildMessage>,
    /// Full names of keys with their initial values. A key that the child does not
    /// register makes it fail before it starts.
    pub seed: Vec<(String, Value)>,
    /// Full names of the keys to return.
    pub exports: Vec<String>,
    /// How much of the child's text this call's clients see.
    pub streaming: Streaming,
}

/// One message of the thread that a child starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildMessage {
    /// The message's author.
    pub role: Role,
    /// The message.
    pub text: String,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user.
    User,
    /// The agent.
    Assistant,
}

/// The part of a child's text that a call's clients see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Streaming {
    /// Nothing.
    #[default]
    Silent,
    /// The child's text is this call's output; errors arrive wrapped as text.
    Passthrough,
    /// Like `Passthrough`, with the child's errors as errors.
    PassthroughRawErrors,
}

impl ChildRun {
    /// Creates a request for a silent child of this agent, without messages.
    pub fn new(agent_id: impl Into<String>) -> Self {
        Self {
            agent_id: agent_id.into(),
            messages: Vec::new(),
            seed: Vec::new(),
            exports: Vec::new(),
            streaming: Streaming::Silent,
        }
    }

    /// Adds a message from the user.
    #[must_use]
    pub fn with_user_message(self, text: impl Into<String>) -> Self {
        self.with_message(Role::User, text)
    }

    /// Adds a message of this author.
    #[must_use]
    pub fn with_message(mut self, role: Role, text: impl Into<String>) -> Self {
        self.messages.push(ChildMessage { role, text: text.into() });
        self
    }

    /// Sets the initial value of a key. A value that cannot be written as JSON is
    /// `null`.
    #[must_use]
    pub fn with_seed(mut self, key: impl Into<String>, value: impl Serialize) -> Self {
        self.seed.push((key.into(), serde_json::to_value(value).unwrap_or_default()));
        self
    }

    /// Adds a key to return.
    #[must_use]
    pub fn with_export(mut self, key: impl Into<String>) -> Self {
        self.exports.push(key.into());
        self
    }

    /// Sets how much of the child's text clients see.
    #[must_use]
    pub fn with_streaming(mut self, streaming: Streaming) -> Self {
        self.streaming = streaming;
        self
    }
}

/// The end of a child, or its question to a person. An incomplete child is an outcome and not
/// an error: the tool decides how to continue.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChildOutcome {
    /// The child's run.
    pub run_id: String,
    /// How it ended.
    pub status: ChildStatus,
    /// The child's last text.
    pub response: Option<String>,
    /// The text of all its replies, one after another, as it streamed them.
    pub streamed: String,
    /// Structured output, if the agent declares a schema for it.
    pub output: Option<Value>,
    /// The number of model turns.
    pub steps: u32,
    /// The final values of the exported run-scoped keys; `None` if the agent's backend
    /// has no state.
    pub state: Option<Vec<(String, Value)>>,
    /// The final values of the exported thread-scoped keys; `None` as for `state`.
    pub thread_state: Option<Vec<(String, Value)>>,
}

/// The status of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildStatus {
    /// It answered.
    Completed,
    /// It waits for more input.
    WaitingInput(Option<String>),
    /// It waits for someone to sign in.
    WaitingAuth(Option<String>),
    /// It waits for a person. To wait with it, return
    /// [`ToolResult::suspended`](crate::ToolResult::suspended): the host shows the
    /// child's own question.
    Suspended(Option<String>),
    /// It failed, for this reason.
    Failed(String),
    /// It was cancelled.
    Cancelled,
    /// It ran out of time.
    Timeout,
}

impl ChildOutcome {
    /// Creates a completed child with this text, for tests.
    pub fn answered(response: impl Into<String>) -> Self {
        let response = response.into();
        Self {
            run_id: "child-1".to_owned(),
            status: ChildStatus::Completed,
            streamed: response.clone(),
            response: Some(response),
            output: None,
            steps: 1,
            state: None,
            thread_state: None,
        }
    }

    /// Sets the status, for tests.
    #[must_use]
    pub fn with_status(mut self, status: ChildStatus) -> Self {
        self.status = status;
        self
    }

    /// Sets the structured output, for tests.
    #[must_use]
    pub fn with_output(mut self, output: Value) -> Self {
        self.output = Some(output);
        self
    }

    /// Returns this outcome if the child completed, and otherwise an error that states
    /// how it ended.
    pub fn completed(self) -> Result<Self, ToolError> {
        let how = match &self.status {
            ChildStatus::Completed => return Ok(self),
            ChildStatus::WaitingInput(what) => waits("waits for input", what.as_deref()),
            ChildStatus::WaitingAuth(what) => waits("waits for a sign-in", what.as_deref()),
            ChildStatus::Suspended(what) => waits("waits for a person", what.as_deref()),
            ChildStatus::Failed(reason) => format!("failed: {reason}"),
            ChildStatus::Cancelled => "was cancelled".to_owned(),
            ChildStatus::Timeout => "ran out of time".to_owned(),
        };
        Err(ToolError::execution_failed(format!("The child agent {how}.")))
    }

    /// Returns the structured output as a `T`.
    pub fn output_as<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        let output = self.output.clone().unwrap_or_default();
        serde_json::from_value(output).map_err(|error| {
            ToolError::execution_failed(format!("The child agent's output is of another shape: {error}."))
        })
    }
}

fn waits(how: &str, what: Option<&str>) -> String {
    match what {
        Some(what) => format!("{how}: {what}"),
        None => how.to_owned(),
    }
}

/// The reason why a child could not be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildError {
    /// No agent with this id is configured.
    AgentNotFound(String),
    /// The agent, or one of the keys to seed or export, is not granted.
    NotGranted(String),
    /// The child does not register a seeded key, or rejects its value.
    BadSeed(String),
    /// The features that the request needs and the agent's backend lacks.
    Unsupported(Vec<String>),
    /// The child would exceed the maximum depth; this is the depth it would have had.
    TooDeep(u32),
    /// The child could not be run for another reason.
    ExecutionFailed(String),
}

impl From<ChildError> for ToolError {
    fn from(error: ChildError) -> Self {
        match error {
            ChildError::AgentNotFound(agent) => Self::NotFound(format!("There is no agent `{agent}`.")),
            ChildError::NotGranted(what) => {
                Self::Denied(format!("`{what}` is not granted to this component."))
            }
            ChildError::BadSeed(what) => {
                Self::ExecutionFailed(format!("The child agent refuses its first state: {what}."))
            }
            ChildError::Unsupported(what) => Self::ExecutionFailed(format!(
                "The child agent's backend cannot do what is asked: {}.",
                what.join(", ")
            )),
            ChildError::TooDeep(depth) => Self::ExecutionFailed(format!(
                "A child agent at depth {depth} is too deep: agents nest at most 4 levels."
            )),
            ChildError::ExecutionFailed(reason) => Self::ExecutionFailed(reason),
        }
    }
}
