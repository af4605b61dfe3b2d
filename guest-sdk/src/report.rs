//! What a call tells while it runs. A tool's tests read it back.

use serde_json::Value;

/// One thing that was told.
///
/// Records of one call are bounded together: 1,000, of 4 KiB each and 1 MiB in
/// all. The host drops and counts what is past a bound.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Report {
    /// What the tool is doing, in the place of the last activity of this kind.
    Activity {
        /// Which activity; cut at 64 bytes.
        kind: String,
        /// The words that a client shows.
        content: String,
    },
    /// A change of the activity of this kind.
    ActivityDelta {
        /// Which activity.
        kind: String,
        /// A JSON Patch (RFC 6902).
        patch: Value,
    },
    /// How far the call is.
    Progress {
        /// The phase.
        status: ProgressStatus,
        /// In words.
        message: Option<String>,
        /// As a fraction from 0 to 1.
        progress: Option<f64>,
    },
    /// A piece of output that a client may show before the call ends.
    Output(String),
    /// A line for the operator. The model never sees it.
    Log(Level, String),
}

/// The phase of what is reported on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressStatus {
    /// Not begun.
    Pending,
    /// Under way.
    Running,
    /// Finished.
    Done,
    /// Given up.
    Failed,
    /// Stopped, because the run is being cancelled.
    Cancelled,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step.
    Trace,
    /// For the tool's author.
    Debug,
    /// For the operator, when all is well.
    Info,
    /// Something the operator may want to change.
    Warn,
    /// Something the operator has to change.
    Error,
}
