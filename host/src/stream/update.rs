//! The updates that clients of a run receive, and their order.
//!
//! Stored events are sent once they are committed, without gaps in their numbers. Between them
//! are transient events: pieces of text and reports of tools. They are sent at once and stored
//! nowhere. A client that reads too slowly loses transient events, but never stored ones.

use serde::Serialize;
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::run::{Event, StoredEvent};
use tollgate_sandbox::{Console, Report};

/// One update sent to a client.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum RunUpdate {
    /// A stored event, without the values of state keys that are not
    /// [visible](crate::HostBuilder::visible_keys).
    Stored(Arc<StoredEvent>),
    /// A transient event: a piece of text or a report of a tool.
    Live(LiveUpdate),
    /// An update of a child run that one of this run's calls started.
    Child(ChildUpdate),
}

/// An update of a child, under its call. The child's stored events are in its own record.
#[derive(Debug, Clone, Serialize)]
pub struct ChildUpdate {
    /// The parent's run id.
    pub run_id: Arc<str>,
    /// The call that asked for the child.
    pub call_id: SmolStr,
    /// The request's place among the call's requests; 1 for the first.
    pub ordinal: u32,
    /// The update.
    pub child: Box<RunUpdate>,
}

impl RunUpdate {
    /// Returns whether the update is stored nowhere, and lost if a client reads too slowly.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            RunUpdate::Stored(_) => false,
            RunUpdate::Live(_) => true,
            RunUpdate::Child(update) => update.child.is_transient(),
        }
    }

    /// Returns the size of a transient update's texts, in bytes; 0 for a stored one.
    pub(super) fn transient_bytes(&self) -> usize {
        match self {
            RunUpdate::Stored(_) => 0,
            RunUpdate::Live(update) => update.piece.bytes(),
            RunUpdate::Child(update) => update.child.transient_bytes(),
        }
    }
}

/// A piece of text or a report, with its place between the stored events.
#[derive(Debug, Clone, Serialize)]
pub struct LiveUpdate {
    /// The run's id.
    pub run_id: Arc<str>,
    /// The number of the last stored event before it.
    pub after: u64,
    /// The index of the transient event in the run, starting at 1.
    pub index: u64,
    /// The content.
    #[serde(flatten)]
    pub piece: LiveContent,
}

/// The content of a transient event.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LiveContent {
    /// More of the model's text.
    TextDelta {
        /// The piece.
        text: String,
    },
    /// The text of the reply in progress, sent once to a client that joins in the middle of it.
    TextSoFar {
        /// The text up to here, at most 64 KiB of it.
        text: String,
    },
    /// More of the model's reasoning.
    ReasoningDelta {
        /// The piece.
        text: String,
    },
    /// The model's attempt failed. Discard the parts of this reply that were sent.
    ReplyRestarted {
        /// The number of the next attempt.
        attempt: u32,
        /// The number of attempts after which the fault ends the reply.
        max_attempts: u32,
        /// The time until the next attempt, in milliseconds.
        pause_ms: u64,
        /// The reason, in the provider's words.
        reason: String,
    },
    /// A tool's progress report.
    CallReport {
        /// The call's id.
        call_id: SmolStr,
        /// The attempt. A higher number means that the call started anew.
        attempt: u32,
        /// The report.
        report: Report,
    },
    /// The tool's standard output and error, sent when the attempt ends.
    CallConsole {
        /// The call's id.
        call_id: SmolStr,
        /// The attempt.
        attempt: u32,
        /// The part that was kept, for the operator; the model never sees it.
        console: Console,
    },
    /// Operations that a tool tried without a grant, sent when the attempt ends.
    CallDenied {
        /// The call's id.
        call_id: SmolStr,
        /// The attempt.
        attempt: u32,
        /// The operations, for the operator; the model never sees them.
        denied: Vec<String>,
    },
}

impl LiveContent {
    /// Returns the model's text, if this is some.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            LiveContent::TextDelta { text } => Some(text),
            _ => None,
        }
    }

    /// Returns the size of its texts in bytes.
    fn bytes(&self) -> usize {
        match self {
            LiveContent::TextDelta { text }
            | LiveContent::TextSoFar { text }
            | LiveContent::ReasoningDelta { text }
            | LiveContent::ReplyRestarted { reason: text, .. } => text.len(),
            LiveContent::CallReport { report, .. } => report.bytes(),
            LiveContent::CallConsole { console, .. } => console.text.len(),
            LiveContent::CallDenied { denied, .. } => denied.iter().map(String::len).sum(),
        }
    }
}

/// Returns the update without the words of the run's model and user; `None` if nothing else is
/// left.
pub(crate) fn redact_text(update: RunUpdate) -> Option<RunUpdate> {
    match update {
        RunUpdate::Live(LiveUpdate {
            piece:
                LiveContent::TextDelta { .. } | LiveContent::TextSoFar { .. } | LiveContent::ReasoningDelta { .. },
            ..
        }) => None,
        RunUpdate::Live(_) => Some(update),
        RunUpdate::Child(update) => {
            let child = Box::new(redact_text(*update.child)?);
            Some(RunUpdate::Child(ChildUpdate { child, ..update }))
        }
        RunUpdate::Stored(numbered) => {
            let event = match &numbered.event {
                Event::MessageAdded { .. } | Event::RunSeeded { .. } => return None,
                Event::ModelReplied { step, reply } => {
                    let mut reply = (**reply).clone();
                    (reply.message.text, reply.message.reasoning) = (String::new(), None);
                    Event::ModelReplied { step: *step, reply: Arc::new(reply) }
                }
                Event::ModelHooked { step, hooked } => {
                    let mut hooked = hooked.clone();
                    (hooked.notes, hooked.first_reply) = (Vec::new(), None);
                    Event::ModelHooked { step: *step, hooked }
                }
                Event::RunFinished { status, usage, .. } => {
                    Event::RunFinished { status: status.clone(), text: String::new(), usage: usage.clone() }
                }
                _ => return Some(RunUpdate::Stored(numbered)),
            };
            Some(RunUpdate::Stored(Arc::new(StoredEvent { event, ..(*numbered).clone() })))
        }
    }
}
