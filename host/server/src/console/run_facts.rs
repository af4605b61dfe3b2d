//! Facts about runs that lists need and the store does not list.

use super::cache::{Question, QuestionSizes, keep, kept};
use super::question::size;
use super::viewer::Viewer;
use std::collections::HashMap;
use std::sync::Arc;
use tollgate::Host;
use tollgate::store::{PageLimit, RunSummary, StoreError};
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Event, Run, RunUsage, StoredEvent, Thread};

/// The maximum number of runs whose facts are kept.
const MAX_RUNS: usize = 20_000;
/// The maximum number of runs whose questions are kept whole.
const MAX_WHOLE: usize = 200;
/// The maximum size of a question that is kept whole, in bytes of its texts.
const MAX_WHOLE_BYTES: usize = 16 * 1024;
/// The most of a record that is read at once.
const AT_ONCE: PageLimit = PageLimit { events: 1_000, bytes: 1 << 20 };

impl Viewer {
    /// Returns the total usage of a run; `None` while it is at work.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn usage(&self, run: &RunSummary) -> Result<Option<RunUsage>, StoreError> {
        if run.status == "running" {
            return Ok(None);
        }
        if let Some((events, usage)) = kept(&self.cache.usage, &run.run_id)
            && events == run.events
        {
            return Ok(usage);
        }
        // A damaged record has no usage; the page of the run shows the damage.
        let usage = if run.status == "waiting" {
            self.shared.host.run_and_end(&run.run_id, |_| {}).await.ok().map(|(run, _)| run.usage().clone())
        } else {
            self.shared.ended_usage(run).await.ok().flatten()
        };
        keep(&self.cache.usage, MAX_RUNS, &run.run_id, (run.events, usage.clone()));
        Ok(usage)
    }

    /// Returns the open questions of a run that has not ended, without their texts.
    pub(super) async fn asking(&self, run: &RunSummary) -> Arc<QuestionSizes> {
        let before = kept(&self.cache.asking, &run.run_id).filter(|asking| asking.last <= run.events);
        let before = before.unwrap_or_default();
        if before.last == run.events {
            return before;
        }
        let mut asking = QuestionSizes::clone(&before);
        // A damaged record has the questions before the damage.
        while let Ok(page) = self.store().events_page(&run.run_id, asking.last, AT_ONCE).await {
            page.events.iter().for_each(|stored| asking.visit(stored));
            if !page.has_more {
                break;
            }
        }
        let asking = Arc::new(asking);
        keep(&self.cache.asking, MAX_RUNS, &run.run_id, Arc::clone(&asking));
        asking
    }

    /// Returns the open questions of a run that has not ended.
    pub(super) async fn questions(&self, run: &RunSummary) -> Arc<[Question]> {
        if let Some((events, questions)) = kept(&self.cache.whole, &run.run_id)
            && events == run.events
        {
            return questions;
        }
        let questions = read_questions(&self.shared.host, &run.run_id).await;
        if questions.iter().all(|question| size(&question.asked) <= MAX_WHOLE_BYTES) {
            keep(&self.cache.whole, MAX_WHOLE, &run.run_id, (run.events, Arc::clone(&questions)));
        }
        questions
    }
}

/// Reads the open questions of a run; none if its record is damaged.
async fn read_questions(host: &Host, run_id: &str) -> Arc<[Question]> {
    let mut asked_at: HashMap<String, u64> = HashMap::new();
    let read = host.run_and_end(run_id, |stored| {
        if let Event::CallSuspended(asked) = &stored.event {
            asked_at.insert(asked.suspension_id.clone(), stored.at_ms);
        }
    });
    let Ok((run, _)) = read.await else { return Arc::default() };
    let at_ms = |asked: &SuspendedCall| asked_at.get(&asked.suspension_id).copied().unwrap_or_default();
    run.open_questions().map(|asked| Question { at_ms: at_ms(asked), asked: Arc::clone(asked) }).collect()
}

/// Folds a record. A record that cannot be folded gives as much as it can.
pub(super) fn fold(events: &[Arc<StoredEvent>]) -> Run {
    let mut run = Run::new(Thread::default());
    let _ = events.iter().try_for_each(|event| run.apply(&event.event));
    run
}

/// Returns the unanswered questions of a run with their times; none if it has ended.
pub(super) fn open_questions(run: &Run, events: &[Arc<StoredEvent>]) -> Vec<Question> {
    let asked_at = |asked: &SuspendedCall| {
        let is_it = |event: &&Arc<StoredEvent>| matches!(&event.event, Event::CallSuspended(other) if other.suspension_id == asked.suspension_id);
        events.iter().rev().find(is_it).map_or(0, |event| event.at_ms)
    };
    let asked = run.open_questions().filter(|_| !run.is_finished()).cloned();
    asked.map(|asked| Question { at_ms: asked_at(&asked), asked }).collect()
}
