//! Follows a run across waits and across processes. Whichever process drives the run, its stored
//! events arrive once each and in order.

use super::{Host, HostError};
use crate::run::{EventStream, RunUpdate};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tollgate_agent::run::Event;

/// How often the store is asked whether another process has committed.
const LOOK: Duration = Duration::from_millis(250);
/// How often to check whether the process that drives a run is still alive.
const CHECK: Duration = Duration::from_secs(2);
/// The number of entries above which those without followers are removed.
const MANY: usize = 256;

/// The rest at which a follower stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowUntil {
    /// The run's end; a wait for a person is followed through.
    End,
    /// The run's end, a wait for a person, or an interruption: no process drives the run.
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
    /// The state in which nothing drives the run; `None` if a process drives it, as far as is known.
    rests: Option<Rest>,
    /// Notified when this process begins to drive the run.
    arrival: Arc<Notify>,
    /// Changes when another process may have committed.
    foreign: watch::Receiver<u64>,
}

/// A state in which nothing drives a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Waiting,
    Interrupted,
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

    /// Returns whether no process drives the run although it neither ended nor waits, as far as it
    /// was followed.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.rests == Some(Rest::Interrupted)
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
            // Registered before the store is read, so that no commit in between is missed.
            let arrival = Arc::clone(&self.arrival);
            let arrived = arrival.notified();
            self.foreign.mark_unchanged();
            if self.is_behind().await? {
                self.stream = Some(self.host.follow_bounded(&self.run_id, self.last).await?);
                continue;
            }
            match self.rests {
                Some(Rest::Ended) => return Ok(None),
                Some(_) if self.until == FollowUntil::Rest => return Ok(None),
                _ => {}
            }
            tokio::select! {
                () = arrived => {}
                // A process that ends without a commit leaves no other sign.
                () = tokio::time::sleep(CHECK), if self.until == FollowUntil::Rest => {}
                changed = self.foreign.changed() => {
                    if changed.is_err() {
                        // The host owns the sender.
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Records the position and the state after an update.
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
            "running" if found.at_work => None,
            "running" => Some(Rest::Interrupted),
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
    /// Counts the times at which another process may have committed.
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

    /// Returns two signals for the followers of a run: that this process begins to drive it, and
    /// that another process may have committed something.
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
