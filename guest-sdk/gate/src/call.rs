//! The call that a gate judges.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A call requested by a model or directly by a person. Its arguments fit the tool's
/// schema and are passed to the tool if it runs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProposedCall {
    /// Unique within the run.
    pub call_id: String,
    /// The name used by the model.
    pub tool_name: String,
    /// The tool's id.
    pub tool_id: String,
    /// The component that provides the tool; `None` if the tool is not a component.
    pub component_id: Option<String>,
    /// The category declared by the tool.
    pub category: Option<String>,
    /// The arguments.
    pub args: Value,
    /// The run, its thread and its origin.
    pub identity: RunIdentity,
    /// The calling agent.
    pub agent: AgentView,
    /// The revision of the state in this snapshot.
    pub revision: u64,
    /// The number of other calls of this run that were allowed.
    pub calls_before: CallsBefore,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// A person's decision, if the call resumes after a question.
    pub decided: Option<Value>,
    pub(crate) state: Vec<(String, String)>,
}

/// The number of other calls of this run that were allowed, including those that run in
/// parallel with this one. A direct call is a run of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallsBefore {
    /// Calls of the same tool.
    pub of_tool: u32,
    /// Calls of all tools.
    pub in_run: u32,
}

/// The run that a call belongs to, and the call that started this run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunIdentity {
    /// This run.
    pub run_id: String,
    /// The thread of the run.
    pub thread_id: String,
    /// The agent of the run.
    pub agent_id: String,
    /// The run that delegated to this one, if any.
    pub parent_run_id: Option<String>,
    /// The delegating run's thread.
    pub parent_thread_id: Option<String>,
    /// The call that delegated.
    pub parent_call_id: Option<String>,
}

/// The calling agent, without its prompt, credentials and model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentView {
    /// The agent's id.
    pub id: String,
    /// The agent's purpose.
    pub description: Option<String>,
    /// The agents that it may delegate to.
    pub delegates: Vec<String>,
}

impl ProposedCall {
    /// Returns the value of a key that the gate reads; `None` if it has no value or its
    /// value is not a `T`.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let (_, text) = self.state.iter().find(|(name, _)| name == key)?;
        serde_json::from_str(text).ok()
    }
}

/// Constructors for tests.
impl ProposedCall {
    /// Creates the first call of a run of the agent `agent`.
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

    /// Sets the number of calls allowed before this one.
    #[must_use]
    pub fn with_calls_before(mut self, calls_before: CallsBefore) -> Self {
        self.calls_before = calls_before;
        self
    }

    /// Sets the value of a key.
    #[must_use]
    pub fn with_state(mut self, key: impl Into<String>, value: Value) -> Self {
        self.state.push((key.into(), value.to_string()));
        self
    }

    /// Sets a person's decision.
    #[must_use]
    pub fn with_decided(mut self, value: Value) -> Self {
        self.decided = Some(value);
        self
    }
}
