//! Lists of runs and their status.

use serde::Serialize;
use tollgate_agent::run::{Event, RunSpec, RunStatus, Task};
use tollgate_agent::text::clean;

/// The maximum length of a run's title, in bytes.
const MAX_TITLE_BYTES: usize = 200;

/// A filter for lists of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFilter {
    /// Only runs of this thread.
    pub thread_id: Option<String>,
    /// Only runs of this status: `running`, `waiting`, `completed`, `blocked`, `stopped`,
    /// `cancelled`, `failed`.
    pub status: Option<String>,
    /// Only runs of this kind: `prompt`, `call`, `child`.
    pub kind: Option<String>,
    /// Only runs whose id starts with this prefix.
    pub run_id_prefix: Option<String>,
    /// The maximum number of results.
    pub limit: usize,
}

impl Default for RunFilter {
    fn default() -> Self {
        Self { thread_id: None, status: None, kind: None, run_id_prefix: None, limit: 50 }
    }
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunSummary {
    /// The run's id.
    pub run_id: String,
    /// The run's thread.
    pub thread_id: String,
    /// The run's agent.
    pub agent_id: String,
    /// `prompt`, `call` for a direct call, `child` for a run that a call started.
    pub kind: String,
    /// The beginning of the prompt, or the tool's name.
    pub title: String,
    /// The status, as in [`RunFilter::status`].
    pub status: String,
    /// The number of events.
    pub events: u64,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// When its last event was committed, in milliseconds since the Unix epoch.
    pub updated_at_ms: u64,
    /// Whether a living process drives it. A run that is `running` without one was interrupted.
    pub at_work: bool,
    /// Whether it waits for a host to claim it for the first time.
    pub queued: bool,
}

/// Returns the status of a run after this event, if the event changes it.
#[must_use]
pub fn status_after(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::RunWaiting => "waiting",
        Event::RunFinished { status, .. } => match status {
            RunStatus::Completed => "completed",
            RunStatus::Blocked { .. } => "blocked",
            RunStatus::Stopped { .. } => "stopped",
            RunStatus::Cancelled { .. } => "cancelled",
            RunStatus::Failed { .. } => "failed",
        },
        _ => return None,
    })
}

/// Returns a run's kind and title.
#[must_use]
pub fn label(spec: &RunSpec) -> (&'static str, String) {
    match &spec.task {
        Task::Prompt(text) if spec.identity.parent_run_id.is_some() => {
            ("child", clean(text, MAX_TITLE_BYTES))
        }
        Task::Prompt(text) => ("prompt", clean(text, MAX_TITLE_BYTES)),
        Task::Call { tool_name, .. } => ("call", clean(tool_name, MAX_TITLE_BYTES)),
    }
}
