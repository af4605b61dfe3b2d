//! Reports of a running call. A tool's tests can read them.

use serde_json::Value;

/// One report.
///
/// A call may send at most 1,000 reports, of at most 4 KiB each and 1 MiB in total. The
/// host drops and counts the rest.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Report {
    /// The current activity; replaces the last one of this kind.
    Activity {
        /// The kind of activity; cut at 64 bytes.
        kind: String,
        /// The text that a client shows.
        content: String,
    },
    /// A change of the current activity of this kind.
    ActivityDelta {
        /// The kind of activity.
        kind: String,
        /// A JSON Patch (RFC 6902).
        patch: Value,
    },
    /// The progress of the call.
    Progress {
        /// The phase.
        status: ProgressStatus,
        /// The progress in words.
        message: Option<String>,
        /// The progress as a fraction from 0 to 1.
        progress: Option<f64>,
    },
    /// A piece of output that a client may show before the call ends.
    Output(String),
    /// A line for the operator. The model never sees it.
    Log(Level, String),
}

/// The phase of a call or activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressStatus {
    /// Not started.
    Pending,
    /// In progress.
    Running,
    /// Finished.
    Done,
    /// Failed.
    Failed,
    /// Stopped, because the run is being cancelled.
    Cancelled,
}

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step.
    Trace,
    /// For the tool's author.
    Debug,
    /// For the operator, in normal operation.
    Info,
    /// Something the operator may want to change.
    Warn,
    /// Something the operator has to change.
    Error,
}
