//! The updates of one run for one client, across the times at which the run waits for a person.

use futures::Stream;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate::run::{RunUpdate, UnrecordedEffect};
use tollgate::{FollowUntil, Host, RunFollower};
use tollgate_agent::run::Event;

/// How often a quiet feed checks that a process drives the run.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// When a feed ends, other than with the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedUntil {
    /// When the run waits for a person, as its last event.
    Waiting,
    /// When the run has waited for this long. A decision made meanwhile continues the feed.
    Held(Duration),
}

/// The reason for which a feed ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedEnd {
    /// The run ended.
    Finished,
    /// The run waits for a person.
    Waiting,
    /// No process continues the run, or its record cannot be read.
    Lost,
    /// No process continues the run, and a tool has run without a record.
    RecordLost,
    /// The client's key or session was revoked or has expired.
    Unauthorized,
}

/// The message of a stream whose key or session is no longer valid.
pub(crate) const NOT_VALID: &str = "the key was revoked or has expired; send another one";

/// The message of a stream whose run has called a tool without a record of it.
pub(crate) const RECORD_LOST: &str =
    "a tool has run, but its record is lost; check what it did, and do not repeat the message";

impl FeedEnd {
    /// Returns the end of a feed whose run does not continue.
    fn lost(follower: Option<&RunFollower>) -> Self {
        match follower.and_then(RunFollower::failure) {
            Some(why) if why.effect() == UnrecordedEffect::Ran => Self::RecordLost,
            _ => Self::Lost,
        }
    }

    /// Returns the code and the message of a feed that ended before the run came to rest; `None` if
    /// the run came to rest.
    pub(crate) fn failure(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Finished | Self::Waiting => None,
            Self::Lost => Some(("interrupted", "the run does not continue: its process stopped")),
            Self::RecordLost => Some(("record_lost", RECORD_LOST)),
            Self::Unauthorized => Some(("unauthorized", NOT_VALID)),
        }
    }
}

/// One item of a feed.
#[derive(Debug)]
pub(crate) enum FeedItem {
    /// An update of the run.
    Update(RunUpdate),
    /// Transient events may be missing between the updates before and after this item.
    Rejoined,
    /// The last item.
    End(FeedEnd),
}

/// A translator of updates into the events of a protocol.
pub(crate) trait Encode {
    /// An event of the protocol.
    type Wire;

    /// Translates one update.
    fn update(&mut self, update: &RunUpdate, out: &mut Vec<Self::Wire>);

    /// Takes note that transient events may be missing.
    fn rejoined(&mut self);

    /// Returns whether the stream ends here, before the feed does.
    fn is_over(&self) -> bool {
        false
    }

    /// Translates the end of the feed.
    fn ended(&mut self, end: FeedEnd, out: &mut Vec<Self::Wire>);
}

/// The updates of one run.
pub(crate) struct Feed {
    host: Host,
    run_id: String,
    follower: Option<RunFollower>,
    until: FeedUntil,
    /// The number of the last stored event that was returned.
    last: u64,
    /// Waiting events before this number are in the past: the run has continued since.
    stored: u64,
    /// The number of decisions that must pass before a wait counts.
    decisions: usize,
    state: State,
    /// The update that follows [`FeedItem::Rejoined`].
    held_back: Option<RunUpdate>,
    /// When a stream that is held open ends.
    deadline: Option<Instant>,
    /// Cancelled once the client's credential is no longer valid.
    ended: CancellationToken,
    /// The client's place among open streams.
    _place: Option<OwnedSemaphorePermit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Waiting,
    Ended(FeedEnd),
}

impl Feed {
    /// Follows a run after the event with this number. The run has `stored` events by now.
    pub(crate) fn new(host: &Host, run_id: &str, until: FeedUntil, after: u64, stored: u64) -> Self {
        Self {
            host: host.clone(),
            run_id: run_id.to_owned(),
            follower: None,
            until,
            last: after,
            stored,
            decisions: 0,
            state: State::Running,
            held_back: None,
            deadline: None,
            ended: CancellationToken::new(),
            _place: None,
        }
    }

    /// Holds a place until the feed is dropped.
    pub(crate) fn with_place(mut self, place: OwnedSemaphorePermit) -> Self {
        self._place = Some(place);
        self
    }

    /// Ends the feed when this token is cancelled, because the credential is no longer valid.
    pub(crate) fn with_credential(mut self, ended: CancellationToken) -> Self {
        self.ended = ended;
        self
    }

    /// Lets the feed pass over waits until this many further decisions were recorded.
    pub(crate) fn after_decisions(mut self, decisions: usize) -> Self {
        self.decisions = decisions;
        self
    }

    /// Returns the next item. After [`FeedItem::End`], it is returned again.
    pub(crate) async fn next(&mut self) -> FeedItem {
        if let Some(update) = self.held_back.take() {
            return FeedItem::Update(update);
        }
        if let State::Ended(end) = self.state {
            return FeedItem::End(end);
        }
        let was_waiting = self.state == State::Waiting;
        match self.update().await {
            Ok(update) => {
                self.observe(&update);
                if was_waiting {
                    self.held_back = Some(update);
                    return FeedItem::Rejoined;
                }
                FeedItem::Update(update)
            }
            Err(end) => {
                self.state = State::Ended(end);
                FeedItem::End(end)
            }
        }
    }

    /// Waits until the feed has ended.
    pub(crate) async fn finished(&mut self) -> FeedEnd {
        loop {
            if let FeedItem::End(end) = self.next().await {
                return end;
            }
        }
    }

    /// Waits for the next update, as long as the run may have one.
    async fn update(&mut self) -> Result<RunUpdate, FeedEnd> {
        loop {
            let follower = match &mut self.follower {
                Some(follower) => follower,
                none => {
                    let followed = self.host.follow_until(&self.run_id, self.last, FollowUntil::End).await;
                    none.insert(followed.map_err(|_| FeedEnd::Lost)?)
                }
            };
            let until = match (self.state, self.until) {
                (State::Waiting, FeedUntil::Held(hold)) => {
                    *self.deadline.get_or_insert_with(|| Instant::now() + hold)
                }
                _ => Instant::now() + LOOK_AGAIN,
            };
            let next = tokio::select! {
                biased;
                () = self.ended.cancelled() => return Err(FeedEnd::Unauthorized),
                next = tokio::time::timeout_at(until, follower.next()) => next,
            };
            match next {
                Ok(Ok(Some(update))) => return Ok(update),
                Ok(Ok(None) | Err(_)) => return Err(FeedEnd::lost(self.follower.as_ref())),
                Err(_) if self.deadline.is_some() => return Err(FeedEnd::Waiting),
                Err(_) => self.check_driven().await?,
            }
        }
    }

    /// Checks that a process drives the run.
    async fn check_driven(&self) -> Result<(), FeedEnd> {
        let found = self.host.summary(&self.run_id).await.map_err(|_| FeedEnd::Lost)?;
        let is_lost = found.is_none_or(|run| run.status == "running" && !run.is_driven);
        if is_lost { Err(FeedEnd::lost(self.follower.as_ref())) } else { Ok(()) }
    }

    fn observe(&mut self, update: &RunUpdate) {
        let RunUpdate::Stored(stored) = update else { return };
        self.last = stored.number;
        self.state = match &stored.event {
            Event::RunFinished { .. } => State::Ended(FeedEnd::Finished),
            Event::RunWaiting => {
                let counts = self.last >= self.stored && self.decisions == 0;
                match self.until {
                    FeedUntil::Waiting if counts => State::Ended(FeedEnd::Waiting),
                    _ => State::Waiting,
                }
            }
            Event::CallDecided { .. } => {
                self.decisions = self.decisions.saturating_sub(1);
                State::Running
            }
            _ => State::Running,
        };
        if self.state != State::Waiting {
            self.deadline = None;
        }
    }
}

/// Returns the events of a protocol for the updates of a feed.
pub(crate) fn encoded<E>(feed: Feed, encoder: E) -> impl Stream<Item = E::Wire> + Send
where
    E: Encode + Send,
    E::Wire: Send,
{
    let encoding = EncodedFeed { feed, encoder, ready: VecDeque::new(), is_over: false };
    futures::stream::unfold(encoding, |mut encoding| async move {
        let wire = encoding.next().await?;
        Some((wire, encoding))
    })
}

struct EncodedFeed<E: Encode> {
    feed: Feed,
    encoder: E,
    ready: VecDeque<E::Wire>,
    is_over: bool,
}

impl<E: Encode> EncodedFeed<E> {
    async fn next(&mut self) -> Option<E::Wire> {
        loop {
            if let Some(wire) = self.ready.pop_front() {
                return Some(wire);
            }
            if self.is_over {
                return None;
            }
            let mut out = Vec::new();
            match self.feed.next().await {
                FeedItem::Update(update) => {
                    self.encoder.update(&update, &mut out);
                    self.is_over = self.encoder.is_over();
                }
                FeedItem::Rejoined => self.encoder.rejoined(),
                FeedItem::End(end) => {
                    self.encoder.ended(end, &mut out);
                    self.is_over = true;
                }
            }
            self.ready.extend(out);
        }
    }
}
