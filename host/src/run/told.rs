//! What clients of a run are told, and in which order.
//!
//! Stored events are told once they are committed, none is left out, and their
//! numbers have no gap. Between them go transient ones: pieces of text and reports
//! of tools. They are told at once and stored nowhere; a client that reads too
//! slowly loses them, never a stored one.

use futures::Stream;
use serde::Serialize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tollgate_agent::run::children::ChildPlace;
use tollgate_agent::run::{Event, Numbered};
use tollgate_sandbox::{Console, Report};

/// The most transient events that wait for a slow reader; more are dropped.
const MAX_WAITING: usize = 4_096;

/// One thing that a client is told.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Told {
    /// A stored event.
    Stored(Arc<Numbered>),
    /// Something that was true for a moment.
    Transient(Transient),
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
    pub call_id: String,
    /// The request's place among the call's requests; 1 for the first.
    pub ordinal: u32,
    /// What it told.
    pub child: Box<Told>,
}

impl Told {
    /// Whether it is stored nowhere, and lost where a client reads too slowly.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Told::Stored(_) => false,
            Told::Transient(_) => true,
            Told::Child(told) => told.child.is_transient(),
        }
    }
}

/// A piece of text or a report, with its place between the stored events.
#[derive(Debug, Clone, Serialize)]
pub struct Transient {
    /// The run.
    pub run_id: Arc<str>,
    /// The number of the last stored event before it.
    pub after: u64,
    /// 1 for the first transient event of the run.
    pub index: u64,
    /// What it is.
    #[serde(flatten)]
    pub piece: Piece,
}

/// What a transient event holds.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Piece {
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
        call_id: String,
        /// Which attempt; a higher one begins anew.
        attempt: u32,
        /// The report.
        report: Report,
    },
    /// What a tool wrote to standard output and error, told at the attempt's end.
    CallConsole {
        /// The call.
        call_id: String,
        /// Which attempt.
        attempt: u32,
        /// What was kept of it, for the operator; the model never sees it.
        console: Console,
    },
}

/// A client's end: the run's events in order. It ends when the run has ended, or
/// waits for a person.
#[derive(Debug)]
pub struct EventStream {
    events: mpsc::UnboundedReceiver<Told>,
    waiting: Arc<AtomicUsize>,
}

impl EventStream {
    /// The next event; none once there will be no more.
    pub async fn next(&mut self) -> Option<Told> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for EventStream {
    type Item = Told;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Told>> {
        let polled = self.events.poll_recv(cx);
        if let Poll::Ready(Some(told)) = &polled
            && told.is_transient()
        {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        polled
    }
}

/// The run's end: tells one client, or nobody. Cloning is cheap.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    client: Option<Arc<Client>>,
}

#[derive(Debug)]
struct Client {
    run_id: Arc<str>,
    events: mpsc::UnboundedSender<Told>,
    waiting: Arc<AtomicUsize>,
    last: AtomicU64,
    index: AtomicU64,
}

impl Teller {
    pub(crate) fn new(run_id: Arc<str>) -> (Self, EventStream) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let stream = EventStream { events: receiver, waiting: Arc::clone(&waiting) };
        let (last, index) = (AtomicU64::new(0), AtomicU64::new(0));
        let client = Client { run_id, events: sender, waiting, last, index };
        (Self { client: Some(Arc::new(client)) }, stream)
    }

    /// Of a run to which nobody listens.
    pub(crate) fn unheard() -> Self {
        Self { client: None }
    }

    pub(crate) fn stored(&self, events: &[Arc<Numbered>]) {
        let Some(client) = &self.client else { return };
        for event in events {
            client.last.store(event.number, Ordering::Relaxed);
            // Nobody listens any more: the run goes on, and the store has it.
            let _ = client.events.send(Told::Stored(Arc::clone(event)));
        }
    }

    /// Tells what a child told. What is transient is lost where the reader is slow.
    pub(crate) fn child(&self, (call_id, ordinal): &ChildPlace, told: Told) {
        let Some(client) = self.client.as_ref().filter(|client| !client.events.is_closed()) else { return };
        if told.is_transient() {
            if client.waiting.load(Ordering::Relaxed) >= MAX_WAITING {
                return;
            }
            client.waiting.fetch_add(1, Ordering::Relaxed);
        }
        let (run_id, call_id) = (Arc::clone(&client.run_id), call_id.clone());
        // Nobody listens any more: the child goes on all the same.
        let _ = client.events.send(Told::Child(ChildTold {
            run_id,
            call_id,
            ordinal: *ordinal,
            child: Box::new(told),
        }));
    }

    /// Tells something transient; false where nobody listens, or reads too slowly.
    pub(crate) fn transient(&self, piece: Piece) -> bool {
        let Some(client) = &self.client else { return false };
        if client.events.is_closed() || client.waiting.load(Ordering::Relaxed) >= MAX_WAITING {
            return false;
        }
        client.waiting.fetch_add(1, Ordering::Relaxed);
        let told = Told::Transient(Transient {
            run_id: Arc::clone(&client.run_id),
            after: client.last.load(Ordering::Relaxed),
            index: client.index.fetch_add(1, Ordering::Relaxed) + 1,
            piece,
        });
        client.events.send(told).is_ok()
    }
}

impl Piece {
    /// The model's text, where it is some.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Piece::TextDelta { text } => Some(text),
            _ => None,
        }
    }
}

/// The same without the words of the run's model and user; none where nothing else
/// is left.
pub(crate) fn hushed(told: Told) -> Option<Told> {
    match told {
        Told::Transient(Transient {
            piece: Piece::TextDelta { .. } | Piece::ReasoningDelta { .. }, ..
        }) => None,
        Told::Transient(_) => Some(told),
        Told::Child(told) => {
            let child = Box::new(hushed(*told.child)?);
            Some(Told::Child(ChildTold { child, ..told }))
        }
        Told::Stored(numbered) => {
            let event = match &numbered.event {
                Event::MessageAdded { .. } | Event::RunSeeded { .. } => return None,
                Event::ModelReplied { step, reply } => {
                    let mut reply = (**reply).clone();
                    (reply.message.text, reply.message.reasoning) = (String::new(), None);
                    Event::ModelReplied { step: *step, reply: Arc::new(reply) }
                }
                Event::RunFinished { status, usage, .. } => {
                    Event::RunFinished { status: status.clone(), text: String::new(), usage: *usage }
                }
                _ => return Some(Told::Stored(numbered)),
            };
            Some(Told::Stored(Arc::new(Numbered { event, ..(*numbered).clone() })))
        }
    }
}
