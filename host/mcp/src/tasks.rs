//! Calls that wait for a person, as tasks of the protocol's extension
//! `io.modelcontextprotocol/tasks` (SEP-2663). A client that supports tasks but cannot ask its
//! person receives a task instead of a result, and polls it until a person has decided elsewhere.

use super::suspended_calls::{Pending, oldest_of_largest_owner, owner_of};
use super::tool_calls::{FinishedRun, ToolCallSession};
use rmcp::model::{
    CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask, ErrorData, JsonObject, Task,
    TaskPayload, TaskStatus,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tollgate::HostError;
use tollgate_agent::run::DecisionAnswer;
use uuid::Uuid;

/// The maximum number of remembered tasks per server. The oldest of the owner with the most is
/// forgotten first, and its call still waits in the store.
const MAX_TASKS: usize = 1_024;
/// The suggested polling interval; meanwhile a person decides.
const POLL_MS: u64 = 1_000;

/// The run of a task.
#[derive(Debug, Clone)]
struct TaskRun {
    id: String,
    thread_id: String,
    run_id: Arc<str>,
    is_agent: bool,
    /// Whether its client cancelled it.
    cancelled: bool,
}

/// All tasks, oldest first.
#[derive(Debug, Default)]
pub(super) struct Tasks(Mutex<VecDeque<TaskRun>>);

impl Tasks {
    /// Returns the task of this run, which stays the same however often its call is repeated.
    fn of_run(&self, thread_id: &str, run_id: &Arc<str>, is_agent: bool) -> TaskRun {
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
    fn find(&self, id: &str, thread_id: &str) -> Result<TaskRun, ErrorData> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = tasks.iter().find(|kept| kept.id == id && kept.thread_id == thread_id);
        let unknown = || ErrorData::invalid_params("there is no task of this taskId", None);
        found.cloned().ok_or_else(unknown)
    }

    fn cancel(&self, id: &str) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = tasks.iter_mut().find(|kept| kept.id == id) {
            kept.cancelled = true;
        }
    }
}

impl ToolCallSession<'_> {
    /// Returns the response that contains a task instead of a result.
    pub(super) async fn as_task(&self, pending: &Pending) -> Result<CallToolResponse, ErrorData> {
        let kept = self.pending.tasks.of_run(&self.thread_id, &pending.run_id, self.is_agent);
        let recorded = self.recorded(&kept.run_id).await?;
        Ok(CreateTaskResult::new(self.task(&kept, &recorded)).into())
    }

    /// Returns the state of a task: its call waits, is running, or has a result.
    pub(super) async fn look_at_task(&mut self, id: &str) -> Result<DetailedTask, ErrorData> {
        let kept = self.pending.tasks.find(id, &self.thread_id)?;
        let recorded = self.recorded(&kept.run_id).await?;
        let task = self.task(&kept, &recorded);
        let payload = match recorded.end.status {
            None => TaskPayload::Working,
            Some(_) if kept.cancelled => TaskPayload::Cancelled,
            Some(_) => {
                // From here on, an identical call starts anew.
                self.pending.forget(&kept.run_id);
                self.is_agent = kept.is_agent;
                TaskPayload::Completed { result: object(&self.result(recorded.end)?) }
            }
        };
        Ok(DetailedTask::new(task, payload))
    }

    /// Cancels a task: a call that waits ends as cancelled. A call that was approved meanwhile goes
    /// on, unless another server mounts this one, where clients may cancel their own calls.
    pub(super) async fn cancel_task(&mut self, id: &str) -> Result<(), ErrorData> {
        let kept = self.pending.tasks.find(id, &self.thread_id)?;
        let waiting = self.recorded(&kept.run_id).await?.end.waiting;
        let Some(question) = waiting.first() else { return Ok(()) };
        let reason = Some("the client cancelled its task".to_owned());
        let target = question.suspension_id.as_str();
        let cancelled = match self.client {
            // Any principal may cancel its own call, but not every one may answer its questions.
            Some(_) => self.host.cancel(&kept.run_id, reason).await,
            None => self.decide(&kept.run_id, target, DecisionAnswer::Cancel, reason).await.map(drop),
        };
        match cancelled {
            Ok(()) => {
                self.pending.tasks.cancel(id);
                self.pending.forget(&kept.run_id);
                Ok(())
            }
            // The question was decided first, which the client sees when it polls.
            Err(
                HostError::Refused(_)
                | HostError::NotFound(_)
                | HostError::AlreadyDecided(_)
                | HostError::AlreadyEnded(_),
            ) => Ok(()),
            Err(e) => Err(self.failed(e)),
        }
    }

    fn task(&self, kept: &TaskRun, recorded: &FinishedRun) -> Task {
        let (began, changed) = (written(recorded.began_at_ms), written(recorded.changed_at_ms));
        let task = Task::new(&kept.id, TaskStatus::Working, began, changed).with_poll_interval_ms(POLL_MS);
        match recorded.end.waiting.first() {
            Some(question) => task.with_status_message(self.how_to_decide(&kept.run_id, question).words),
            None => task,
        }
    }
}

/// Formats a time as ISO 8601.
fn written(at_ms: u64) -> String {
    let moment = jiff::Timestamp::from_millisecond(i64::try_from(at_ms).unwrap_or(i64::MAX));
    moment.unwrap_or(jiff::Timestamp::MAX).to_string()
}

fn object(result: &CallToolResult) -> JsonObject {
    match serde_json::to_value(result) {
        Ok(serde_json::Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_known_to_their_conversation_alone_and_bounded() {
        let tasks = Tasks::default();
        let kept = |number: usize| tasks.of_run("mine", &number.to_string().into(), false).id;
        let (first, second) = (kept(0), kept(1));
        assert_eq!(kept(0), first);
        (2..=MAX_TASKS).for_each(|number| _ = kept(number));
        assert_eq!(tasks.0.lock().unwrap_or_else(PoisonError::into_inner).len(), MAX_TASKS);
        assert!(tasks.find(&first, "mine").is_err(), "the oldest is forgotten");
        assert!(tasks.find(&second, "mine").is_ok() && tasks.find(&second, "another's").is_err());
    }

    #[test]
    fn moments_are_written_as_iso_8601() {
        assert_eq!(written(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert!(written(u64::MAX).starts_with("9999-12-"));
    }
}
