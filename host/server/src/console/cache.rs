//! Facts about runs that lists need and the store does not list. The facts of a run change only
//! with its number of events, so they are read once.

use super::viewer::Viewer;
use crate::console::live::Watcher;
use crate::operations::StartedRun;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tollgate::Store;
use tollgate::run::RunHandle;
use tollgate::store::{RunSummary, StoreError};
use tollgate_agent::run::event::Suspended;
use tollgate_agent::run::{Event, Run, RunUsage, StoredEvent, Thread};

/// The maximum number of runs whose facts are kept.
const MAX_RUNS: usize = 20_000;

/// Facts about a run that follow from its record.
#[derive(Debug, Clone, Default)]
pub(super) struct RunFacts {
    /// Total usage; `None` if the run has not ended.
    pub(super) usage: Option<RunUsage>,
    /// The questions that wait for a person.
    pub(super) questions: Vec<Question>,
}

/// A question that waits for a person.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// The question itself.
    pub(super) asked: Arc<Suspended>,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
}

/// The memory of the console, shared by all requests.
#[derive(Default)]
pub(super) struct Cache {
    runs: Mutex<HashMap<String, (u64, Arc<RunFacts>)>>,
    /// The runs that continue because of a request to the console.
    driven: Mutex<HashMap<String, CancellationToken>>,
    pub(super) watcher: Watcher,
}

impl Cache {
    /// Returns the facts about a run, from memory or from its record.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn facts(
        &self,
        store: &Arc<dyn Store>,
        run: &RunSummary,
    ) -> Result<Arc<RunFacts>, StoreError> {
        if run.status == "running" {
            return Ok(Arc::default());
        }
        if let Some((events, facts)) =
            self.runs.lock().unwrap_or_else(PoisonError::into_inner).get(&run.run_id)
            && *events == run.events
        {
            return Ok(Arc::clone(facts));
        }
        let is_waiting = run.status == "waiting";
        let after = if is_waiting { 0 } else { run.events.saturating_sub(1) };
        // A damaged record has no facts; the page of the run shows the damage.
        let events = store.events(&run.run_id, after).await.unwrap_or_default();
        let facts = Arc::new(if is_waiting { waiting_facts(&events) } else { ended_facts(&events) });
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() >= MAX_RUNS {
            runs.clear();
        }
        runs.insert(run.run_id.clone(), (run.events, Arc::clone(&facts)));
        Ok(facts)
    }

    /// Like [`drive`](Self::drive), for a run that was just started: it keeps its place among the
    /// principal's runs until it rests.
    pub(super) fn drive_started(self: &Arc<Self>, started: StartedRun) {
        let (handle, place) = started.into_parts();
        self.drive_with(handle, Some(place));
    }

    /// Follows a run until it ends or waits, so that it is not cancelled for lack of clients.
    pub(super) fn drive(self: &Arc<Self>, handle: RunHandle) {
        self.drive_with(handle, None);
    }

    fn drive_with(self: &Arc<Self>, mut handle: RunHandle, place: Option<OwnedSemaphorePermit>) {
        let run_id = handle.run_id.to_string();
        let token = handle.cancellation();
        self.driven.lock().unwrap_or_else(PoisonError::into_inner).insert(run_id.clone(), token);
        let cache = Arc::clone(self);
        tokio::spawn(async move {
            let _place = place;
            while handle.events.next().await.is_some() {}
            if let Err(why) = handle.wait().await {
                tracing::error!("a run that the console started could not continue: {why}");
            }
            cache.driven.lock().unwrap_or_else(PoisonError::into_inner).remove(&run_id);
        });
    }

    /// Cancels a run that continues because of a request to the console. Returns whether there is
    /// one with this id.
    pub(super) fn cancel(&self, run_id: &str) -> bool {
        let driven = self.driven.lock().unwrap_or_else(PoisonError::into_inner);
        driven.get(run_id).inspect(|token| token.cancel()).is_some()
    }
}

impl Viewer {
    /// Returns the facts about a run.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn facts(&self, run: &RunSummary) -> Result<Arc<RunFacts>, StoreError> {
        self.cache.facts(self.store(), run).await
    }
}

fn ended_facts(events: &[Arc<StoredEvent>]) -> RunFacts {
    let usage = events.last().and_then(|last| match &last.event {
        Event::RunFinished { usage, .. } => Some(**usage),
        _ => None,
    });
    RunFacts { usage, questions: Vec::new() }
}

fn waiting_facts(events: &[Arc<StoredEvent>]) -> RunFacts {
    let run = fold(events);
    RunFacts { usage: Some(*run.usage()), questions: open_questions(&run, events) }
}

/// Folds a record. A record that cannot be folded gives as much as it can.
pub(super) fn fold(events: &[Arc<StoredEvent>]) -> Run {
    let mut run = Run::new(Thread::default());
    let _ = events.iter().try_for_each(|event| run.apply(&event.event));
    run
}

/// Returns the unanswered questions of a run with their times.
pub(super) fn open_questions(run: &Run, events: &[Arc<StoredEvent>]) -> Vec<Question> {
    let asked_at = |asked: &Suspended| {
        let is_it = |event: &&Arc<StoredEvent>| matches!(&event.event, Event::CallSuspended(other) if other.suspension_id == asked.suspension_id);
        events.iter().rev().find(is_it).map_or(0, |event| event.at_ms)
    };
    let asked = run.open_questions().cloned();
    asked.map(|asked| Question { at_ms: asked_at(&asked), asked }).collect()
}
