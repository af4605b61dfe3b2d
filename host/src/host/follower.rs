//! Follows a run across waits and across processes. Whichever process drives the run, its stored
//! events arrive once each and in order. The memory of large events is reserved while clients read them.

use super::{Host, HostError};
use crate::run::{EventStream, RunError, RunUpdate, UnrecordedEffect};
use crate::store::{CommitError, EventPage, Hint, Hints, PageLimit, StoreErrorKind};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use tollgate_agent::json::written_bytes;
use tollgate_agent::run::{Event, StoredEvent};
use tollgate_sandbox::Reservation;

/// How often the task that reads hints checks that there are followers.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often to check whether the process that drives a run is still alive.
const CHECK: Duration = Duration::from_secs(2);
/// The number of entries above which those without followers are removed.
const MANY: usize = 256;
/// The stored events that a follower holds at once. Its client may not read them. The memory of an
/// event that is larger is reserved.
pub(super) const REPLAYED: PageLimit = PageLimit { events: 200, bytes: 1 << 20 };
/// The number of followers that read events at a time before their size is known; others wait.
pub(super) const UNMEASURED_PAGES: usize = 4;
/// Memory per byte of an event's text: the event, and what is written of it.
const MEMORY_OF_EVENT: u64 = 3;
/// Clients that read large events may use one part in this many of the memory budget, all together.
pub const CLIENT_MEMORY_PART: u64 = 4;
/// How often to look for memory that calls have returned.
const MEMORY_INTERVAL: Duration = Duration::from_millis(50);

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
    /// Its updates, once all stored events were read. Until then it is not read, and only attends
    /// the run.
    stream: Option<EventStream>,
    /// Stored events that were read and not returned yet.
    replayed: VecDeque<Arc<StoredEvent>>,
    /// The size of the first of them, if its memory has to be reserved first.
    unreserved: Option<u64>,
    /// The memory of a large event, until the next update is asked for.
    memory: Option<ClientMemory>,
    /// Whether there may be more stored events than are held at once.
    has_more: bool,
    /// The state in which nothing drives the run; `None` if a process drives it, as far as is known.
    rests: Option<IdleState>,
    news: Arc<Notify>,
}

/// A state in which nothing drives a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdleState {
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
        let news = self.inner.followers.register(self, &run_id);
        let mut follower = RunFollower {
            host: self.clone(),
            run_id,
            until,
            last: after,
            stream: None,
            replayed: VecDeque::new(),
            unreserved: None,
            memory: None,
            has_more: false,
            rests: None,
            news,
        };
        follower.catch_up().await?;
        Ok(follower)
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
        self.rests == Some(IdleState::Waiting)
    }

    /// Returns whether no process drives the run although it neither ended nor waits, as far as it
    /// was followed.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.rests == Some(IdleState::Interrupted)
    }

    /// Returns the error with which this host stopped driving the run, if no other host is likely to
    /// continue it.
    #[must_use]
    pub fn failure(&self) -> Option<RunError> {
        let failure = self.host.inner.failures.of(&self.run_id)?;
        let may_continue =
            failure.kind() == StoreErrorKind::Unavailable && failure.effect() != UnrecordedEffect::Ran;
        (!may_continue).then_some(failure)
    }

    /// Returns the next update; `None` once the run has ended or [failed](Self::failure), or waits if that is where to stop.
    /// It may be dropped and called again without losing an update.
    ///
    /// # Errors
    /// The store cannot be read, or has lost events that were followed.
    pub async fn next(&mut self) -> Result<Option<RunUpdate>, HostError> {
        if self.replayed.is_empty() {
            self.memory = None;
        }
        loop {
            if let Some(bytes) = self.unreserved {
                self.memory = Some(self.host.client_memory(bytes).await);
                self.unreserved = None;
            }
            if let Some(event) = self.replayed.pop_front() {
                self.see(&event);
                return Ok(Some(RunUpdate::Stored(event)));
            }
            if self.has_more {
                self.catch_up().await?;
                continue;
            }
            if let Some(stream) = &mut self.stream {
                match stream.next_measured().await {
                    Some((RunUpdate::Stored(event), bytes)) => {
                        self.unreserved = large(bytes);
                        self.replayed.push_back(event);
                        continue;
                    }
                    Some((update, _)) => return Ok(Some(update)),
                    None => self.stream = None,
                }
            }
            // Registered before the store is asked, so that nothing falls in between.
            let news = Arc::clone(&self.news);
            let notified = news.notified();
            if self.is_behind().await? {
                self.catch_up().await?;
                continue;
            }
            match self.rests {
                Some(IdleState::Ended) => return Ok(None),
                Some(_) if self.until == FollowUntil::Rest => return Ok(None),
                Some(IdleState::Interrupted) if self.failure().is_some() => return Ok(None),
                _ => {}
            }
            tokio::select! {
                () = notified => {}
                // A process that ends without a commit leaves no other sign.
                () = tokio::time::sleep(CHECK), if self.until == FollowUntil::Rest => {}
            }
        }
    }

    /// Reads the next stored events. If they are the last ones, follows the run from there.
    async fn catch_up(&mut self) -> Result<(), HostError> {
        if !self.has_more {
            self.stream = self.host.live(&self.run_id).map(|hub| hub.listen_bounded());
            self.has_more = true;
        }
        let page = self.next_page().await?;
        if !page.has_more {
            let last = page.events.last().map_or(self.last, |event| event.number);
            self.stream = Some(self.host.follow_bounded(&self.run_id, last).await?);
            self.has_more = false;
        }
        self.replayed = page.events.into();
        Ok(())
    }

    /// Reads the next page, whose memory is reserved if it consists of a large event.
    async fn next_page(&mut self) -> Result<EventPage, HostError> {
        let mut memory = None;
        loop {
            let turn = self.host.inner.unmeasured_pages.acquire().await;
            let page = self.host.record_page(&self.run_id, self.last, REPLAYED).await?;
            // Only an event that is read alone may be larger than the limit.
            let [event] = page.events.as_slice() else { return Ok(page) };
            let Some(bytes) = large(written_bytes(&event.event)) else { return Ok(page) };
            memory = memory.or_else(|| self.host.try_client_memory(bytes));
            if memory.is_some() {
                self.memory = memory;
                return Ok(page);
            }
            // Without its memory, the event is not held.
            drop((page, turn));
            memory = Some(self.host.client_memory(bytes).await);
        }
    }

    /// Records the position and the state after an event.
    fn see(&mut self, event: &StoredEvent) {
        self.last = event.number;
        self.rests = match &event.event {
            Event::RunWaiting => Some(IdleState::Waiting),
            Event::RunFinished { .. } => Some(IdleState::Ended),
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
        let found = found.ok_or_else(|| HostError::UnknownRun(self.run_id.to_string()))?;
        if found.events > self.last {
            return Ok(true);
        }
        self.rests = match found.status.as_str() {
            "running" if found.is_driven => None,
            "running" => Some(IdleState::Interrupted),
            "waiting" => Some(IdleState::Waiting),
            _ => Some(IdleState::Ended),
        };
        if found.events < self.last && self.rests != Some(IdleState::Ended) {
            return Err(CommitError::Behind.into());
        }
        Ok(false)
    }
}

/// Returns the size of an event if its memory has to be reserved.
fn large(bytes: usize) -> Option<u64> {
    Some(bytes as u64).filter(|bytes| *bytes > REPLAYED.bytes)
}

/// Followers of runs that this host does not drive.
#[derive(Debug, Default)]
pub(super) struct Followers(Mutex<FollowerRegistry>);

#[derive(Debug, Default)]
struct FollowerRegistry {
    /// The signals that something may have happened to a run.
    news: HashMap<Arc<str>, Weak<Notify>>,
    /// Whether a task reads the store's hints.
    is_reading: bool,
}

impl Followers {
    fn lock(&self) -> MutexGuard<'_, FollowerRegistry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the followers of a run that this host begins to drive, or that has new events.
    pub(super) fn wake(&self, run_id: &str) {
        if let Some(notify) = self.lock().news.get(run_id).and_then(Weak::upgrade) {
            notify.notify_waiters();
        }
    }

    fn wake_all(&self) {
        self.lock().news.values().filter_map(Weak::upgrade).for_each(|notify| notify.notify_waiters());
    }

    /// Returns the signal that something may have happened to a run.
    fn register(&self, host: &Host, run_id: &Arc<str>) -> Arc<Notify> {
        let mut registry = self.lock();
        let FollowerRegistry { news, is_reading } = &mut *registry;
        if news.len() > MANY {
            news.retain(|_, notify| notify.strong_count() > 0);
        }
        let known = news.get(run_id).and_then(Weak::upgrade);
        let notify = known.unwrap_or_else(|| {
            let notify = Arc::<Notify>::default();
            news.insert(Arc::clone(run_id), Arc::downgrade(&notify));
            notify
        });
        if !std::mem::replace(is_reading, true) {
            tokio::spawn(read_hints(Arc::downgrade(&host.inner), host.inner.services.store.watch()));
        }
        notify
    }
}

/// Passes the store's hints on for as long as there are followers.
async fn read_hints(host: Weak<super::HostState>, mut hints: Hints) {
    let mut due = tokio::time::interval(POLL_INTERVAL);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let hint = tokio::select! {
            hint = hints.next() => Some(hint),
            _ = due.tick() => None,
        };
        let Some(host) = host.upgrade() else { return };
        match hint {
            Some(Hint::Events(run_id)) => host.followers.wake(&run_id),
            Some(Hint::Any) => host.followers.wake_all(),
            Some(Hint::Commands(_) | Hint::Work | Hint::Lapsed) => {}
            None => {
                let mut registry = host.followers.lock();
                if registry.news.values().all(|notify| notify.strong_count() == 0) {
                    registry.news.clear();
                    registry.is_reading = false;
                    return;
                }
            }
        }
    }
}

/// The memory of a large event that a client reads, as slowly as it likes.
pub(super) struct ClientMemory {
    _of_clients: Reservation,
    _of_host: Reservation,
}

impl Host {
    /// Reserves the memory of an event whose text has this many bytes; `None` if other clients or
    /// calls hold it.
    pub(super) fn try_client_memory(&self, bytes: u64) -> Option<ClientMemory> {
        let needed = self.memory_of_event(bytes);
        let of_clients = self.inner.client_memory.try_reserve(needed)?;
        let of_host = self.memory_budget().try_reserve(needed)?;
        Some(ClientMemory { _of_clients: of_clients, _of_host: of_host })
    }

    /// Waits for this memory.
    pub(super) async fn client_memory(&self, bytes: u64) -> ClientMemory {
        let needed = self.memory_of_event(bytes);
        let of_clients = self.inner.client_memory.reserve(needed).await;
        loop {
            // Calls must not wait behind a client, so this does not join their queue.
            if let Some(of_host) = self.memory_budget().try_reserve(needed) {
                return ClientMemory { _of_clients: of_clients, _of_host: of_host };
            }
            tokio::time::sleep(MEMORY_INTERVAL).await;
        }
    }

    fn memory_of_event(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(MEMORY_OF_EVENT).min(self.inner.client_memory.total_bytes())
    }
}
