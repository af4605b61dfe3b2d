//! Subscribers to the events of every run of a host.
//!
//! Subscribers receive events after the fact, each on its own thread behind a bounded queue. A
//! slow subscriber loses events and receives their count. A subscriber that panics still receives
//! the next event. Neither delays or fails a run.

use super::update::LiveContent;
use super::visibility::{Pattern, VisibleKeys};
use serde_json::{Value, json};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tollgate_agent::json::Measure;
use tollgate_agent::run::{CallEnd, Event, Run, StoredEvent};

/// The maximum number of events queued for one subscriber; further ones are dropped and counted.
const MAX_QUEUED: usize = 1_024;
/// The memory of these events, in bytes, at which further ones are dropped. The last one may exceed it, so that a
/// large event reaches a subscriber that still handles a small one.
const MAX_QUEUED_BYTES: u64 = 32 << 20;

/// An event of a run, as sent to subscribers.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// `run.finished`, `call.started`, ...; or the short name that was subscribed to.
    pub name: &'static str,
    /// The run's id.
    pub run_id: Arc<str>,
    /// The number of a stored event; `None` for a transient one.
    pub number: Option<u64>,
    /// The stored event, without the values of keys that are not visible. Short names have their
    /// own payloads: `tool.call` has `{tool, args}`, `tool.result` `{tool, response}`,
    /// `state.changed` `{revision, updates}`, `custom` `{plugin, call_id, name, data}`, and
    /// `bus.dropped` `{count}`.
    pub payload: Value,
}

/// A receiver of run events. Closures implement it.
pub trait Subscriber: Send + Sync + 'static {
    /// Handles an event. It may take as long as it likes; a panic affects only the subscriber.
    fn on_event(&self, run_event: &RunEvent);
}

impl<F: Fn(&RunEvent) + Send + Sync + 'static> Subscriber for F {
    fn on_event(&self, run_event: &RunEvent) {
        self(run_event);
    }
}

/// The subscribers of a host. They end with the host.
#[derive(Default)]
pub(crate) struct Bus {
    subscriptions: Vec<Subscription>,
    /// The keys whose values subscribers and clients may see.
    visible: VisibleKeys,
}

struct Subscription {
    wanted: Pattern,
    queue: SyncSender<QueuedEvent>,
    counts: Arc<QueueCounts>,
}

/// The counts of one subscriber's queue.
#[derive(Default)]
struct QueueCounts {
    /// The number of events that were dropped since the last `bus.dropped`.
    dropped: AtomicU64,
    /// The memory of the queued events, in bytes.
    bytes: AtomicU64,
}

/// An event with its memory in bytes.
struct QueuedEvent {
    run_event: RunEvent,
    bytes: u64,
}

impl Bus {
    /// Subscribes to events of this name; a pattern that ends in `*` matches every name with that
    /// prefix.
    pub(crate) fn subscribe(&mut self, pattern: &str, subscriber: Arc<dyn Subscriber>) {
        let (queue, waiting) = sync_channel(MAX_QUEUED);
        let counts = Arc::<QueueCounts>::default();
        let counted = Arc::clone(&counts);
        let thread = std::thread::Builder::new().name("tollgate-subscriber".to_owned());
        // Without a thread, the queue is never read and every event counts as dropped.
        if let Err(why) = thread.spawn(move || attend(&waiting, subscriber.as_ref(), &counted)) {
            tracing::warn!("cannot start the thread of a subscriber to {pattern}: {why}");
        }
        self.subscriptions.push(Subscription { wanted: Pattern::new(pattern), queue, counts });
    }

    /// Makes the values of these keys visible, in addition to the others.
    pub(crate) fn show(&mut self, pattern: &str) {
        self.visible.add(pattern);
    }

    /// Returns the keys whose values are visible.
    pub(crate) fn visible(&self) -> &VisibleKeys {
        &self.visible
    }

    pub(super) fn publish_stored(&self, events: &[Arc<StoredEvent>], run: &Run) {
        if self.subscriptions.is_empty() {
            return;
        }
        for event in events {
            let tell = |name, payload| RunEvent {
                name,
                run_id: Arc::clone(&event.run_id),
                number: Some(event.number),
                payload,
            };
            self.publish(&|| tell(name_of(&event.event), json!(event)), name_of(&event.event));
            let changed = self.visible.changed(&event.event, run).map(|changed| ("state.changed", changed));
            for (name, payload) in short(&event.event, run).into_iter().chain(changed) {
                self.publish_short(&tell(name, payload));
            }
        }
    }

    pub(super) fn publish_live(&self, run_id: &Arc<str>, piece: &LiveContent) {
        let name = name_of_piece(piece);
        let run_event = || RunEvent { name, run_id: Arc::clone(run_id), number: None, payload: json!(piece) };
        self.publish(&run_event, name);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }

    fn publish(&self, run_event: &dyn Fn() -> RunEvent, name: &str) {
        for subscription in self.subscriptions.iter().filter(|s| s.wanted.is(name)) {
            subscription.tell(run_event());
        }
    }

    /// Publishes an event under a short name. Short names are aliases: a subscriber to everything
    /// does not receive an event twice.
    fn publish_short(&self, run_event: &RunEvent) {
        let everything = Pattern::Prefix(String::new());
        for subscription in &self.subscriptions {
            if subscription.wanted != everything && subscription.wanted.is(run_event.name) {
                subscription.tell(run_event.clone());
            }
        }
    }
}

impl Subscription {
    fn tell(&self, run_event: RunEvent) {
        let bytes = Measure::of(&run_event.payload).parsed_bytes;
        let before = self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before >= MAX_QUEUED_BYTES || self.queue.try_send(QueuedEvent { run_event, bytes }).is_err() {
            self.counts.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn attend(waiting: &Receiver<QueuedEvent>, subscriber: &dyn Subscriber, counts: &QueueCounts) {
    while let Ok(QueuedEvent { run_event, bytes }) = waiting.recv() {
        let count = counts.dropped.swap(0, Ordering::Relaxed);
        if count > 0 {
            let run_id = Arc::clone(&run_event.run_id);
            tell(
                subscriber,
                &RunEvent { name: "bus.dropped", run_id, number: None, payload: json!({"count": count}) },
            );
        }
        tell(subscriber, &run_event);
        counts.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn tell(subscriber: &dyn Subscriber, run_event: &RunEvent) {
    if std::panic::catch_unwind(AssertUnwindSafe(|| subscriber.on_event(run_event))).is_err() {
        tracing::warn!("a subscriber panicked on the event {}", run_event.name);
    }
}

/// Returns the short names of the event, with their payloads.
fn short(event: &Event, run: &Run) -> Vec<(&'static str, Value)> {
    match event {
        Event::CallStarted { call_id, .. } => {
            let calls = run.calls().iter().filter(|call| call.id == *call_id);
            let told = calls.map(|call| {
                let args = call.arguments.as_ref().map(|arguments| arguments.value());
                ("tool.call", json!({"tool": call.tool_name, "args": args}))
            });
            told.collect()
        }
        Event::CallHooked { call_id, answers, .. } => {
            let events = answers.iter().flat_map(|answer| {
                answer.events.iter().map(|event| {
                    json!({
                        "plugin": answer.plugin,
                        "call_id": call_id,
                        "name": event.name,
                        "data": event.data,
                    })
                })
            });
            events.map(|event| ("custom", event)).collect()
        }
        Event::CallFinished(finished) => {
            let response = match &finished.end {
                CallEnd::Result(result) => json!(result),
                CallEnd::Fault(fault) => json!({"error": fault}),
            };
            vec![("tool.result", json!({"tool": finished.tool_name, "response": response}))]
        }
        _ => Vec::new(),
    }
}

fn name_of(event: &Event) -> &'static str {
    match event {
        Event::RunStarted { .. } => "run.started",
        Event::MessageAdded { .. } => "message.added",
        Event::StepStarted { .. } => "step.started",
        Event::ModelHooked { .. } => "model.hooked",
        Event::ModelReplied { .. } => "model.replied",
        Event::CallProposed(_) => "call.proposed",
        Event::CallValidated { .. } => "call.validated",
        Event::CallGated { .. } => "call.gated",
        Event::BatchStarted { .. } => "batch.started",
        Event::CallStarted { .. } => "call.started",
        Event::CallRetried { .. } => "call.retried",
        Event::CallTook { .. } => "call.took",
        Event::CallReturned { .. } => "call.returned",
        Event::CallConflicted { .. } => "call.conflicted",
        Event::CallHooked { .. } => "call.hooked",
        Event::CallEnding(_) => "call.ending",
        Event::CallFinished(_) => "call.finished",
        Event::CallSuspended(_) => "call.suspended",
        Event::CallDecided { .. } => "call.decided",
        Event::RunSeeded { .. } => "run.seeded",
        Event::ChildStarted { .. } => "child.started",
        Event::ChildWaiting { .. } => "child.waiting",
        Event::ChildFinished { .. } => "child.finished",
        Event::Transferred { .. } => "run.transferred",
        Event::TurnCut { .. } => "turn.cut",
        Event::StepFinished { .. } => "step.finished",
        Event::RunWaiting => "run.waiting",
        Event::RunFinished { .. } => "run.finished",
    }
}

fn name_of_piece(piece: &LiveContent) -> &'static str {
    match piece {
        LiveContent::TextDelta { .. } => "text.delta",
        LiveContent::TextSoFar { .. } => "text.so_far",
        LiveContent::ReasoningDelta { .. } => "reasoning.delta",
        LiveContent::ReplyRestarted { .. } => "reply.restarted",
        LiveContent::CallReport { .. } => "call.report",
        LiveContent::CallConsole { .. } => "call.console",
        LiveContent::CallDenied { .. } => "call.denied",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc;
    use std::time::Duration;

    fn event_of(bytes: usize) -> RunEvent {
        let payload = Value::from("x".repeat(bytes));
        RunEvent { name: "call.finished", run_id: "r".into(), number: None, payload }
    }

    #[test]
    fn a_large_event_waits_for_a_subscriber_that_handles_a_small_one() {
        let (end, wait) = mpsc::channel::<()>();
        let (wait, (taken, lengths)) = (Mutex::new(wait), mpsc::channel());
        let mut bus = Bus::default();
        let handles = move |run_event: &RunEvent| {
            let _ = wait.lock().unwrap().recv();
            let _ = taken.send(run_event.payload.as_str().unwrap().len());
        };
        bus.subscribe("*", Arc::new(handles));
        let large = usize::try_from(MAX_QUEUED_BYTES).unwrap() + 1;
        for bytes in [1, large] {
            bus.subscriptions[0].tell(event_of(bytes));
        }
        drop(end);
        let taken = [(); 2].map(|()| lengths.recv_timeout(Duration::from_secs(10)).unwrap());
        assert_eq!(taken, [1, large]);
    }

    #[test]
    fn z3_large_events_that_a_subscriber_does_not_take_are_dropped() {
        let (end, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let mut bus = Bus::default();
        let slow = move |_: &RunEvent| {
            let _ = wait.lock().unwrap().recv();
        };
        bus.subscribe("*", Arc::new(slow));
        let subscription = &bus.subscriptions[0];
        for _ in 0..100 {
            subscription.tell(event_of(1 << 20));
        }
        let queued_bytes = subscription.counts.bytes.load(Ordering::Relaxed);
        assert!((1 << 20..=MAX_QUEUED_BYTES + (2 << 20)).contains(&queued_bytes), "{queued_bytes}");
        drop(end);
        let is_empty = |_| {
            std::thread::sleep(Duration::from_millis(10));
            subscription.counts.bytes.load(Ordering::Relaxed) == 0
        };
        assert!((0..1_000).any(is_empty), "events that were taken leave their memory");
    }
}
