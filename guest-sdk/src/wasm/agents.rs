//! Conversions of child runs to and from the host's types.

use super::bindings::tollgate::tool::{agents as wit, types};
use crate::agents::{ChildError, ChildOutcome, ChildRun, ChildStatus, Role, Streaming};
use serde_json::Value;

/// Makes the host run the child.
pub(crate) fn run_child(child: ChildRun) -> Result<ChildOutcome, ChildError> {
    wit::run_child(&child.into()).map(Into::into).map_err(Into::into)
}

impl From<ChildRun> for wit::ChildRun {
    fn from(child: ChildRun) -> Self {
        let message = |role, text| wit::Message { role, text };
        let entry = |(key, value): (String, Value)| types::Entry { key, value: value.to_string() };
        Self {
            agent_id: child.agent_id,
            messages: child.messages.into_iter().map(|one| message(one.role.into(), one.text)).collect(),
            seed: child.seed.into_iter().map(entry).collect(),
            exports: child.exports,
            text: child.streaming.into(),
        }
    }
}

impl From<Role> for wit::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::User => Self::User,
            Role::Assistant => Self::Assistant,
        }
    }
}

impl From<Streaming> for wit::Streaming {
    fn from(streaming: Streaming) -> Self {
        match streaming {
            Streaming::Silent => Self::Silent,
            Streaming::Passthrough => Self::Passthrough,
            Streaming::PassthroughRawErrors => Self::PassthroughRawErrors,
        }
    }
}

impl From<wit::ChildOutcome> for ChildOutcome {
    fn from(outcome: wit::ChildOutcome) -> Self {
        Self {
            run_id: outcome.run_id,
            status: outcome.status.into(),
            response: outcome.response,
            streamed: outcome.streamed,
            output: outcome.output.as_deref().map(value),
            steps: outcome.steps,
            state: outcome.state.map(entries),
            thread_state: outcome.thread_state.map(entries),
        }
    }
}

fn entries(entries: Vec<types::Entry>) -> Vec<(String, Value)> {
    entries.into_iter().map(|entry| (entry.key, value(&entry.value))).collect()
}

/// Parses JSON from the host, which is always valid.
fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

impl From<wit::ChildStatus> for ChildStatus {
    fn from(status: wit::ChildStatus) -> Self {
        match status {
            wit::ChildStatus::Completed => Self::Completed,
            wit::ChildStatus::WaitingInput(what) => Self::WaitingInput(what),
            wit::ChildStatus::WaitingAuth(what) => Self::WaitingAuth(what),
            wit::ChildStatus::Suspended(what) => Self::Suspended(what),
            wit::ChildStatus::Failed(reason) => Self::Failed(reason),
            wit::ChildStatus::Cancelled => Self::Cancelled,
            wit::ChildStatus::Timeout => Self::Timeout,
        }
    }
}

impl From<wit::ChildError> for ChildError {
    fn from(error: wit::ChildError) -> Self {
        match error {
            wit::ChildError::AgentNotFound(agent) => Self::AgentNotFound(agent),
            wit::ChildError::NotGranted(what) => Self::NotGranted(what),
            wit::ChildError::BadSeed(what) => Self::BadSeed(what),
            wit::ChildError::Unsupported(what) => Self::Unsupported(what),
            wit::ChildError::TooDeep(depth) => Self::TooDeep(depth),
            wit::ChildError::ExecutionFailed(reason) => Self::ExecutionFailed(reason),
        }
    }
}
