//! The updates of one run for one client, across the times at which the run waits for a person.

use super::Started;
use futures::Stream;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;
use tollgate::run::RunUpdate;
use tollgate::{EventStream, Host};
use tollgate_agent::run::Event;

/// How often a feed checks whether a resting run continues.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long a feed waits for a run that no process of this store seems to drive.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// When a feed ends, other than with the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
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
    events: Option<EventStream>,
    until: Until,
    /// The number of the last stored event that was returned.
    last: u64,
    /// Waiting events up to this number are in the past: the run has continued since.
    past: u64,
    /// The number of decisions that must pass before a wait counts.
    decisions: usize,
    state: State,
    /// The update that follows [`FeedItem::Rejoined`].
    held_back: Option<RunUpdate>,
    has_rejoined: bool,
    /// When holding ends.
    deadline: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Waiting,
    Ended(FeedEnd),
}

impl Feed {
    /// Follows a run that was just started.
    pub(crate) fn of(host: &Host, started: Started, until: Until) -> Self {
        Self::new(host, started.run_id.to_string(), Some(started.events), until, 0)
    }

    /// Follows a run from its record, after the event with this number. The run has `stored`
    /// events by now.
    pub(crate) fn resume(host: &Host, run_id: &str, until: Until, after: u64, stored: u64) -> Self {
        let mut feed = Self::new(host, run_id.to_owned(), None, until, after);
        feed.past = stored.saturating_sub(1);
        feed
    }

    /// Lets the feed pass over waits until this many further decisions were recorded.
    pub(crate) fn after_decisions(mut self, decisions: usize) -> Self {
        self.decisions = decisions;
        self
    }

    fn new(host: &Host, run_id: String, events: Option<EventStream>, until: Until, last: u64) -> Self {
        let host = host.clone();
        Self {
            host,
            run_id,
            events,
            until,
            last,
            past: 0,
            decisions: 0,
            state: State::Running,
            held_back: None,
            has_rejoined: false,
            deadline: None,
        }
    }

    /// Returns the next item. After [`FeedItem::End`], it is returned again.
    pub(crate) async fn next(&mut self) -> FeedItem {
        loop {
            if let Some(update) = self.held_back.take() {
                return FeedItem::Update(update);
            }
            if let State::Ended(end) = self.state {
                return FeedItem::End(end);
            }
            let Some(events) = &mut self.events else {
                if let Err(end) = self.rejoin().await {
                    self.state = State::Ended(end);
                }
                continue;
            };
            let Some(update) = events.next().await else {
                self.events = None;
                continue;
            };
            self.note(&update);
            if std::mem::take(&mut self.has_rejoined) {
                self.held_back = Some(update);
                return FeedItem::Rejoined;
            }
            return FeedItem::Update(update);
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

    fn note(&mut self, update: &RunUpdate) {
        let RunUpdate::Stored(stored) = update else { return };
        self.last = stored.number;
        self.state = match &stored.event {
            Event::RunFinished { .. } => State::Ended(FeedEnd::Finished),
            Event::RunWaiting => {
                let counts = self.last > self.past && self.decisions == 0;
                match self.until {
                    Until::Waiting if counts => State::Ended(FeedEnd::Waiting),
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

    /// Waits until the run has further events, and follows them.
    async fn rejoin(&mut self) -> Result<(), FeedEnd> {
        let patience = match (self.state, self.until) {
            (State::Waiting, Until::Held(hold)) => hold,
            _ => LOST_AFTER,
        };
        let end = if self.state == State::Waiting { FeedEnd::Waiting } else { FeedEnd::Lost };
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + patience);
        loop {
            let events = self.host.store().events(&self.run_id, self.last).await;
            if !events.map_err(|_| FeedEnd::Lost)?.is_empty() {
                let events = self.host.follow(&self.run_id, self.last).await;
                self.events = Some(events.map_err(|_| FeedEnd::Lost)?);
                self.has_rejoined = true;
                self.deadline = None;
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(end);
            }
            tokio::time::sleep(LOOK_AGAIN.min(deadline.saturating_duration_since(Instant::now()))).await;
        }
    }
}

/// Returns the events of a protocol for the updates of a feed.
pub(crate) fn encoded<E>(feed: Feed, encoder: E) -> impl Stream<Item = E::Wire> + Send
where
    E: Encode + Send,
    E::Wire: Send,
{
    let encoding = Encoding { feed, encoder, ready: VecDeque::new(), is_over: false };
    futures::stream::unfold(encoding, |mut encoding| async move {
        let wire = encoding.next().await?;
        Some((wire, encoding))
    })
}

struct Encoding<E: Encode> {
    feed: Feed,
    encoder: E,
    ready: VecDeque<E::Wire>,
    is_over: bool,
}

impl<E: Encode> Encoding<E> {
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
