//! Changes of runs and of their questions, for streams that tell clients what to read again. One
//! task reads the hints of the store for all streams, and only while a stream is open.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::time::{Instant, sleep, sleep_until};
use tollgate::store::{Hint, Hints, PageLimit, RunFilter, RunSummary, Store, StoreError};
use tollgate_agent::run::Event;

/// How often the newest runs are compared, in case a hint was lost.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// The minimum time between two comparisons: a store that several processes write to gives hints
/// that name no run.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The time in which further hints are collected.
const COLLECT: Duration = Duration::from_millis(100);
/// The number of runs above which their changes are not told one by one.
const MANY: usize = 64;
/// The number of the newest runs that are compared.
const WATCHED_RUNS: usize = 100;
/// The same for runs that wait, and for running ones, which may also have questions.
const WATCHED_OPEN_RUNS: usize = 500;
/// The maximum number of runs that are known from hints.
const MAX_KNOWN: usize = 4_096;
/// The maximum number of changes that wait for one stream.
const MAX_QUEUED: usize = 256;
/// The new events of a run that are read to find questions. If there are more, there may be some.
const NEW_EVENTS: PageLimit = PageLimit { events: 200, bytes: 256 * 1024 };

/// A change that clients may want to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A run has new events, or another status.
    Run(Arc<RunChange>),
    /// Anything may have changed.
    Any,
}

/// A change of one run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RunChange {
    /// The run as it is now.
    pub(crate) run: RunSummary,
    /// Whether its questions may have changed.
    pub(crate) asks: bool,
}

/// A stream of changes.
#[derive(Debug)]
pub(crate) struct Changes(Receiver<Change>);

impl Changes {
    /// Returns the next change. A reader that is too slow gets [`Change::Any`] instead of those that
    /// it missed.
    pub(crate) async fn next(&mut self) -> Change {
        match self.0.recv().await {
            Ok(change) => change,
            Err(RecvError::Lagged(_)) => Change::Any,
            // The state of the server, which the reader holds, has the sender.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }

    /// Forgets the changes until now.
    pub(crate) fn skip(&mut self) {
        self.0 = self.0.resubscribe();
    }
}

/// Notices changes of runs, for all streams together.
#[derive(Debug)]
pub(crate) struct RunChanges {
    sender: Sender<Change>,
    is_watching: tokio::sync::Mutex<bool>,
}

impl Default for RunChanges {
    fn default() -> Self {
        Self { sender: Sender::new(MAX_QUEUED), is_watching: tokio::sync::Mutex::new(false) }
    }
}

/// The events, the status, and whether a process drives it: the parts of a run that change.
type SeenState = (u64, String, bool);

/// The runs as they were seen last, by their ids.
type KnownRuns = HashMap<String, SeenState>;

impl RunChanges {
    /// Returns the changes from now on.
    pub(crate) async fn subscribe(self: &Arc<Self>, store: &Arc<dyn Store>) -> Changes {
        let changes = Changes(self.sender.subscribe());
        let mut is_watching = self.is_watching.lock().await;
        if !*is_watching {
            // Changes during the first look are hinted at, too.
            let hints = store.watch();
            let known = look(store).await.map(known_of).ok();
            *is_watching = true;
            let watch = Watch { changes: Arc::clone(self), store: Arc::clone(store), known };
            tokio::spawn(watch.run(hints));
        }
        changes
    }

    /// Ends the watch if there is no stream.
    async fn may_end(&self) -> bool {
        let mut is_watching = self.is_watching.lock().await;
        *is_watching = self.sender.receiver_count() > 0;
        !*is_watching
    }
}

/// Returns the newest runs and the open ones.
async fn look(store: &Arc<dyn Store>) -> Result<Vec<RunSummary>, StoreError> {
    let newest = RunFilter { limit: WATCHED_RUNS, ..RunFilter::default() };
    let of = |status: &str| RunFilter {
        status: Some(status.to_owned()),
        limit: WATCHED_OPEN_RUNS,
        ..RunFilter::default()
    };
    let mut runs = store.runs(newest).await?;
    for status in ["waiting", "running"] {
        runs.extend(store.runs(of(status)).await?);
    }
    Ok(runs)
}

fn seen(run: &RunSummary) -> SeenState {
    (run.events, run.status.clone(), run.is_driven)
}

fn known_of(runs: Vec<RunSummary>) -> KnownRuns {
    runs.into_iter().map(|run| (run.run_id.clone(), seen(&run))).collect()
}

/// The task that notices changes.
struct Watch {
    changes: Arc<RunChanges>,
    store: Arc<dyn Store>,
    /// The runs as they were seen last; `None` if the store could not be read, or changed too much.
    known: Option<KnownRuns>,
}

impl Watch {
    async fn run(mut self, mut hints: Hints) {
        let mut looked = Instant::now();
        let mut look_at = looked + LOOK_EVERY;
        while !self.changes.may_end().await {
            let mut hinted = BTreeSet::new();
            let mut note = |hint, look_at: &mut Instant| match hint {
                Hint::Events(run_id) => {
                    hinted.insert(run_id);
                }
                Hint::Any | Hint::Work => *look_at = (*look_at).min(looked + LOOK_AGAIN),
                Hint::Commands(_) | Hint::Lapsed => {}
            };
            tokio::select! {
                hint = hints.next() => note(hint, &mut look_at),
                () = sleep_until(look_at) => {}
            }
            // Those that have arrived meanwhile.
            while let Some(hint) = futures::FutureExt::now_or_never(hints.next()) {
                note(hint, &mut look_at);
            }
            let is_much = hinted.len() > MANY;
            if is_much {
                self.note_loss();
            } else {
                for run_id in hinted {
                    self.report_run(&run_id).await;
                }
            }
            if Instant::now() >= look_at {
                self.compare().await;
                looked = Instant::now();
                look_at = looked + LOOK_EVERY;
            }
            if self.known.is_none() {
                look_at = look_at.min(looked + LOOK_AGAIN);
            }
            sleep(if is_much { LOOK_AGAIN } else { COLLECT }).await;
        }
    }

    /// Reads a run that has new events, and reports it.
    async fn report_run(&mut self, run_id: &str) {
        match self.store.runs(RunFilter::one(run_id)).await {
            Ok(found) => {
                for run in found {
                    self.report(run).await;
                }
            }
            Err(_) => self.note_loss(),
        }
    }

    /// Compares the newest and the open runs with those that are known.
    async fn compare(&mut self) {
        let Ok(runs) = look(&self.store).await else { return self.note_loss() };
        let is_known = self.known.is_some();
        // A run that is no longer open may be too old for the list of the newest.
        let listed: BTreeSet<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
        let open = |(_, status, _): &SeenState| matches!(status.as_str(), "running" | "waiting");
        let known = self.known.iter().flatten();
        let closed = known.filter(|(run_id, seen)| open(seen) && !listed.contains(run_id.as_str()));
        let closed: Vec<String> = closed.map(|(run_id, _)| run_id.clone()).collect();
        for run_id in closed {
            self.report_run(&run_id).await;
        }
        if self.known.is_some() {
            for run in runs {
                self.report(run).await;
            }
        } else {
            self.known = Some(known_of(runs));
        }
        if !is_known {
            self.send(Change::Any);
        }
    }

    /// Sends a run to the streams, unless it is unchanged.
    async fn report(&mut self, run: RunSummary) {
        let now = seen(&run);
        let Some(known) = &mut self.known else { return };
        if known.len() >= MAX_KNOWN && !known.contains_key(&run.run_id) {
            known.retain(|_, (_, status, _)| matches!(status.as_str(), "running" | "waiting"));
        }
        let before = known.insert(run.run_id.clone(), now.clone());
        if before.as_ref() == Some(&now) {
            return;
        }
        let (after, was_waiting) =
            before.map_or((0, false), |(events, status, _)| (events, status == "waiting"));
        // The question of a child is asked by its parent.
        let asks = run.kind != "child"
            && (was_waiting || run.status == "waiting" || self.has_questions(&run, after).await);
        self.send(Change::Run(Arc::new(RunChange { run, asks })));
    }

    /// Returns whether the events of a run after this number may ask or answer a question.
    async fn has_questions(&self, run: &RunSummary, after: u64) -> bool {
        let Ok(page) = self.store.events_page(&run.run_id, after, NEW_EVENTS).await else { return true };
        let asks = |event: &Event| matches!(event, Event::CallSuspended(_) | Event::CallDecided { .. });
        page.has_more || page.events.iter().any(|stored| asks(&stored.event))
    }

    /// Reports that anything may have changed. The next comparison only records the runs.
    fn note_loss(&mut self) {
        self.known = None;
        self.send(Change::Any);
    }

    fn send(&self, change: Change) {
        // A stream that ends meanwhile needs no change.
        let _ = self.changes.sender.send(change);
    }
}
