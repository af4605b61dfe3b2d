//! Handing work to another agent, from within a call.

use crate::error::ToolError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A child run: which agent, what it is told, what state it begins with.
///
/// Each delegate is granted by name, with the keys that may be seeded and
/// exported. The child belongs to this call and to the place of this request
/// among the call's requests: a call that is resumed or retried and asks again
/// gets the same child.
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
    /// The conversation that it begins with.
    pub messages: Vec<ChildMessage>,
    /// Whole names of keys, with the values that they begin with. A key that the
    /// child does not register fails it before it starts.
    pub seed: Vec<(String, Value)>,
    /// Whole names of the keys to hand back.
    pub exports: Vec<String>,
    /// What this call's clients see of the child's text.
    pub streaming: Streaming,
}

/// One message of the conversation that a child begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub text: String,
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The one who asks.
    User,
    /// The agent.
    Assistant,
}

/// What a call's clients see of its child's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Streaming {
    /// Nothing.
    #[default]
    Silent,
    /// It is this call's output; errors arrive wrapped as text.
    Passthrough,
    /// The same, with the child's errors as errors.
    PassthroughRawErrors,
}

impl ChildRun {
    /// A child of this agent, silent and without messages.
    pub fn new(agent_id: impl Into<String>) -> Self {
        Self {
            agent_id: agent_id.into(),
            messages: Vec::new(),
            seed: Vec::new(),
            exports: Vec::new(),
            streaming: Streaming::Silent,
        }
    }

    /// Asks this.
    #[must_use]
    pub fn with_user_message(self, text: impl Into<String>) -> Self {
        self.with_message(Role::User, text)
    }

    /// Goes on from this.
    #[must_use]
    pub fn with_message(mut self, role: Role, text: impl Into<String>) -> Self {
        self.messages.push(ChildMessage { role, text: text.into() });
        self
    }

    /// Begins with this value of the key. What cannot be written as JSON is `null`.
    #[must_use]
    pub fn with_seed(mut self, key: impl Into<String>, value: impl Serialize) -> Self {
        self.seed.push((key.into(), serde_json::to_value(value).unwrap_or_default()));
        self
    }

    /// Hands this key back.
    #[must_use]
    pub fn with_export(mut self, key: impl Into<String>) -> Self {
        self.exports.push(key.into());
        self
    }

    /// Shows the child's text.
    #[must_use]
    pub fn with_streaming(mut self, streaming: Streaming) -> Self {
        self.streaming = streaming;
        self
    }
}

/// How a child ended, or what it waits for. A child that does not complete is an
/// outcome: the tool decides what follows.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChildOutcome {
    /// The child's run.
    pub run_id: String,
    /// How it ended.
    pub status: ChildStatus,
    /// The child's last text.
    pub response: Option<String>,
    /// Structured output, where the agent declares a schema for it.
    pub output: Option<Value>,
    /// The model turns that it took.
    pub steps: u32,
    /// The exported run-scoped keys as they ended; none where the agent's
    /// backend has no state.
    pub state: Option<Vec<(String, Value)>>,
    /// The exported thread-scoped keys, likewise.
    pub thread_state: Option<Vec<(String, Value)>>,
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildStatus {
    /// It answered.
    Completed,
    /// It waits for more input.
    WaitingInput(Option<String>),
    /// It waits for someone to sign in.
    WaitingAuth(Option<String>),
    /// It waits for a person. To wait with it, return
    /// [`ToolResult::suspended`](crate::ToolResult::suspended): the child's own
    /// question is shown.
    Suspended(Option<String>),
    /// It failed, for this reason.
    Failed(String),
    /// It was cancelled.
    Cancelled,
    /// Its time was up.
    Timeout,
}

impl ChildOutcome {
    /// A child that completed with this text, for tests.
    pub fn answered(response: impl Into<String>) -> Self {
        Self {
            run_id: "child-1".to_owned(),
            status: ChildStatus::Completed,
            response: Some(response.into()),
            output: None,
            steps: 1,
            state: None,
            thread_state: None,
        }
    }

    /// Ended in this way, for tests.
    #[must_use]
    pub fn with_status(mut self, status: ChildStatus) -> Self {
        self.status = status;
        self
    }

    /// Handed back this structured output, for tests.
    #[must_use]
    pub fn with_output(mut self, output: Value) -> Self {
        self.output = Some(output);
        self
    }

    /// This outcome if the child completed, and an error that says how it ended
    /// if it did not.
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

    /// The structured output as a `T`.
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

/// Why there is no child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildError {
    /// No agent of this id is configured.
    AgentNotFound(String),
    /// The agent, or one of the keys to seed or export, is not granted.
    NotGranted(String),
    /// A seeded key that the child does not register, or a value that it refuses.
    BadSeed(String),
    /// What the request needs and the agent's backend lacks, all of it.
    Unsupported(Vec<String>),
    /// The depth that this child would have had.
    TooDeep(u32),
    /// It could not be run for another reason, in words.
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
                "A child agent at depth {depth} is too deep: at most 4 stand below one another."
            )),
            ChildError::ExecutionFailed(reason) => Self::ExecutionFailed(reason),
        }
    }
}
