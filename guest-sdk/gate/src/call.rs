//! The call that a gate is asked about.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A call that a model, or a person directly, asked for. Its arguments fit the
/// tool's schema, and are what the tool gets if it runs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProposedCall {
    /// Unique within the run.
    pub call_id: String,
    /// The name that the model called.
    pub tool_name: String,
    /// The tool's id.
    pub tool_id: String,
    /// The component that brings the tool; none for a tool that is no component.
    pub component_id: Option<String>,
    /// What the tool says of its kind.
    pub category: Option<String>,
    /// The arguments.
    pub args: Value,
    /// The run, its thread, and what started it.
    pub identity: RunIdentity,
    /// The agent that calls.
    pub agent: AgentView,
    /// The revision of the state that is shown.
    pub revision: u64,
    /// How many other calls of this run were let through.
    pub calls_before: CallsBefore,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// What a person decided, where a call goes on after a question.
    pub decided: Option<Value>,
    pub(crate) state: Vec<(String, String)>,
}

/// How many other calls of this run were let through, those that run at once with
/// this one included. A direct call is a run by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallsBefore {
    /// Of the tool that is called.
    pub of_tool: u32,
    /// Of all tools.
    pub in_run: u32,
}

/// The run that a call belongs to, and the call that this run came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunIdentity {
    /// This run.
    pub run_id: String,
    /// The conversation it belongs to.
    pub thread_id: String,
    /// The agent that runs.
    pub agent_id: String,
    /// Set where another run delegated to this one.
    pub parent_run_id: Option<String>,
    /// The delegating run's thread.
    pub parent_thread_id: Option<String>,
    /// The call that delegated.
    pub parent_call_id: Option<String>,
}

/// The calling agent: without prompt, credentials and model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentView {
    /// The agent's id.
    pub id: String,
    /// What it is for.
    pub description: Option<String>,
    /// The agents that it may hand work to.
    pub delegates: Vec<String>,
}

impl ProposedCall {
    /// The value of a key that the gate reads; none where it has no value, or is no
    /// `T`.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let (_, text) = self.state.iter().find(|(name, _)| name == key)?;
        serde_json::from_str(text).ok()
    }
}

/// For tests.
impl ProposedCall {
    /// The first call of a run, of the agent `agent`.
    ///
    /// ```
    /// use tollgate_gate::{CallsBefore, ProposedCall, json};
    ///
    /// let call = ProposedCall::for_test("search", json!({"query": "x"}))
    ///     .with_calls_before(CallsBefore { of_tool: 3, in_run: 5 })
    ///     .with_state("notes.items", json!(["a"]));
    /// assert_eq!(call.state::<Vec<String>>("notes.items").unwrap(), ["a"]);
    /// ```
    pub fn for_test(tool_name: impl Into<String>, args: Value) -> Self {
        let tool_name = tool_name.into();
        Self {
            call_id: "call-1".to_owned(),
            tool_id: tool_name.to_lowercase().replace('_', "-"),
            tool_name,
            component_id: None,
            category: None,
            args,
            identity: RunIdentity {
                run_id: "run-1".to_owned(),
                thread_id: "thread-1".to_owned(),
                agent_id: "agent".to_owned(),
                ..RunIdentity::default()
            },
            agent: AgentView { id: "agent".to_owned(), ..AgentView::default() },
            revision: 0,
            calls_before: CallsBefore::default(),
            now_ms: 0,
            decided: None,
            state: Vec::new(),
        }
    }

    /// So many calls were let through before.
    #[must_use]
    pub fn with_calls_before(mut self, calls_before: CallsBefore) -> Self {
        self.calls_before = calls_before;
        self
    }

    /// This key has this value.
    #[must_use]
    pub fn with_state(mut self, key: impl Into<String>, value: Value) -> Self {
        self.state.push((key.into(), value.to_string()));
        self
    }

    /// A person decided this.
    #[must_use]
    pub fn with_decided(mut self, value: Value) -> Self {
        self.decided = Some(value);
        self
    }
}
