//! The clients of a run, and what happens when the last one leaves.
//!
//! Clients come and go while the run continues. A client that returns names the last event it has
//! and misses none. A run without clients is cancelled after a while, unless it was started as
//! detached.

use super::inbox::{Delivery, Inbox, MAX_DELIVERIES};
use super::update::{ChildTold, LiveContent, LiveUpdate, RunUpdate};
use crate::error::HostError;
use futures::Stream;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tollgate_agent::run::child_plan::ChildPlace;
use tollgate_agent::run::{Decision, StoredEvent};

/// The maximum number of transient events that wait for a slow reader; further ones are dropped.
const MAX_WAITING: usize = 4_096;
/// The maximum number of stored events that wait for a client with a limit.
const MAX_STORED: usize = 4_096;
/// The maximum length of the text of a reply in progress that joining clients receive, in bytes.
const MAX_REPLY_BYTES: usize = 64 * 1024;
/// How long a run continues without clients.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The clients of one run.
#[derive(Debug)]
pub(crate) struct Hub {
    run_id: Arc<str>,
    clients: Mutex<Vec<Client>>,
    /// Whether no more events follow. Set while the list of clients is locked.
    closed: AtomicBool,
    /// The number of clients, watched to detect that none are left.
    count: watch::Sender<usize>,
    ids: AtomicU64,
    last: AtomicU64,
    index: AtomicU64,
    /// Ends the run.
    cancel: CancellationToken,
    /// The reason for cancelling it, if one was given.
    reason: OnceLock<String>,
    /// Cancelled when no more events follow.
    over: CancellationToken,
    /// Delivers decisions while the run is at work; its receiver is the driver's.
    deliveries: mpsc::Sender<Delivery>,
    inbox: Mutex<Inbox>,
    /// The beginning of the model's reply that is in progress.
    reply: Mutex<String>,
}

#[derive(Debug)]
struct Client {
    id: u64,
    events: mpsc::UnboundedSender<RunUpdate>,
    waiting: Arc<AtomicUsize>,
    /// The number of stored events that wait for the client, if there is a limit on them.
    stored: Option<Arc<AtomicUsize>>,
}

/// A client's end of the run: its events in order. The stream ends when the run has ended or
/// waits for a person.
///
/// Dropping the stream leaves the run. A run without clients is cancelled after 10 s unless it
/// was started as detached.
#[derive(Debug)]
pub struct EventStream {
    replayed: VecDeque<RunUpdate>,
    /// The number of the last stored event that was returned.
    last: u64,
    live: Option<LiveUpdates>,
}

#[derive(Debug)]
struct LiveUpdates {
    events: mpsc::UnboundedReceiver<RunUpdate>,
    waiting: Arc<AtomicUsize>,
    stored: Option<Arc<AtomicUsize>>,
    hub: Arc<Hub>,
    id: u64,
}

impl Hub {
    pub(crate) fn new(run_id: Arc<str>, cancel: CancellationToken) -> Arc<Self> {
        let (deliveries, inbox) = mpsc::channel(MAX_DELIVERIES);
        Arc::new(Self {
            run_id,
            clients: Mutex::default(),
            closed: AtomicBool::new(false),
            count: watch::Sender::new(0),
            ids: AtomicU64::new(0),
            last: AtomicU64::new(0),
            index: AtomicU64::new(0),
            cancel,
            reason: OnceLock::new(),
            over: CancellationToken::new(),
            deliveries,
            inbox: Mutex::new(Some(inbox)),
            reply: Mutex::default(),
        })
    }

    /// Returns the receiving end of the deliveries, once.
    pub(super) fn take_inbox(&self) -> Inbox {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns whether no more events follow.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Returns the token that ends the run.
    pub(crate) fn cancellation(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Ends the run for this reason.
    pub(crate) fn cancel(&self, reason: Option<String>) {
        if let Some(reason) = reason {
            // The first reason counts.
            let _ = self.reason.set(reason);
        }
        self.cancel.cancel();
    }

    /// Returns the reason for which the run was cancelled, if one was given.
    pub(super) fn reason(&self) -> Option<&String> {
        self.reason.get()
    }

    /// Waits until no more events follow.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        self.over.clone().cancelled_owned()
    }

    /// Delivers decisions to the run while it is at work. Returns `None` if it came to rest first.
    pub(crate) async fn deliver(&self, decisions: Vec<Decision>) -> Option<Result<(), HostError>> {
        let (taken, answer) = oneshot::channel();
        self.deliveries.send(Delivery { decisions, taken }).await.ok()?;
        answer.await.ok()
    }

    /// Subscribes from now on. If the hub is closed, the stream has no events.
    pub(crate) fn listen(self: &Arc<Self>) -> EventStream {
        self.subscribe(None)
    }

    /// Subscribes like [`listen`](Self::listen), but the stream ends if the client reads so slowly
    /// that too many stored events wait for it. It can return by the number of its last event.
    pub(crate) fn listen_bounded(self: &Arc<Self>) -> EventStream {
        self.subscribe(Some(Arc::default()))
    }

    fn subscribe(self: &Arc<Self>, stored: Option<Arc<AtomicUsize>>) -> EventStream {
        let (sender, receiver) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.closed.load(Ordering::Relaxed) {
            let text = self.reply.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if !text.is_empty() {
                waiting.fetch_add(1, Ordering::Relaxed);
                let piece = LiveContent::TextSoFar { text };
                // The receiver is in this function.
                let _ =
                    sender.send(RunUpdate::LiveUpdates(self.live(piece, self.index.load(Ordering::Relaxed))));
            }
            let (waiting, stored) = (Arc::clone(&waiting), stored.clone());
            clients.push(Client { id, events: sender, waiting, stored });
        }
        self.count.send_replace(clients.len());
        let live = LiveUpdates { events: receiver, waiting, stored, hub: Arc::clone(self), id };
        EventStream { replayed: VecDeque::new(), last: 0, live: Some(live) }
    }

    /// Closes the hub: the run has ended or rests, and no more events follow.
    pub(crate) fn close(&self) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(true, Ordering::Relaxed);
        clients.clear();
        self.over.cancel();
    }

    /// Waits until the run has had no clients for the given time.
    pub(crate) async fn is_abandoned(&self, patience: Duration) {
        let mut count = self.count.subscribe();
        loop {
            // The hub owns the sender, so neither wait fails.
            let _ = count.wait_for(|clients| *clients == 0).await;
            if tokio::time::timeout(patience, count.wait_for(|clients| *clients > 0)).await.is_err() {
                return;
            }
        }
    }

    /// Returns whether any client listens.
    pub(crate) fn has_clients(&self) -> bool {
        *self.count.borrow() > 0
    }

    pub(crate) fn stored(&self, events: &[Arc<StoredEvent>]) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let is_slow = |client: &Client| {
            client.stored.as_ref().is_some_and(|stored| stored.load(Ordering::Relaxed) >= MAX_STORED)
        };
        let before = clients.len();
        clients.retain(|client| !is_slow(client));
        if clients.len() < before {
            self.count.send_replace(clients.len());
        }
        self.reply.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for event in events {
            self.last.store(event.number, Ordering::Relaxed);
            for client in &*clients {
                if let Some(stored) = &client.stored {
                    stored.fetch_add(1, Ordering::Relaxed);
                }
                // A client that has left is removed from the list; the store has the event.
                let _ = client.events.send(RunUpdate::Stored(Arc::clone(event)));
            }
        }
    }

    /// Passes on an update of a child. Transient updates are dropped if the reader is slow; the
    /// child is never delayed.
    pub(super) fn child(&self, (call_id, ordinal): &ChildPlace, told: RunUpdate) {
        let is_transient = told.is_transient();
        let (run_id, call_id) = (Arc::clone(&self.run_id), call_id.clone());
        let told = RunUpdate::Child(ChildTold { run_id, call_id, ordinal: *ordinal, child: Box::new(told) });
        for client in &*self.clients.lock().unwrap_or_else(PoisonError::into_inner) {
            if is_transient {
                if client.waiting.load(Ordering::Relaxed) >= MAX_WAITING {
                    continue;
                }
                client.waiting.fetch_add(1, Ordering::Relaxed);
            }
            let _ = client.events.send(told.clone());
        }
    }

    /// Sends something transient; returns `false` if no client received it.
    pub(super) fn transient(&self, piece: LiveContent) -> bool {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        self.keep(&piece);
        let ready = |client: &&Client| client.waiting.load(Ordering::Relaxed) < MAX_WAITING;
        let ready: Vec<&Client> = clients.iter().filter(ready).collect();
        if ready.is_empty() {
            return false;
        }
        let index = self.index.fetch_add(1, Ordering::Relaxed) + 1;
        let told = RunUpdate::LiveUpdates(self.live(piece, index));
        for client in ready {
            client.waiting.fetch_add(1, Ordering::Relaxed);
            let _ = client.events.send(told.clone());
        }
        true
    }

    fn live(&self, piece: LiveContent, index: u64) -> LiveUpdate {
        LiveUpdate {
            run_id: Arc::clone(&self.run_id),
            after: self.last.load(Ordering::Relaxed),
            index,
            piece,
        }
    }

    /// Keeps the text of the reply in progress for clients that join.
    fn keep(&self, piece: &LiveContent) {
        let mut reply = self.reply.lock().unwrap_or_else(PoisonError::into_inner);
        match piece {
            LiveContent::TextDelta { text } if reply.len() + text.len() <= MAX_REPLY_BYTES => {
                reply.push_str(text);
            }
            LiveContent::ReplyRestarted { .. } => reply.clear(),
            _ => {}
        }
    }

    fn leave(&self, id: u64) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|client| client.id != id);
        self.count.send_replace(clients.len());
    }
}

impl EventStream {
    /// Creates a stream of stored events only.
    pub(crate) fn of_record(record: Vec<Arc<StoredEvent>>) -> Self {
        Self { replayed: record.into_iter().map(RunUpdate::Stored).collect(), last: 0, live: None }
    }

    /// Puts the stored events before this stream; an event that is in both is returned once.
    pub(crate) fn behind(mut self, record: Vec<Arc<StoredEvent>>, after: u64) -> Self {
        self.last = record.last().map_or(after, |event| event.number);
        self.replayed = record.into_iter().map(RunUpdate::Stored).collect();
        self
    }

    /// Returns the next event; `None` once the stream has ended.
    pub async fn next(&mut self) -> Option<RunUpdate> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for EventStream {
    type Item = RunUpdate;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RunUpdate>> {
        if let Some(told) = self.replayed.pop_front() {
            return Poll::Ready(Some(told));
        }
        let last = self.last;
        let Some(live) = &mut self.live else { return Poll::Ready(None) };
        loop {
            let polled = live.events.poll_recv(cx);
            if let (Poll::Ready(Some(RunUpdate::Stored(_))), Some(stored)) = (&polled, &live.stored) {
                stored.fetch_sub(1, Ordering::Relaxed);
            }
            match &polled {
                Poll::Ready(Some(RunUpdate::Stored(event))) if event.number <= last => continue,
                Poll::Ready(Some(told)) if told.is_transient() => {
                    live.waiting.fetch_sub(1, Ordering::Relaxed);
                }
                _ => {}
            }
            return polled;
        }
    }
}

impl Drop for LiveUpdates {
    fn drop(&mut self) {
        self.hub.leave(self.id);
    }
}
