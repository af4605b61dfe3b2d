//! The memory of the console for facts about runs. The facts of a run change only with its number of
//! events, so each event is read once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tollgate_agent::SmolStr;
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Event, RunUsage, StoredEvent};

/// The open questions of a run, without their texts.
#[derive(Debug, Clone, Default)]
pub(super) struct QuestionSizes {
    /// The number of the last event that was read.
    pub(super) last: u64,
    /// The principal of the run.
    pub(super) owner: Option<SmolStr>,
    /// The questions that wait for a person, in the order in which they were asked.
    pub(super) open: Vec<OpenQuestion>,
}

/// The id of a question that waits for a person.
#[derive(Debug, Clone)]
pub(super) struct OpenQuestion {
    call_id: SmolStr,
    pub(super) suspension_id: String,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
}

/// A question that waits for a person.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// The question itself.
    pub(super) asked: Arc<SuspendedCall>,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
}

impl QuestionSizes {
    /// Takes in the next event of the run.
    pub(super) fn visit(&mut self, stored: &StoredEvent) {
        self.last = stored.number;
        match &stored.event {
            Event::RunStarted { spec } => self.owner.clone_from(&spec.identity.principal),
            Event::CallSuspended(asked) => {
                self.close(&asked.call_id);
                self.open.push(OpenQuestion {
                    call_id: asked.call_id.clone(),
                    suspension_id: asked.suspension_id.clone(),
                    at_ms: stored.at_ms,
                });
            }
            Event::CallDecided { call_id, .. } => self.close(call_id),
            Event::CallFinished(finished) => self.close(&finished.call_id),
            Event::RunFinished { .. } => self.open.clear(),
            _ => {}
        }
    }

    fn close(&mut self, call_id: &str) {
        self.open.retain(|open| open.call_id != call_id);
    }
}

/// The open questions of a run, and the number of events from which they follow.
pub(super) type KnownQuestions = (u64, Arc<[Question]>);

/// The memory of the console, shared by all requests. Each fact is kept with the number of the
/// run's events from which it follows.
#[derive(Default)]
pub(super) struct Cache {
    pub(super) usage: Mutex<HashMap<String, (u64, Option<RunUsage>)>>,
    pub(super) asking: Mutex<HashMap<String, Arc<QuestionSizes>>>,
    pub(super) whole: Mutex<HashMap<String, KnownQuestions>>,
}

/// Returns a fact that is kept.
pub(super) fn kept<T: Clone>(facts: &Mutex<HashMap<String, T>>, run_id: &str) -> Option<T> {
    facts.lock().unwrap_or_else(PoisonError::into_inner).get(run_id).cloned()
}

/// Keeps a fact. If there are too many, all others are forgotten.
pub(super) fn keep<T>(facts: &Mutex<HashMap<String, T>>, most: usize, run_id: &str, fact: T) {
    let mut facts = facts.lock().unwrap_or_else(PoisonError::into_inner);
    if facts.len() >= most {
        facts.clear();
    }
    facts.insert(run_id.to_owned(), fact);
}
