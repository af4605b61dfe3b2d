//! Clients that listen to runs, disconnect, and reconnect.

use super::follower::REPLAYED;
use super::{Host, HostError};
use crate::run::{EventStream, RunError};
use crate::store::{CommitError, EventPage, Hints, PageLimit};
use crate::stream::{Hub, PATIENCE, Publisher};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tollgate_agent::run::{Event, StoredEvent};

/// How often a run of another host is looked at when no hint arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a client of a run waits for another host to take over.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(300);
/// The number of failed runs whose errors are kept for clients.
const MAX_FAILURES: usize = 256;

/// The epoch of a run's first driver.
pub(super) const FIRST_EPOCH: u64 = 1;

/// The errors with which this host stopped driving runs that have not ended, newest last.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<VecDeque<(Arc<str>, RunError)>>);

impl Failures {
    /// Returns the error with which this host stopped driving the run.
    pub(super) fn of(&self, run_id: &str) -> Option<RunError> {
        self.lock().iter().find(|(failed, _)| **failed == *run_id).map(|(_, why)| why.clone())
    }

    fn add(&self, run_id: &Arc<str>, why: &RunError) {
        let mut failures = self.lock();
        if failures.len() >= MAX_FAILURES {
            failures.pop_front();
        }
        failures.push_back((Arc::clone(run_id), why.clone()));
    }

    fn forget(&self, run_id: &str) {
        self.lock().retain(|(failed, _)| **failed != *run_id);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Arc<str>, RunError)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The work of a run, driven by the task that waits for it. If that task leaves, the work goes on in
/// a task of its own. A call over HTTP that had such a task from the start switched threads seven times
/// (docs/costs.md).
pub(super) struct ContinuedOnDrop<T: Send + 'static>(Option<BoxFuture<'static, Result<T, RunError>>>);

impl<T: Send + 'static> ContinuedOnDrop<T> {
    /// A panic of the work is an error, as it is in a task of its own.
    pub(super) fn new(work: BoxFuture<'static, Result<T, RunError>>) -> Self {
        let panicked = |_| Err(RunError::new("the run failed: its driver panicked"));
        let work = AssertUnwindSafe(work).catch_unwind();
        Self(Some(Box::pin(async move { work.await.unwrap_or_else(panicked) })))
    }
}

impl<T: Send + 'static> Future for ContinuedOnDrop<T> {
    type Output = Result<T, RunError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for ContinuedOnDrop<T> {
    fn drop(&mut self) {
        // A runtime that shuts down ends its tasks, too.
        if let (Some(work), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

impl Host {
    /// Returns the events of a run after the one with this number (0 for all), followed by new
    /// events until it rests. A client that lost its stream can reconnect with this, and misses no
    /// stored event. If another host drives the run, only stored events follow.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub async fn follow(&self, run_id: &str, after: u64) -> Result<EventStream, HostError> {
        let listening = self.live(run_id).map(|hub| hub.listen());
        self.follow_from(run_id, after, listening).await
    }

    /// Like [`follow`](Self::follow), but the stream ends if its client reads too slowly.
    pub(super) async fn follow_bounded(&self, run_id: &str, after: u64) -> Result<EventStream, HostError> {
        let listening = self.live(run_id).map(|hub| hub.listen_bounded());
        self.follow_from(run_id, after, listening).await
    }

    /// Puts the stored events before a stream that was subscribed to earlier, so that no event falls
    /// in between.
    async fn follow_from(
        &self,
        run_id: &str,
        after: u64,
        listening: Option<EventStream>,
    ) -> Result<EventStream, HostError> {
        match listening {
            Some(stream) => Ok(stream.behind(self.record(run_id, after).await?, after)),
            None => self.follow_stored(run_id, after).await,
        }
    }

    /// Follows a run that this host does not drive.
    async fn follow_stored(&self, run_id: &str, after: u64) -> Result<EventStream, HostError> {
        // Events that are stored from now on are hinted at.
        let hints = self.inner.services.store.watch();
        let mut record = self.record(run_id, after).await?;
        let found = self.summary(run_id).await?.ok_or_else(|| HostError::UnknownRun(run_id.to_owned()))?;
        let last = record.last().map_or(after, |event| event.number);
        // Another host drives the run, or may claim it soon.
        if found.is_driven || found.queued {
            return Ok(self.tail(run_id, record, after, (hints, found.events != last)));
        }
        if found.events > last {
            // It has come to rest since its record was read.
            record.extend(self.record(run_id, last).await?);
        }
        Ok(EventStream::of_record(record))
    }

    /// Returns the stored events of a run after the one with this number (0 for all), as clients
    /// see them: without the values of state keys that are not
    /// [visible](crate::HostBuilder::visible_keys).
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn record(&self, run_id: &str, after: u64) -> Result<Vec<Arc<StoredEvent>>, HostError> {
        let record = self.inner.services.store.events(run_id, after).await?;
        Ok(record.into_iter().map(|event| self.inner.bus.visible().of(event)).collect())
    }

    /// Returns the first stored events of a run after the one with this number (0 for all), within a
    /// limit, as clients see them.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn record_page(
        &self,
        run_id: &str,
        after: u64,
        limit: PageLimit,
    ) -> Result<EventPage, HostError> {
        let EventPage { events, has_more } =
            self.inner.services.store.events_page(run_id, after, limit).await?;
        let events = events.into_iter().map(|event| self.inner.bus.visible().of(event)).collect();
        Ok(EventPage { events, has_more })
    }

    /// Returns whether clients see the values of a state key.
    #[must_use]
    pub fn shows_key(&self, key: &str) -> bool {
        self.inner.bus.visible().has(key)
    }

    /// Returns a stored event without the values of state keys that are not visible, as clients
    /// receive it.
    #[must_use]
    pub fn visible(&self, event: Arc<StoredEvent>) -> Arc<StoredEvent> {
        self.inner.bus.visible().of(event)
    }

    /// Returns the event hub of a run that this host is driving.
    pub(super) fn live(&self, run_id: &str) -> Option<Arc<Hub>> {
        let live = self.inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.get(run_id).and_then(Weak::upgrade)
    }

    /// Returns these events and those that are stored later, until the run rests or no client is
    /// left. The hints are older than these events; `has_changed` if the run has others by now.
    fn tail(
        &self,
        run_id: &str,
        record: Vec<Arc<StoredEvent>>,
        after: u64,
        (mut hints, has_changed): (Hints, bool),
    ) -> EventStream {
        let hub = Hub::new(Arc::from(run_id), false, CancellationToken::new());
        let mut last = record.last().map_or(after, |event| event.number);
        let stream = hub.listen().behind(record, after);
        let (host, run_id) = (self.clone(), Arc::<str>::from(run_id));
        tokio::spawn(async move {
            let mut alone_since: Option<Instant> = None;
            if !has_changed {
                until_hinted(&mut hints, &run_id).await;
            }
            while hub.has_clients() {
                // If the store cannot be read now, the next look reads it.
                let EventPage { events, has_more } =
                    host.record_page(&run_id, last, REPLAYED).await.unwrap_or_default();
                if let Some(newest) = events.last() {
                    last = newest.number;
                    let rests = matches!(newest.event, Event::RunWaiting | Event::RunFinished { .. });
                    hub.publish_stored(&events);
                    match has_more {
                        true => continue,
                        false if rests => break,
                        false => alone_since = None,
                    }
                } else {
                    let found = host.summary(&run_id).await.ok().flatten();
                    if found.as_ref().is_some_and(|run| run.events < last) {
                        tracing::warn!("{}: the run {run_id}", CommitError::Behind);
                        break;
                    }
                    let is_open = found.is_none_or(|run| run.is_driven || run.queued);
                    // A run whose host is gone is taken over by another one, if there is one.
                    alone_since = (!is_open).then(|| alone_since.unwrap_or_else(Instant::now));
                    if alone_since.is_some_and(|since| since.elapsed() > TAKEN_OVER_WITHIN) {
                        break;
                    }
                }
                until_hinted(&mut hints, &run_id).await;
            }
            hub.close();
        });
        stream
    }

    /// Returns the event hub of a run that begins or continues in this epoch, with its subscribers,
    /// and the first client's stream.
    pub(super) fn listened(
        &self,
        (run_id, epoch): (&Arc<str>, u64),
        is_call: bool,
        cancel: &CancellationToken,
    ) -> (Arc<Hub>, Publisher, EventStream) {
        self.inner.failures.forget(run_id);
        let hub = Hub::new(Arc::clone(run_id), is_call, cancel.clone());
        let mut live = self.inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        // Not at each start: there may be many runs.
        if live.len() == live.capacity() {
            live.retain(|_, hub| hub.strong_count() > 0);
        }
        // A second start with the same id fails, and must not hide the first. The earlier driver of a
        // run that was acquired has stored its last event, though it may not have closed its hub yet.
        let other = live.get(run_id).and_then(Weak::upgrade);
        if epoch > FIRST_EPOCH || other.is_none_or(|other| other.is_closed()) {
            live.insert(Arc::clone(run_id), Arc::downgrade(&hub));
        }
        let publisher = Publisher::new(Arc::clone(&hub), Arc::clone(&self.inner.bus), Arc::clone(run_id));
        let events = hub.listen();
        drop(live);
        self.inner.followers.wake(run_id);
        (hub, publisher, events)
    }

    /// Drives a run until it ends or waits, and then ends the streams of its clients, even if the driver
    /// panics. If all clients have been gone for a while, `abandoned` is cancelled; a detached run has no
    /// such token.
    pub(super) async fn drive_attended<T>(
        &self,
        drive: impl Future<Output = Result<T, RunError>>,
        hub: Arc<Hub>,
        abandoned: Option<CancellationToken>,
    ) -> Result<T, RunError> {
        let hub = HubGuard(hub);
        let hub = &hub.0;
        let given_up = async {
            match abandoned {
                None => std::future::pending::<Infallible>().await,
                Some(cancel) => {
                    hub.is_abandoned(PATIENCE).await;
                    cancel.cancel();
                    std::future::pending::<Infallible>().await
                }
            }
        };
        let ended = tokio::select! {
            biased;
            ended = drive => ended,
            never = given_up => match never {},
        };
        if let Err(why) = &ended {
            self.inner.failures.add(hub.run_id(), why);
        }
        ended
    }
}

/// Closes the hub when it is dropped.
struct HubGuard(Arc<Hub>);

impl Drop for HubGuard {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Waits until a run may have changed, or a look at it is due.
async fn until_hinted(hints: &mut Hints, run_id: &str) {
    let hinted = async { while !hints.next().await.is_about(run_id) {} };
    let _ = tokio::time::timeout(POLL_INTERVAL, hinted).await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn e1_clients_find_the_driver_that_acquired_a_run_last() {
        let (host, run_id) = (Host::builder().build().unwrap(), Arc::<str>::from("r"));
        let cancel = CancellationToken::new();
        let listened = |epoch| host.listened((&run_id, epoch), true, &cancel);
        let is_live = |hub: &Arc<Hub>| host.live("r").is_some_and(|live| Arc::ptr_eq(&live, hub));
        let (first, ..) = listened(FIRST_EPOCH);
        let (second_start, ..) = listened(FIRST_EPOCH);
        assert!(is_live(&first) && !is_live(&second_start));
        let (next, ..) = listened(FIRST_EPOCH + 1);
        assert!(is_live(&next), "although the first one is still open");
        first.close();
        assert!(is_live(&next));
    }

    #[tokio::test]
    async fn e1_the_streams_of_a_driver_that_panics_end() {
        let (host, run_id) = (Host::builder().build().unwrap(), Arc::<str>::from("r"));
        let (hub, _publisher, mut events) =
            host.listened((&run_id, FIRST_EPOCH), true, &CancellationToken::new());
        let drive =
            std::panic::AssertUnwindSafe(host.drive_attended::<()>(async { panic!("a defect") }, hub, None));
        assert!(futures::FutureExt::catch_unwind(drive).await.is_err());
        let ended = tokio::time::timeout(Duration::from_secs(10), events.next()).await;
        assert!(matches!(ended, Ok(None)));
    }
}
