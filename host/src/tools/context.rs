//! A call as a closure sees it.

use super::{Report, ReportSink, ToolCall};
use crate::plugins::StateKey;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tollgate_agent::child::{ChildError, ChildOutcome, ChildRequest};
use tollgate_agent::context::{AgentView, Resumption, RunIdentity};
use tollgate_sandbox::{ChildRunner, Deadline};

/// What a tool may know of its call, and do for as long as it runs: a [`ToolCall`]
/// without its borrows, so that a future can keep it. Clones are of the same call.
#[derive(Clone)]
pub struct ToolContext {
    call_id: Arc<str>,
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
    pub(super) fn of(call: &ToolCall<'_>, deadline: Deadline) -> Self {
        let attempt = call.attempt();
        let access = &attempt.permit.tool().access;
        let visible = attempt.snapshot.visible(attempt.keys, access);
        Self {
            call_id: attempt.permit.call_id().clone().into(),
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

    /// The call's id, unique within its run.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Which run, thread and agent the call belongs to.
    #[must_use]
    pub fn identity(&self) -> &RunIdentity {
        &self.identity
    }

    /// The agent that calls.
    #[must_use]
    pub fn agent(&self) -> &AgentView {
        &self.agent
    }

    /// 1 for the first attempt at the call.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The decision with which a call goes on that had asked a person.
    #[must_use]
    pub fn resumption(&self) -> Option<&Resumption> {
        self.resumption.as_deref()
    }

    /// A state key as it stood when the call's batch began; none where the tool's
    /// plugin did not declare that it reads the key.
    #[must_use]
    pub fn state(&self, key: &str) -> Option<&Value> {
        self.state.get(key)
    }

    /// A typed key's value; its default where the plugin did not declare that it reads
    /// the key.
    #[must_use]
    pub fn read<K: StateKey>(&self) -> K::Value {
        let value = self.state(K::NAME).cloned();
        value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
    }

    /// How long the attempt may still take.
    #[must_use]
    pub fn time_left(&self) -> std::time::Duration {
        self.deadline.left()
    }

    /// Whether the call is to end early. Its future is dropped soon after.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Runs another agent below this call; see [`ToolCall::run_child`].
    ///
    /// # Errors
    /// There is no such child. One that does not complete is an outcome.
    pub async fn run_child(&self, request: ChildRequest) -> Result<ChildOutcome, ChildError> {
        let _paused = self.deadline.pause();
        self.children.run_child(request).await
    }

    /// Tells whoever watches the call; answers false where nobody took it.
    pub fn report(&self, report: Report) -> bool {
        self.reports.offer(report)
    }
}
