//! Live reports of a running tool: activity, progress, streamed output and log lines. Reports are
//! transient; a full sink drops them, and dropped reports are counted.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_agent::json::Measure;

/// One report of a call in progress, bounded and sanitized.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// Replaces the activity of this kind.
    Activity {
        /// The activity's kind.
        kind: String,
        /// The content to display.
        content: String,
    },
    /// Changes the activity of this kind by a JSON Patch.
    ActivityDelta {
        /// The activity's kind.
        kind: String,
        /// The patch (RFC 6902): valid JSON, not yet applied to anything.
        patch: Value,
    },
    /// The progress of the call.
    Progress {
        /// The phase.
        status: ProgressStatus,
        /// An explanation.
        message: Option<String>,
        /// A fraction within 0..=1.
        progress: Option<f64>,
    },
    /// A piece of output to show before the call ends.
    Output(String),
    /// The error of a child agent whose errors were requested raw.
    ChildError {
        /// The agent.
        agent_id: String,
        /// How the child ended.
        message: String,
    },
    /// A line for the operator.
    Log {
        /// The severity.
        level: Level,
        /// The line.
        message: String,
    },
}

impl Report {
    /// Returns the memory that the report's texts and values take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Activity { kind, content } => kind.len() + content.len(),
            Self::ActivityDelta { kind, patch } => {
                let parsed = Measure::of(patch).parsed_bytes;
                kind.len() + usize::try_from(parsed).unwrap_or(usize::MAX)
            }
            Self::Progress { message, .. } => message.as_ref().map_or(0, String::len),
            Self::ChildError { agent_id, message } => agent_id.len() + message.len(),
            Self::Output(text) | Self::Log { message: text, .. } => text.len(),
        }
    }
}

/// The phase of a call, as the tool sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ProgressStatus {
    Pending,
    Running,
    Done,
    Failed,
    Cancelled,
}

/// The severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// A destination for reports. The guest waits for its methods, so they return immediately.
pub trait ReportSink: Send + Sync {
    /// Takes the report, or returns `false` if it has no room for it.
    fn offer(&self, report: Report) -> bool;

    /// Returns whether reports can be delivered. If not, none are created, and each counts as
    /// lost.
    fn is_heard(&self) -> bool {
        true
    }
}

/// A bounded channel; reports that do not fit are lost.
impl ReportSink for tokio::sync::mpsc::Sender<Report> {
    fn offer(&self, report: Report) -> bool {
        self.try_send(report).is_ok()
    }
}

/// Discards all reports.
impl ReportSink for () {
    fn offer(&self, _report: Report) -> bool {
        false
    }

    fn is_heard(&self) -> bool {
        false
    }
}
