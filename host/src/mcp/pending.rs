//! Calls that wait for a person, so that a call that is repeated goes on instead of
//! beginning anew.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tollgate_agent::run::event::Suspended;
use uuid::Uuid;

/// The most calls of one server that are remembered; the oldest is forgotten first,
/// and still waits in the store.
const MAX_PENDING: usize = 1_024;

/// Which call: what a client repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) thread_id: String,
    pub(super) tool_name: String,
    pub(super) arguments: Arc<str>,
}

/// A call that waits.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// Names it to its client. Nobody can guess it.
    pub(super) handle: String,
    pub(super) asked: Asked,
    pub(super) run_id: Arc<str>,
    pub(super) question: Arc<Suspended>,
}

/// All of them, oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingCalls(Mutex<VecDeque<Pending>>);

impl PendingCalls {
    /// Remembers a call that waits; the handle stays with the run.
    pub(super) fn add(&self, asked: &Asked, run_id: &Arc<str>, question: &Arc<Suspended>) -> Pending {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = calls.iter().position(|call| call.run_id == *run_id);
        let handle = known
            .and_then(|at| calls.remove(at))
            .map_or_else(|| Uuid::new_v4().simple().to_string(), |call| call.handle);
        if calls.len() >= MAX_PENDING {
            calls.pop_front();
        }
        let pending = Pending {
            handle,
            asked: asked.clone(),
            run_id: Arc::clone(run_id),
            question: Arc::clone(question),
        };
        calls.push_back(pending.clone());
        pending
    }

    /// Takes out the call that is repeated: with its handle, or the same call anew.
    pub(super) fn take(&self, asked: &Asked, handle: Option<&str>) -> Option<Pending> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let repeated =
            |call: &Pending| call.asked == *asked && handle.is_none_or(|handle| handle == call.handle);
        let at = calls.iter().position(repeated)?;
        calls.remove(at)
    }
}
