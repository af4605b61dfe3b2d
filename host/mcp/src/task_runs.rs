//! The runs of calls that their clients know as tasks.

use super::sessions::{oldest_of_largest_owner, owner_of};
use rmcp::model::ErrorData;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// The maximum number of remembered tasks per server. The oldest of the owner with the most is
/// forgotten first, and its call still waits in the store.
const MAX_TASKS: usize = 1_024;

/// The run of a task.
#[derive(Debug, Clone)]
pub(super) struct TaskRun {
    pub(super) id: String,
    pub(super) thread_id: String,
    pub(super) run_id: Arc<str>,
    pub(super) is_agent: bool,
    /// Whether its client cancelled it.
    pub(super) cancelled: bool,
}

/// The runs of all tasks, oldest first.
#[derive(Debug, Default)]
pub(super) struct TaskRuns(Mutex<VecDeque<TaskRun>>);

impl TaskRuns {
    /// Returns the task of this run, which stays the same however often its call is repeated.
    pub(super) fn of_run(&self, thread_id: &str, run_id: &Arc<str>, is_agent: bool) -> TaskRun {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = tasks.iter().find(|kept| kept.run_id == *run_id) {
            return kept.clone();
        }
        let kept = TaskRun {
            // Unguessable.
            id: Uuid::new_v4().simple().to_string(),
            thread_id: thread_id.to_owned(),
            run_id: Arc::clone(run_id),
            is_agent,
            cancelled: false,
        };
        tasks.push_back(kept.clone());
        if tasks.len() > MAX_TASKS {
            // The newest stays.
            let others = tasks.iter().take(tasks.len() - 1);
            let owners = others.map(|task| (owner_of(&task.thread_id), 1));
            let oldest = oldest_of_largest_owner(owners);
            tasks.remove(oldest);
        }
        kept
    }

    /// Returns a task of this conversation.
    pub(super) fn find(&self, id: &str, thread_id: &str) -> Result<TaskRun, ErrorData> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = tasks.iter().find(|kept| kept.id == id && kept.thread_id == thread_id);
        let unknown = || ErrorData::invalid_params("there is no task of this taskId", None);
        found.cloned().ok_or_else(unknown)
    }

    /// Records that its client cancelled a task.
    pub(super) fn cancel(&self, id: &str) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = tasks.iter_mut().find(|kept| kept.id == id) {
            kept.cancelled = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_known_to_their_conversation_alone_and_bounded() {
        let tasks = TaskRuns::default();
        let kept = |number: usize| tasks.of_run("mine", &number.to_string().into(), false).id;
        let (first, second) = (kept(0), kept(1));
        assert_eq!(kept(0), first);
        (2..=MAX_TASKS).for_each(|number| _ = kept(number));
        assert_eq!(tasks.0.lock().unwrap_or_else(PoisonError::into_inner).len(), MAX_TASKS);
        assert!(tasks.find(&first, "mine").is_err(), "the oldest is forgotten");
        assert!(tasks.find(&second, "mine").is_ok() && tasks.find(&second, "another's").is_err());
    }
}
