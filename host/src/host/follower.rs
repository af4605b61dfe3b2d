//! Following a run over its rests and over processes. Whatever drives the run, its stored events
//! arrive once each and in order.

use super::{Host, HostError};
use crate::run::{EventStream, RunUpdate};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tollgate_agent::run::Event;

/// How often the store is asked whether another process has committed.
const LOOK: Duration = Duration::from_millis(250);
/// The number of runs from which entries without followers are removed.
const MANY: usize = 256;

/// The rest at which a follower stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowUntil {
    /// The run's end; a wait for a person is followed through.
    End,
    /// The run's end, or a wait for a person.
    Rest,
}

/// The updates of a run, in order, from any process that drives it.
///
/// Dropping it leaves the run, as for [`EventStream`].
pub struct RunFollower {
    host: Host,
    run_id: Arc<str>,
    until: FollowUntil,
    /// The number of the last stored event that was returned.
    last: u64,
    stream: Option<EventStream>,
    /// Whether the last stored event ended the run, or came to a rest.
    rests: Option<Rest>,
    arrival: Arc<Notify>,
    foreign: watch::Receiver<u64>,
}

/// A state in which nothing drives a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Waiting,
    Ended,
}

impl Host {
    /// Follows a run after the event with this number (0 for all), whichever process drives it.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub async fn follow_until(
        &self,
        run_id: &str,
        after: u64,
        until: FollowUntil,
    ) -> Result<RunFollower, HostError> {
        let run_id = Arc::<str>::from(run_id);
        let (arrival, foreign) = self.inner.followers.register(self, &run_id);
        let stream = Some(self.follow_bounded(&run_id, after).await?);
        let host = self.clone();
        Ok(RunFollower { host, run_id, until, last: after, stream, rests: None, arrival, foreign })
    }
}

impl RunFollower {
    /// Returns the number of the last stored event that was returned.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns whether the run waits for a person, as far as it was followed.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.rests == Some(Rest::Waiting)
    }

    /// Returns the next update; `None` once the run has ended, or waits if that is where to stop.
    /// It may be dropped and called again without losing an update.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn next(&mut self) -> Result<Option<RunUpdate>, HostError> {
        loop {
            if let Some(stream) = &mut self.stream {
                match stream.next().await {
                    Some(update) => {
                        self.see(&update);
                        return Ok(Some(update));
                    }
                    None => self.stream = None,
                }
            }
            // Registered before the store is asked, so that nothing falls in between.
            let arrival = Arc::clone(&self.arrival);
            let arrived = arrival.notified();
            self.foreign.mark_unchanged();
            if self.is_behind().await? {
                self.stream = Some(self.host.follow_bounded(&self.run_id, self.last).await?);
                continue;
            }
            match self.rests {
                Some(Rest::Ended) => return Ok(None),
                Some(Rest::Waiting) if self.until == FollowUntil::Rest => return Ok(None),
                _ => {}
            }
            tokio::select! {
                () = arrived => {}
                changed = self.foreign.changed() => {
                    if changed.is_err() {
                        // The host owns the sender.
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn see(&mut self, update: &RunUpdate) {
        let RunUpdate::Stored(event) = update else { return };
        self.last = event.number;
        self.rests = match &event.event {
            Event::RunWaiting => Some(Rest::Waiting),
            Event::RunFinished { .. } => Some(Rest::Ended),
            _ => None,
        };
    }

    /// Returns whether there is more to follow: stored events, or a driver in this process. Also
    /// learns how the run rests.
    async fn is_behind(&mut self) -> Result<bool, HostError> {
        if self.host.live(&self.run_id).is_some_and(|hub| !hub.is_closed()) {
            return Ok(true);
        }
        let found = self.host.summary(&self.run_id).await?;
        let found = found.ok_or_else(|| HostError::no_run(&self.run_id))?;
        if found.events > self.last {
            return Ok(true);
        }
        self.rests = match found.status.as_str() {
            "running" => None,
            "waiting" => Some(Rest::Waiting),
            _ => Some(Rest::Ended),
        };
        Ok(false)
    }
}

/// Followers of runs that this host does not drive.
#[derive(Debug)]
pub(super) struct Followers {
    registry: Mutex<FollowerRegistry>,
    foreign: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct FollowerRegistry {
    arrivals: HashMap<Arc<str>, Weak<Notify>>,
    /// Whether a task looks for commits of other processes.
    is_looking: bool,
}

impl Default for Followers {
    fn default() -> Self {
        Self { registry: Mutex::default(), foreign: watch::Sender::new(0) }
    }
}

impl Followers {
    /// Wakes the followers of a run that this host begins to drive.
    pub(super) fn arrived(&self, run_id: &str) {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notify) = registry.arrivals.get(run_id).and_then(Weak::upgrade) {
            notify.notify_waiters();
        }
    }

    /// Returns the signals that something happened to a run: in this process, and perhaps in
    /// another one.
    fn register(&self, host: &Host, run_id: &Arc<str>) -> (Arc<Notify>, watch::Receiver<u64>) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let FollowerRegistry { arrivals, is_looking } = &mut *registry;
        if arrivals.len() > MANY {
            arrivals.retain(|_, notify| notify.strong_count() > 0);
        }
        let known = arrivals.get(run_id).and_then(Weak::upgrade);
        let notify = known.unwrap_or_else(|| {
            let notify = Arc::<Notify>::default();
            arrivals.insert(Arc::clone(run_id), Arc::downgrade(&notify));
            notify
        });
        let foreign = self.foreign.subscribe();
        if !std::mem::replace(is_looking, true) {
            tokio::spawn(look(Arc::downgrade(&host.inner)));
        }
        (notify, foreign)
    }
}

/// Looks for commits of other processes for as long as there are followers.
async fn look(host: Weak<super::Inner>) {
    let mut seen = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(host) = host.upgrade() else { return };
        if host.followers.foreign.receiver_count() == 0 {
            let mut registry = host.followers.registry.lock().unwrap_or_else(PoisonError::into_inner);
            // A follower that registered meanwhile is counted; the next one starts another task.
            if host.followers.foreign.receiver_count() == 0 {
                registry.is_looking = false;
                return;
            }
        }
        let version = host.store.foreign_version();
        if version.is_none() || version != seen {
            seen = version;
            host.followers.foreign.send_modify(|count| *count += 1);
        }
    }
}
