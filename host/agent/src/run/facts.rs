//! The data that events hold about calls and runs.

use crate::code::Code;
use crate::outcome::{Fault, ScheduledNote, ToolFilter, ToolResult, Usage};
use crate::state::PendingMutation;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::sync::Arc;

/// The status of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// Requested, but not let through yet.
    New,
    /// An attempt is running, or its outcome waits for its turn.
    Running,
    /// Waits for a person.
    Suspended,
    /// Approved by a person, but not let through again yet.
    Resuming,
    /// The call succeeded.
    Succeeded,
    /// The call failed.
    Failed,
    /// It was cancelled or superseded.
    Cancelled,
}

impl CallStatus {
    /// Every status.
    pub const ALL: [CallStatus; 7] = [
        CallStatus::New,
        CallStatus::Running,
        CallStatus::Suspended,
        CallStatus::Resuming,
        CallStatus::Succeeded,
        CallStatus::Failed,
        CallStatus::Cancelled,
    ];

    /// Returns whether a call may move from this status to that one. Any other transition is a bug
    /// in the host.
    #[must_use]
    pub fn may_become(self, next: CallStatus) -> bool {
        use CallStatus::{Cancelled, Failed, New, Resuming, Running, Succeeded, Suspended};
        match self {
            New | Resuming => matches!(next, Running | Succeeded | Failed | Suspended | Cancelled),
            Running => matches!(next, Succeeded | Failed | Suspended | Cancelled),
            Suspended => matches!(next, Resuming | Cancelled),
            Succeeded | Failed | Cancelled => false,
        }
    }

    /// Returns whether the status is final.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, CallStatus::Succeeded | CallStatus::Failed | CallStatus::Cancelled)
    }
}

/// The end of a call: the tool's answer, or a fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// The tool's answer, or one supplied in its place.
    Result(Arc<ToolResult>),
    /// The reason that there is no answer.
    Fault(Fault),
}

impl CallEnd {
    /// Returns the status of a call with this end.
    #[must_use]
    pub fn status(&self) -> CallStatus {
        match self {
            CallEnd::Result(result) if result.is_success() => CallStatus::Succeeded,
            CallEnd::Fault(Fault { code: Code::Cancelled | Code::Superseded | Code::NotRun, .. }) => {
                CallStatus::Cancelled
            }
            CallEnd::Result(_) | CallEnd::Fault(_) => CallStatus::Failed,
        }
    }

    /// Returns the code of an unsuccessful end.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            CallEnd::Result(result) if result.is_success() => None,
            CallEnd::Result(_) => Some(Code::ToolError),
            CallEnd::Fault(fault) => Some(fault.code),
        }
    }
}

impl From<Fault> for CallEnd {
    fn from(fault: Fault) -> Self {
        CallEnd::Fault(fault)
    }
}

/// The end of a call before the hooks after it are asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallCompletion {
    /// The call.
    pub call_id: SmolStr,
    /// The result or the fault.
    pub end: CallEnd,
    /// The tool's writes. They are committed with the end of the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mutations: Vec<PendingMutation>,
    /// The tool's requested loop actions.
    #[serde(default)]
    pub asked: LoopActions,
    /// Usage of the last attempt.
    #[serde(default)]
    pub usage: Usage,
}

impl CallCompletion {
    /// Returns whether hooks may replace this end with a result. They may not if a gate, a person
    /// or the end of the run ended the call without one.
    #[must_use]
    pub fn may_be_replaced(&self) -> bool {
        let decided = matches!(&self.end, CallEnd::Fault(Fault { code: Code::Denied | Code::Blocked, .. }));
        !decided && self.end.status() != CallStatus::Cancelled
    }
}

/// The next step after a turn that was cut short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterTurn {
    /// The run continues with this user message.
    Message(String),
    /// The run ends.
    End(RunStatus),
}

/// The granted actions of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopActions {
    /// Notes for the model's next turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The agent that continues the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<String>,
    /// Whether the loop that the run is part of ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub escalates: bool,
    /// Notes for later turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduled: Vec<ScheduledNote>,
    /// The tools that the model sees in its next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Box<ToolFilter>>,
}

impl LoopActions {
    /// Adds the actions that others requested.
    pub(super) fn join(&mut self, other: LoopActions) {
        self.notes.extend(other.notes);
        self.scheduled.extend(other.scheduled);
        self.escalates |= other.escalates;
        self.transfer = self.transfer.take().or(other.transfer);
        self.filter = match (self.filter.take(), other.filter) {
            (Some(mine), Some(theirs)) => Some(Box::new(mine.and(&theirs))),
            (mine, theirs) => mine.or(theirs),
        };
    }
}

/// The status with which a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RunStatus {
    /// The model gave its answer, or the direct call completed.
    Completed,
    /// A gate ended it.
    Blocked {
        /// The gate's reason.
        reason: String,
    },
    /// It reached one of its limits.
    Stopped {
        /// The limit's name.
        limit: String,
    },
    /// It was cancelled.
    Cancelled {
        /// The reason.
        reason: String,
    },
    /// The model or the host failed.
    Failed {
        /// A description of the failure.
        error: String,
    },
}

/// An event that cannot follow from the events before it, because of a bug in the host or because
/// the record was tampered with. The run ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record of the run is invalid: {0}")]
pub struct InvalidTransition(pub(super) String);
