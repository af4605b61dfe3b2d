//! What clients of a run are told, and in which order.
//!
//! Stored events are told once they are committed, none is left out, and their
//! numbers have no gap. Between them go transient ones: pieces of text and reports
//! of tools. They are told at once and stored nowhere; a client that reads too
//! slowly loses them, never a stored one.

use super::clients::Hub;
use super::subscribers::Bus;
use serde::Serialize;
use std::sync::Arc;
use tollgate_agent::SmolStr;
use tollgate_agent::run::child_plan::ChildPlace;
use tollgate_agent::run::{Event, Run, StoredEvent};
use tollgate_sandbox::{Console, Report};

/// One thing that a client is told.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum RunUpdate {
    /// A stored event, without the values of state keys that are not
    /// [visible](crate::HostBuilder::visible_keys).
    Stored(Arc<StoredEvent>),
    /// Something that was true for a moment.
    Live(LiveUpdate),
    /// What a run told that one of this run's calls made.
    Child(ChildTold),
}

/// What a child told, under its call. The child's stored events are in its own
/// record.
#[derive(Debug, Clone, Serialize)]
pub struct ChildTold {
    /// The parent's run.
    pub run_id: Arc<str>,
    /// The call that asked for the child.
    pub call_id: SmolStr,
    /// The request's place among the call's requests; 1 for the first.
    pub ordinal: u32,
    /// What it told.
    pub child: Box<RunUpdate>,
}

impl RunUpdate {
    /// Whether it is stored nowhere, and lost where a client reads too slowly.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            RunUpdate::Stored(_) => false,
            RunUpdate::Live(_) => true,
            RunUpdate::Child(told) => told.child.is_transient(),
        }
    }
}

/// A piece of text or a report, with its place between the stored events.
#[derive(Debug, Clone, Serialize)]
pub struct LiveUpdate {
    /// The run.
    pub run_id: Arc<str>,
    /// The number of the last stored event before it.
    pub after: u64,
    /// 1 for the first transient event of the run.
    pub index: u64,
    /// What it is.
    #[serde(flatten)]
    pub piece: LiveContent,
}

/// What a transient event holds.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LiveContent {
    /// More of the model's text.
    TextDelta {
        /// The piece.
        text: String,
    },
    /// More of what the model thinks aloud.
    ReasoningDelta {
        /// The piece.
        text: String,
    },
    /// The model's attempt broke; what was told of this reply is void.
    ReplyRestarted {
        /// The attempt that comes next.
        attempt: u32,
        /// Milliseconds until then.
        pause_ms: u64,
        /// Why, in the provider's words.
        reason: String,
    },
    /// A tool tells how its call goes.
    CallReport {
        /// The call.
        call_id: SmolStr,
        /// Which attempt; a higher one begins anew.
        attempt: u32,
        /// The report.
        report: Report,
    },
    /// What a tool wrote to standard output and error, told at the attempt's end.
    CallConsole {
        /// The call.
        call_id: SmolStr,
        /// Which attempt.
        attempt: u32,
        /// What was kept of it, for the operator; the model never sees it.
        console: Console,
    },
    /// What a tool tried and was not granted, told at the attempt's end.
    CallDenied {
        /// The call.
        call_id: SmolStr,
        /// Which attempt.
        attempt: u32,
        /// What it was, for the operator; the model never sees it.
        denied: Vec<String>,
    },
}

/// The run's end: tells its clients, and the host's subscribers. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Publisher {
    hub: Option<Arc<Hub>>,
    bus: Arc<Bus>,
    run_id: Arc<str>,
}

impl Publisher {
    pub(crate) fn new(hub: Arc<Hub>, bus: Arc<Bus>, run_id: Arc<str>) -> Self {
        Self { hub: Some(hub), bus, run_id }
    }

    /// Of a run that no client listens to.
    pub(crate) fn unheard(bus: Arc<Bus>, run_id: Arc<str>) -> Self {
        Self { hub: None, bus, run_id }
    }

    /// Tells what was committed, of a run as it stands after that.
    pub(crate) fn stored(&self, events: &[StoredEvent], run: &Run) {
        if !self.is_heard() {
            return;
        }
        let told = |event: &StoredEvent| self.bus.visible().of(Arc::new(event.clone()));
        let events: Vec<_> = events.iter().map(told).collect();
        if let Some(hub) = &self.hub {
            hub.stored(&events);
        }
        self.bus.stored(&events, run);
    }

    /// Tells what a child told. Subscribers have it from the child itself.
    pub(crate) fn child(&self, place: &ChildPlace, told: RunUpdate) {
        if let Some(hub) = &self.hub {
            hub.child(place, told);
        }
    }

    /// Whether there may be anybody to tell something transient.
    pub(crate) fn is_heard(&self) -> bool {
        self.hub.is_some() || !self.bus.is_empty()
    }

    /// Tells something transient; false where nobody listens, or reads too slowly.
    pub(crate) fn transient(&self, piece: LiveContent) -> bool {
        let is_heard = !self.bus.is_empty();
        if is_heard {
            self.bus.transient(&self.run_id, &piece);
        }
        self.hub.as_ref().is_some_and(|hub| hub.transient(piece)) || is_heard
    }
}

impl LiveContent {
    /// The model's text, where it is some.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            LiveContent::TextDelta { text } => Some(text),
            _ => None,
        }
    }
}

/// The same without the words of the run's model and user; none where nothing else
/// is left.
pub(crate) fn redact_text(told: RunUpdate) -> Option<RunUpdate> {
    match told {
        RunUpdate::Live(LiveUpdate {
            piece: LiveContent::TextDelta { .. } | LiveContent::ReasoningDelta { .. },
            ..
        }) => None,
        RunUpdate::Live(_) => Some(told),
        RunUpdate::Child(told) => {
            let child = Box::new(redact_text(*told.child)?);
            Some(RunUpdate::Child(ChildTold { child, ..told }))
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
