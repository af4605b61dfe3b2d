//! Lists of runs, their status, and their records.

use serde::Serialize;
use std::sync::Arc;
use tollgate_agent::run::{Event, RunSpec, RunStatus, StoredEvent, Task};
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
    /// Only the run with this id.
    pub run_id: Option<String>,
    /// Only runs whose id starts with this prefix.
    pub run_id_prefix: Option<String>,
    /// Only runs of this agent.
    pub agent_id: Option<String>,
    /// Only runs with this title, which for a direct call is its tool's name.
    pub title: Option<String>,
    /// Only runs of threads whose id starts with this prefix.
    pub thread_prefix: Option<String>,
    /// Only runs that began at this time or later, in milliseconds since the Unix epoch.
    pub from_ms: Option<u64>,
    /// Only runs that began before this time, in milliseconds since the Unix epoch.
    pub to_ms: Option<u64>,
    /// Only runs older than this one, by its id: for the next page of a list.
    pub before: Option<String>,
    /// Only runs whose [short id](short_id) starts with this prefix.
    pub short_id_prefix: Option<String>,
    /// The maximum number of results.
    pub limit: usize,
}

impl Default for RunFilter {
    fn default() -> Self {
        Self {
            thread_id: None,
            status: None,
            kind: None,
            run_id: None,
            run_id_prefix: None,
            short_id_prefix: None,
            agent_id: None,
            title: None,
            thread_prefix: None,
            from_ms: None,
            to_ms: None,
            before: None,
            limit: 50,
        }
    }
}

impl RunFilter {
    /// Returns the filter for the run with this id.
    #[must_use]
    pub fn one(run_id: &str) -> Self {
        Self { run_id: Some(run_id.to_owned()), limit: 1, ..Self::default() }
    }

    /// Returns the principal whose threads the prefix names: all those whose ids begin with a name and a
    /// slash. `None` for any other prefix.
    #[must_use]
    pub fn principal(&self) -> Option<&str> {
        let name = self.thread_prefix.as_deref()?.strip_suffix('/')?;
        (!name.contains('/')).then_some(name)
    }

    /// Returns whether the filter lets a run through.
    pub(super) fn matches(&self, run: &RunSummary) -> bool {
        let is = |wanted: &Option<String>, has: &str| wanted.as_deref().is_none_or(|wanted| wanted == has);
        let begins = |prefix: &Option<String>, has: &str| {
            prefix.as_deref().is_none_or(|prefix| has.starts_with(prefix))
        };
        is(&self.thread_id, &run.thread_id)
            && is(&self.status, &run.status)
            && is(&self.kind, &run.kind)
            && is(&self.agent_id, &run.agent_id)
            && is(&self.title, &run.title)
            && is(&self.run_id, &run.run_id)
            && begins(&self.run_id_prefix, &run.run_id)
            && begins(&self.short_id_prefix, short_id(&run.run_id))
            && begins(&self.thread_prefix, &run.thread_id)
            && self.from_ms.is_none_or(|from| run.started_at_ms >= from)
            && self.to_ms.is_none_or(|to| run.started_at_ms < to)
            && self.before.as_deref().is_none_or(|before| run.run_id.as_str() < before)
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
    #[serde(rename = "at_work")]
    pub is_driven: bool,
    /// Whether it waits for a host to claim it for the first time.
    pub queued: bool,
    /// The host that drives it, in a store whose hosts have names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<RunOwner>,
}

impl RunSummary {
    /// Returns whether the run has not ended: it is queued, running, interrupted or waiting.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.status.as_str(), "running" | "waiting")
    }

    /// Returns the status as people and clients see it: a `running` run that no process drives is
    /// `queued` if it waits for its first one, and `interrupted` otherwise.
    #[must_use]
    pub fn shown_status(&self) -> &str {
        match self.status.as_str() {
            "running" if self.queued => "queued",
            "running" if !self.is_driven => "interrupted",
            status => status,
        }
    }
}

/// The host that drives a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunOwner {
    /// The id of the host, which is new at every start.
    pub id: String,
    /// The host's name.
    pub name: String,
}

/// The record of a run, as far as it can be read.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// The events, in order.
    pub events: Vec<Arc<StoredEvent>>,
    /// The first problem. `None` if nothing was found.
    pub damage: Option<String>,
    /// The number of events that an earlier version wrote without a checksum.
    pub without_checksum: u64,
}

/// The maximum number of runs that are read for a list of threads.
pub const MAX_THREAD_RUNS: usize = 5_000;
/// The number of runs that are read at once for a list of threads.
pub(super) const THREAD_RUNS_AT_ONCE: usize = 500;

/// A filter for lists of threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadFilter {
    /// Only threads whose id starts with this prefix.
    pub prefix: Option<String>,
    /// Only threads with a run that is older than this one, by its id: for the next page.
    pub before: Option<String>,
    /// Threads to leave out, because an earlier page had them.
    pub skip: Vec<String>,
    /// The maximum number of results.
    pub limit: usize,
}

/// A thread in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadSummary {
    /// The thread's id.
    pub thread_id: String,
    /// The agent of its last run.
    pub agent_id: String,
    /// The id of its last run.
    pub last_run_id: String,
    /// The beginning of the last run's prompt, or the name of the tool that was called.
    pub title: String,
    /// The status of its last run, as in [`RunFilter::status`].
    pub status: String,
    /// When its oldest run among those that were read began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// When its last run changed, in milliseconds since the Unix epoch.
    pub updated_at_ms: u64,
}

impl ThreadSummary {
    pub(super) fn of(last: &RunSummary) -> Self {
        Self {
            thread_id: last.thread_id.clone(),
            agent_id: last.agent_id.clone(),
            last_run_id: last.run_id.clone(),
            title: last.title.clone(),
            status: last.status.clone(),
            started_at_ms: last.started_at_ms,
            updated_at_ms: last.updated_at_ms,
        }
    }

    /// Includes an older run of the thread.
    pub(super) fn include(&mut self, older: &RunSummary) {
        self.started_at_ms = self.started_at_ms.min(older.started_at_ms);
    }
}

/// The number of characters of a short id.
pub const SHORT_ID_CHARS: usize = 8;

/// The number of characters of the ids that the host chooses.
const HOST_ID_CHARS: usize = 36;

/// Returns the short id of a run: the last eight characters of an id of 36, which are random if the
/// host chose it; an id of another length as a whole. The queries of databases follow the same rule.
#[must_use]
pub fn short_id(run_id: &str) -> &str {
    match run_id.char_indices().nth(HOST_ID_CHARS - SHORT_ID_CHARS) {
        Some((at, _)) if run_id.chars().count() == HOST_ID_CHARS => &run_id[at..],
        _ => run_id,
    }
}

/// Returns whether the call that ended last among these events has failed: a direct call that
/// completed with such an end is listed as failed.
pub fn last_call_failed<'a>(newest_first: impl IntoIterator<Item = &'a Event>) -> bool {
    let mut ends = newest_first.into_iter().filter_map(|event| match event {
        Event::CallFinished(finished) => Some(finished.end.code().is_some()),
        _ => None,
    });
    ends.next().unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_run_without_a_driver_says_so() {
        let run = |status: &str, is_driven, queued| RunSummary {
            run_id: "r".to_owned(),
            thread_id: "t".to_owned(),
            agent_id: "a".to_owned(),
            kind: "prompt".to_owned(),
            title: String::new(),
            status: status.to_owned(),
            events: 1,
            started_at_ms: 0,
            updated_at_ms: 0,
            is_driven,
            queued,
            owner: None,
        };
        for (status, is_driven, queued, shown) in [
            ("running", true, false, "running"),
            ("running", false, false, "interrupted"),
            ("running", false, true, "queued"),
            ("waiting", false, false, "waiting"),
            ("completed", false, false, "completed"),
        ] {
            assert_eq!(run(status, is_driven, queued).shown_status(), shown);
        }
        let listed = serde_json::to_value(run("running", true, false)).ok();
        assert_eq!(
            listed.map(|listed| listed["at_work"].clone()),
            Some(true.into()),
            "its name in lists stays"
        );
    }

    #[test]
    fn a_short_id_is_the_random_end_of_an_id() {
        assert_eq!(short_id("0192f0a1-7c3e-7b61-9d5a-3b1e9f3c2a71"), "9f3c2a71");
        assert_eq!(short_id("0192f0a17c3e7b619d5a3b1e9f3c2a71"), "0192f0a17c3e7b619d5a3b1e9f3c2a71");
        assert_eq!(short_id(&"\u{e9}".repeat(36)), "\u{e9}".repeat(8));
        assert_eq!(short_id("nightly"), "nightly");
        assert_eq!(short_id("a run of a library's user"), "a run of a library's user");
    }
}
