//! The clients of a run, and what happens when the last one leaves.
//!
//! Clients come and go while the run continues. A client that returns names the last event it has
//! and misses none. A run without clients is cancelled after a while, unless it was started as
//! detached.

use super::inbox::{Delivery, Inbox, MAX_DELIVERIES};
use super::update::{ChildUpdate, LiveContent, LiveUpdate, RunUpdate};
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
use tollgate_agent::json::written_bytes;
use tollgate_agent::run::child_plan::ChildPlace;
use tollgate_agent::run::{Decision, StoredEvent};

/// The maximum number of transient events that wait for a slow reader; further ones are dropped.
const MAX_WAITING: usize = 4_096;
/// The maximum number of bytes of such events; one that begins below it is still sent.
const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;
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
    /// Whether the run is a direct call, which no other host continues.
    is_call: bool,
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
    /// The text of the model's reply that is in progress.
    reply: Mutex<ReplySoFar>,
}

/// The text of a reply in progress, which joining clients receive.
#[derive(Debug, Default)]
struct ReplySoFar {
    text: String,
    /// Whether the text is too long to be kept.
    is_too_long: bool,
}

/// An update that waits for a client. The queue of each client has room for 32 of them from the start,
/// so they are small.
#[derive(Debug, Clone)]
enum QueuedUpdate {
    Stored(Arc<SharedEvent>),
    /// A transient event, or an update of a child.
    Other(Arc<RunUpdate>),
}

impl QueuedUpdate {
    fn stored(event: Arc<StoredEvent>) -> Self {
        Self::Stored(Arc::new(SharedEvent { event, bytes: OnceLock::new() }))
    }
}

impl From<QueuedUpdate> for RunUpdate {
    fn from(queued: QueuedUpdate) -> Self {
        match queued {
            QueuedUpdate::Stored(shared) => Self::Stored(Arc::clone(&shared.event)),
            QueuedUpdate::Other(update) => Arc::unwrap_or_clone(update),
        }
    }
}

/// A stored event that several clients receive. They share the measure of its size.
#[derive(Debug)]
struct SharedEvent {
    event: Arc<StoredEvent>,
    bytes: OnceLock<usize>,
}

impl SharedEvent {
    fn bytes(&self) -> usize {
        *self.bytes.get_or_init(|| written_bytes(&self.event.event))
    }
}

#[derive(Debug)]
struct Client {
    id: u64,
    events: mpsc::UnboundedSender<QueuedUpdate>,
    waiting: Arc<PendingUpdates>,
    /// The number of stored events that wait for the client, if there is a limit on them.
    stored: Option<Arc<AtomicUsize>>,
    /// Whether it joined in the middle of a reply whose beginning is not kept. It receives no more of
    /// that reply than the stored event, which has all of it.
    lacks_beginning: bool,
}

impl Client {
    /// Returns whether the client receives a transient event.
    fn takes(&self, piece: &LiveContent) -> bool {
        let is_rest = self.lacks_beginning && matches!(piece, LiveContent::TextDelta { .. });
        !is_rest && self.waiting.has_room()
    }
}

/// The transient events that wait for a client.
#[derive(Debug, Default)]
struct PendingUpdates {
    events: AtomicUsize,
    bytes: AtomicUsize,
}

impl PendingUpdates {
    fn has_room(&self) -> bool {
        self.events.load(Ordering::Relaxed) < MAX_WAITING
            && self.bytes.load(Ordering::Relaxed) < MAX_WAITING_BYTES
    }

    fn add(&self, bytes: usize) {
        self.events.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.events.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A client's end of the run: its events in order. The stream ends when the run has ended or
/// waits for a person.
///
/// Dropping the stream leaves the run. A run without clients is cancelled after 10 s unless it
/// was started as detached.
#[derive(Debug)]
pub struct EventStream {
    replayed: VecDeque<QueuedUpdate>,
    /// The number of the last stored event that was returned.
    last: u64,
    live: Option<LiveUpdates>,
}

#[derive(Debug)]
struct LiveUpdates {
    events: mpsc::UnboundedReceiver<QueuedUpdate>,
    waiting: Arc<PendingUpdates>,
    stored: Option<Arc<AtomicUsize>>,
    hub: Arc<Hub>,
    id: u64,
}

impl Hub {
    pub(crate) fn new(run_id: Arc<str>, is_call: bool, cancel: CancellationToken) -> Arc<Self> {
        let (deliveries, inbox) = mpsc::channel(MAX_DELIVERIES);
        Arc::new(Self {
            run_id,
            is_call,
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

    /// Returns the id of the run.
    pub(crate) fn run_id(&self) -> &Arc<str> {
        &self.run_id
    }

    /// Returns whether the run is a direct call, which no other host continues.
    pub(crate) fn is_call(&self) -> bool {
        self.is_call
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
        let waiting = Arc::<PendingUpdates>::default();
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.closed.load(Ordering::Relaxed) {
            let (text, lacks_beginning) = {
                let reply = self.reply.lock().unwrap_or_else(PoisonError::into_inner);
                (reply.text.clone(), reply.is_too_long)
            };
            if !text.is_empty() {
                let piece = LiveContent::TextSoFar { text };
                let update = RunUpdate::Live(self.live(piece, self.index.load(Ordering::Relaxed)));
                waiting.add(update.transient_bytes());
                // The receiver is in this function.
                let _ = sender.send(QueuedUpdate::Other(Arc::new(update)));
            }
            let (waiting, stored) = (Arc::clone(&waiting), stored.clone());
            clients.push(Client { id, events: sender, waiting, stored, lacks_beginning });
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

    pub(crate) fn publish_stored(&self, events: &[Arc<StoredEvent>]) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let is_slow = |client: &Client| {
            client.stored.as_ref().is_some_and(|stored| stored.load(Ordering::Relaxed) >= MAX_STORED)
        };
        let before = clients.len();
        clients.retain(|client| !is_slow(client));
        if clients.len() < before {
            self.count.send_replace(clients.len());
        }
        self.begin_reply(&mut clients);
        for event in events {
            self.last.store(event.number, Ordering::Relaxed);
            let queued = QueuedUpdate::stored(Arc::clone(event));
            for client in &*clients {
                if let Some(stored) = &client.stored {
                    stored.fetch_add(1, Ordering::Relaxed);
                }
                // A client that has left is removed from the list; the store has the event.
                let _ = client.events.send(queued.clone());
            }
        }
    }

    /// Passes on an update of a child. Transient updates are dropped if the reader is slow; the
    /// child is never delayed.
    pub(super) fn forward_child(&self, (call_id, ordinal): &ChildPlace, update: RunUpdate) {
        let (is_transient, bytes) = (update.is_transient(), update.transient_bytes());
        let (run_id, call_id) = (Arc::clone(&self.run_id), call_id.clone());
        let update = ChildUpdate { run_id, call_id, ordinal: *ordinal, child: Box::new(update) };
        let update = QueuedUpdate::Other(Arc::new(RunUpdate::Child(update)));
        for client in &*self.clients.lock().unwrap_or_else(PoisonError::into_inner) {
            if is_transient {
                if !client.waiting.has_room() {
                    continue;
                }
                client.waiting.add(bytes);
            }
            let _ = client.events.send(update.clone());
        }
    }

    /// Sends something transient; returns `false` if no client received it.
    pub(super) fn publish_live(&self, piece: LiveContent) -> bool {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        match &piece {
            LiveContent::TextDelta { text } => self.keep(text),
            LiveContent::ReplyRestarted { .. } => self.begin_reply(&mut clients),
            _ => {}
        }
        let ready: Vec<&Client> = clients.iter().filter(|client| client.takes(&piece)).collect();
        if ready.is_empty() {
            return false;
        }
        let index = self.index.fetch_add(1, Ordering::Relaxed) + 1;
        let update = RunUpdate::Live(self.live(piece, index));
        let bytes = update.transient_bytes();
        let update = QueuedUpdate::Other(Arc::new(update));
        for client in ready {
            client.waiting.add(bytes);
            let _ = client.events.send(update.clone());
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

    /// Keeps a piece of the reply in progress for clients that join.
    fn keep(&self, piece: &str) {
        let mut reply = self.reply.lock().unwrap_or_else(PoisonError::into_inner);
        if reply.text.len() + piece.len() > MAX_REPLY_BYTES {
            *reply = ReplySoFar { text: String::new(), is_too_long: true };
        }
        if !reply.is_too_long {
            reply.text.push_str(piece);
        }
    }

    /// Forgets the reply in progress: it is stored, or begins again.
    fn begin_reply(&self, clients: &mut [Client]) {
        *self.reply.lock().unwrap_or_else(PoisonError::into_inner) = ReplySoFar::default();
        clients.iter_mut().for_each(|client| client.lacks_beginning = false);
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
        Self { replayed: record.into_iter().map(QueuedUpdate::stored).collect(), last: 0, live: None }
    }

    /// Puts the stored events before this stream; an event that is in both is returned once.
    pub(crate) fn behind(mut self, record: Vec<Arc<StoredEvent>>, after: u64) -> Self {
        self.last = record.last().map_or(after, |event| event.number);
        self.replayed = record.into_iter().map(QueuedUpdate::stored).collect();
        self
    }

    /// Returns the next event; `None` once the stream has ended.
    pub async fn next(&mut self) -> Option<RunUpdate> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Returns the next event, with the size of its text if it is a stored one, and 0 otherwise.
    pub(crate) async fn next_measured(&mut self) -> Option<(RunUpdate, usize)> {
        let queued = std::future::poll_fn(|cx| self.poll_queued(cx)).await?;
        let bytes = match &queued {
            QueuedUpdate::Stored(shared) => shared.bytes(),
            QueuedUpdate::Other(_) => 0,
        };
        Some((queued.into(), bytes))
    }

    fn poll_queued(&mut self, cx: &mut Context<'_>) -> Poll<Option<QueuedUpdate>> {
        if let Some(queued) = self.replayed.pop_front() {
            return Poll::Ready(Some(queued));
        }
        let Some(live) = &mut self.live else { return Poll::Ready(None) };
        loop {
            let polled = live.events.poll_recv(cx);
            match &polled {
                Poll::Ready(Some(QueuedUpdate::Stored(shared))) => {
                    if let Some(stored) = &live.stored {
                        stored.fetch_sub(1, Ordering::Relaxed);
                    }
                    if shared.event.number <= self.last {
                        continue;
                    }
                }
                Poll::Ready(Some(QueuedUpdate::Other(update))) if update.is_transient() => {
                    live.waiting.remove(update.transient_bytes());
                }
                _ => {}
            }
            return polled;
        }
    }
}

impl Stream for EventStream {
    type Item = RunUpdate;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RunUpdate>> {
        self.poll_queued(cx).map(|queued| queued.map(RunUpdate::from))
    }
}

impl Drop for LiveUpdates {
    fn drop(&mut self) {
        self.hub.leave(self.id);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use futures::FutureExt as _;
    use tollgate_agent::run::Event;

    fn hub() -> Arc<Hub> {
        Hub::new(Arc::from("run"), false, CancellationToken::new())
    }

    fn stored(hub: &Hub, number: u64) {
        let run_id = Arc::clone(&hub.run_id);
        hub.publish_stored(&[Arc::new(StoredEvent { run_id, number, at_ms: 0, event: Event::RunWaiting })]);
    }

    fn says(hub: &Hub, text: &str) {
        hub.publish_live(LiveContent::TextDelta { text: text.to_owned() });
    }

    /// Returns everything that waits for a client, and whether its stream has ended.
    fn read(client: &mut EventStream) -> (Vec<RunUpdate>, bool) {
        let mut updates = Vec::new();
        while let Some(next) = client.next().now_or_never() {
            match next {
                Some(update) => updates.push(update),
                None => return (updates, true),
            }
        }
        (updates, false)
    }

    /// Returns the text that waits for a client.
    fn text(client: &mut EventStream) -> String {
        let pieces = read(client).0.into_iter().filter_map(|update| match update {
            RunUpdate::Live(LiveUpdate {
                piece: LiveContent::TextDelta { text } | LiveContent::TextSoFar { text },
                ..
            }) => Some(text),
            _ => None,
        });
        pieces.collect()
    }

    #[test]
    fn clients_share_the_measure_of_a_stored_event() {
        let hub = hub();
        let mut clients = [hub.listen_bounded(), hub.listen_bounded(), hub.listen()];
        stored(&hub, 1);
        let shared = clients.each_mut().map(|client| {
            let Some(QueuedUpdate::Stored(shared)) =
                std::future::poll_fn(|cx| client.poll_queued(cx)).now_or_never().flatten()
            else {
                panic!("an event waits for each client")
            };
            shared
        });
        assert!(shared.iter().all(|one| Arc::ptr_eq(one, &shared[0])));
        assert_eq!(shared[0].bytes(), written_bytes(&Event::RunWaiting));
        says(&hub, "Next.");
        stored(&hub, 2);
        let [mut measured, ..] = clients;
        let sizes = [(); 2].map(|()| measured.next_measured().now_or_never().flatten().unwrap().1);
        assert_eq!(sizes, [0, shared[0].bytes()]);
    }

    /// 32 of them are the larger part of what an idle stream takes.
    #[test]
    fn what_waits_for_a_client_is_small() {
        assert_eq!(size_of::<QueuedUpdate>(), 2 * size_of::<usize>());
    }

    #[test]
    fn a_reader_that_is_too_slow_is_cut_off_and_others_lose_nothing() {
        let hub = hub();
        let (mut slow, mut fast) = (hub.listen_bounded(), hub.listen_bounded());
        let (most, mut got) = (MAX_STORED as u64, Vec::new());
        for number in 1..=most + 2 {
            stored(&hub, number);
            got.extend(read(&mut fast).0);
        }
        assert_eq!(got.len() as u64, most + 2);
        let (kept, is_cut) = read(&mut slow);
        assert_eq!((kept.len() as u64, is_cut), (most, true), "no more than that waits for it");
        assert!(!read(&mut fast).1);
    }

    #[test]
    fn a_client_that_joins_in_the_middle_of_a_reply_has_all_of_it_or_nothing() {
        let hub = hub();
        says(&hub, "One ");
        let mut joined = hub.listen();
        says(&hub, "two.");
        assert_eq!(text(&mut joined), "One two.");
        // A text that is too long is not kept, also if a later piece would fit.
        says(&hub, &"x".repeat(MAX_REPLY_BYTES));
        says(&hub, "y");
        let mut late = hub.listen();
        says(&hub, "z");
        assert_eq!((text(&mut late).as_str(), text(&mut joined).len()), ("", MAX_REPLY_BYTES + 2));
        stored(&hub, 1);
        says(&hub, "Next.");
        assert_eq!((text(&mut late).as_str(), text(&mut hub.listen()).as_str()), ("Next.", "Next."));
    }

    /// A remote agent or a model's server can send large pieces faster than a client reads them.
    #[test]
    fn z3_what_waits_for_a_client_that_does_not_read_is_bounded_in_bytes() {
        let hub = hub();
        let mut client = hub.listen();
        let sends = || hub.publish_live(LiveContent::TextDelta { text: "x".repeat(1 << 20) });
        let sent = (0..100).filter(|_| sends()).count();
        assert_eq!(sent, MAX_WAITING_BYTES >> 20);
        assert!(client.next().now_or_never().flatten().is_some());
        assert!(sends(), "what was read makes room");
        assert!(!sends());
        assert_eq!(read(&mut client).0.len(), sent);
    }
}
