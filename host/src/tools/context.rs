//! The view of a call that closures receive.

use super::{CallContext, Report, ReportSink};
use crate::state_key::StateKey;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tollgate_agent::child::{ChildError, ChildOutcome, ChildRequest};
use tollgate_agent::context::{AgentView, Resumption, RunIdentity};
use tollgate_sandbox::{ChildRunner, Deadline};

/// A call's information and operations, available while the call runs: a [`ToolCall`](super::ToolCall)
/// without borrows, so that a future can keep it. Clones refer to the same call.
#[derive(Clone)]
pub struct ToolContext {
    call_id: Arc<str>,
    tool_name: Arc<str>,
    identity: Arc<RunIdentity>,
    agent: Arc<AgentView>,
    attempt: u32,
    resumption: Option<Arc<Resumption>>,
    state: Arc<BTreeMap<String, Value>>,
    reports: Arc<dyn ReportSink>,
    children: Arc<dyn ChildRunner>,
    cancel: CancellationToken,
    deadline: Deadline,
}

impl ToolContext {
    pub(super) fn of(attempt: &CallContext<'_>, deadline: Deadline) -> Self {
        let access = &attempt.permit.tool().access;
        let visible = attempt.snapshot.visible(attempt.keys, access);
        Self {
            call_id: attempt.permit.call_id().clone().into(),
            tool_name: attempt.permit.tool().descriptor.name.as_str().into(),
            identity: Arc::new(attempt.identity.clone()),
            agent: Arc::new(attempt.agent.clone()),
            attempt: attempt.attempt,
            resumption: attempt.resume.cloned().map(Arc::new),
            state: Arc::new(visible.map(|(key, value)| (key.to_owned(), value.clone())).collect()),
            reports: Arc::clone(&attempt.reports),
            children: Arc::clone(&attempt.children),
            cancel: attempt.cancel.clone(),
            deadline,
        }
    }

    /// Returns the call's id, unique within its run.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Returns the name that the model used for the tool.
    #[must_use]
    pub fn tool_name(&self) -> &str {
        &self.tool_name
    }

    /// Returns the run, thread and agent of the call.
    #[must_use]
    pub fn identity(&self) -> &RunIdentity {
        &self.identity
    }

    /// Returns the calling agent.
    #[must_use]
    pub fn agent(&self) -> &AgentView {
        &self.agent
    }

    /// Returns the number of the attempt, starting at 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns a person's answer to this tool's own question, if the call asked one. Answers to
    /// gates are not included.
    #[must_use]
    pub fn resumption(&self) -> Option<&Resumption> {
        self.resumption.as_deref()
    }

    /// Returns a state key's value from the beginning of the call's batch; `None` if the tool's
    /// plugin did not declare that it reads the key.
    #[must_use]
    pub fn state(&self, key: &str) -> Option<&Value> {
        self.state.get(key)
    }

    /// Returns a typed key's value, or its default if the plugin did not declare that it reads
    /// the key.
    #[must_use]
    pub fn read<K: StateKey>(&self) -> K::Value {
        let value = self.state(K::NAME).cloned();
        value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
    }

    /// Returns the time that remains for the attempt.
    #[must_use]
    pub fn time_left(&self) -> std::time::Duration {
        self.deadline.left()
    }

    /// Returns whether the call is to end early. Its future is dropped soon after.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns a future that completes once the call is to end early. The tool's own future is
    /// dropped soon after.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        self.cancel.clone().cancelled_owned()
    }

    /// Runs another agent below this call; see [`ToolCall::run_child`](super::ToolCall::run_child).
    ///
    /// # Errors
    /// The child cannot be run: it is not granted, exceeds a limit, or its request is invalid. A child
    /// that does not complete is an outcome, not an error.
    pub async fn run_child(&self, request: ChildRequest) -> Result<ChildOutcome, ChildError> {
        let _paused = self.deadline.pause();
        self.children.run_child(request).await
    }

    /// Sends a report to the call's observers; returns false if there are none.
    pub fn report(&self, report: Report) -> bool {
        self.reports.offer(report)
    }
}
