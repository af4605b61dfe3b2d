//! A child of a run: how it starts, how it ended, and its updates on their way to the parent's
//! clients.

use super::reports::CallReports;
use crate::stream::{Publisher, RunUpdate, redact_text};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tollgate_agent::child::{ChildError, ChildOutcome, ChildStatus, Streaming};
use tollgate_agent::message::TokenUsage;
use tollgate_agent::run::child_plan::ChildPlace;
use tollgate_agent::run::{ChildEnd, ChildPlan, Decision};
use tollgate_sandbox::{Report, ReportSink as _, Reservation};

/// The result of a child run.
pub(crate) struct ChildRunResult {
    /// The end for the parent's record.
    pub(crate) end: ChildEnd,
    /// The outcome for the tool.
    pub(crate) outcome: Result<ChildOutcome, ChildError>,
    /// The memory of a large answer.
    pub(crate) _memory: Option<Reservation>,
}

/// The parameters for starting or resuming a child.
pub(crate) struct ChildStart {
    pub(crate) run_id: Arc<str>,
    /// The plan for a child that has not begun.
    pub(crate) plan: Result<ChildPlan, ChildError>,
    /// A person's decision about the child's question.
    pub(crate) decision: Option<Decision>,
    pub(crate) exports: Vec<String>,
    pub(crate) cancel: CancellationToken,
}

impl ChildRunResult {
    /// Returns the result of a child that the host could not drive.
    pub(super) fn broke(why: String) -> Self {
        let status = ChildStatus::Failed(why.clone());
        let end = ChildEnd::Ended { status, steps: 0, tokens: TokenUsage::default() };
        Self { end, outcome: Err(ChildError::ExecutionFailed(why)), _memory: None }
    }

    /// Returns the result of a child that could not begin.
    pub(crate) fn refused(error: ChildError) -> Self {
        Self { outcome: Err(error.clone()), ..Self::broke(error.to_string()) }
    }
}

/// The longest description of a child's error, in bytes.
const MAX_ERROR_BYTES: usize = 4 * 1024;

/// A forwarder of a child's updates, under the call of its parent.
pub(crate) struct ChildForwarder {
    pub(super) parent: Publisher,
    pub(super) place: ChildPlace,
    pub(super) agent_id: String,
    pub(super) streaming: Streaming,
    pub(super) reports: Arc<CallReports>,
}

impl ChildForwarder {
    /// Forwards one update of the child. For a silent child, drops its text.
    pub(crate) fn send(&self, update: RunUpdate) {
        if let RunUpdate::Live(transient) = &update
            && self.streaming != Streaming::Silent
            && let Some(text) = transient.piece.text()
        {
            self.reports.offer(Report::Output(text.to_owned()));
        }
        let update = match self.streaming {
            Streaming::Silent => redact_text(update),
            Streaming::Passthrough | Streaming::PassthroughRawErrors => Some(update),
        };
        if let Some(update) = update {
            self.parent.forward_child(&self.place, update);
        }
    }

    /// Reports how the child ended. Depending on the streaming mode, an error becomes part of the
    /// output or an event of its own.
    pub(crate) fn ended(&self, status: &ChildStatus) {
        let Some(words) = status.words() else { return };
        let agent_id = self.agent_id.clone();
        let message = tollgate_agent::text::clean(&words, MAX_ERROR_BYTES);
        let report = match self.streaming {
            Streaming::Silent => return,
            Streaming::Passthrough => Report::Output(format!("[The agent '{agent_id}' {message}]")),
            Streaming::PassthroughRawErrors => Report::ChildError { agent_id, message },
        };
        self.reports.offer(report);
    }
}
