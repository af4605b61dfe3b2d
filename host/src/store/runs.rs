//! Runs in lists: which there are, and how they stand.

use serde::Serialize;
use tollgate_agent::run::{Event, RunSpec, RunStatus, Task};
use tollgate_agent::text::clean;

/// The longest title of a run, in bytes.
const MAX_TITLE_BYTES: usize = 200;

/// Which runs are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFilter {
    /// Those of this thread.
    pub thread_id: Option<String>,
    /// Those of this status: `running`, `waiting`, `completed`, `blocked`,
    /// `stopped`, `cancelled`, `failed`.
    pub status: Option<String>,
    /// Those of this kind: `prompt`, `call`, `child`.
    pub kind: Option<String>,
    /// Those whose id begins so.
    pub run_id_prefix: Option<String>,
    /// At most so many.
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
    /// The run.
    pub run_id: String,
    /// Its thread.
    pub thread_id: String,
    /// Its agent.
    pub agent_id: String,
    /// `prompt`, `call` for a direct call, `child` for a run that a call made.
    pub kind: String,
    /// The prompt's beginning, or the tool's name.
    pub title: String,
    /// As in [`RunFilter::status`].
    pub status: String,
    /// How many events it has.
    pub events: u64,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// When its last event was committed.
    pub updated_at_ms: u64,
    /// Whether a living process carries it; a run that is `running` without one
    /// was interrupted.
    pub at_work: bool,
}

/// The status that a run has after this event, where the event says.
pub(super) fn status_after(event: &Event) -> Option<&'static str> {
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

/// A run's kind and title.
pub(super) fn label(spec: &RunSpec) -> (&'static str, String) {
    match &spec.task {
        Task::Prompt(text) if spec.identity.parent_run_id.is_some() => {
            ("child", clean(text, MAX_TITLE_BYTES))
        }
        Task::Prompt(text) => ("prompt", clean(text, MAX_TITLE_BYTES)),
        Task::Call { tool_name, .. } => ("call", clean(tool_name, MAX_TITLE_BYTES)),
    }
}
