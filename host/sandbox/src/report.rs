//! What a running tool tells at once: activity, progress, streamed output and log
//! lines. Reports are transient; a sink that is full loses them, and the loss is
//! counted.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One report of a call in progress, bounded and cleaned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// Replaces the activity of this kind.
    Activity {
        /// The activity's kind.
        kind: String,
        /// What is shown.
        content: String,
    },
    /// Changes the activity of this kind by a JSON Patch.
    ActivityDelta {
        /// The activity's kind.
        kind: String,
        /// The patch (RFC 6902): valid JSON, not yet applied to anything.
        patch: Value,
    },
    /// How far the call is.
    Progress {
        /// In which phase.
        status: ProgressStatus,
        /// A sentence beside it.
        message: Option<String>,
        /// A fraction within 0..=1.
        progress: Option<f64>,
    },
    /// A piece of output to show before the call ends.
    Output(String),
    /// A line for the operator.
    Log {
        /// How grave it is.
        level: Level,
        /// The line.
        message: String,
    },
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

/// How grave a log line is.
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

/// Where reports go. A guest waits for this function, so it returns at once.
pub trait ReportSink: Send + Sync {
    /// Takes the report, or answers false where it has no room for it.
    fn offer(&self, report: Report) -> bool;

    /// Whether anybody may take a report; where nobody does, none is made, and each counts
    /// as lost.
    fn is_heard(&self) -> bool {
        true
    }
}

/// A bounded channel; what does not fit is lost.
impl ReportSink for tokio::sync::mpsc::Sender<Report> {
    fn offer(&self, report: Report) -> bool {
        self.try_send(report).is_ok()
    }
}

/// Nobody listens.
impl ReportSink for () {
    fn offer(&self, _report: Report) -> bool {
        false
    }

    fn is_heard(&self) -> bool {
        false
    }
}
