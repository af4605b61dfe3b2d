//! Calls that wait for a person, as tasks of the protocol's extension
//! `io.modelcontextprotocol/tasks` (SEP-2663). A client that supports tasks but cannot ask its
//! person receives a task instead of a result, and polls it until a person has decided elsewhere.

use super::suspended_calls::WaitingCall;
use super::task_runs::TaskRun;
use super::tool_calls::{FinishedRun, ToolCallSession};
use rmcp::model::{
    CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask, ErrorData, JsonObject, Task,
    TaskPayload, TaskStatus,
};
use tollgate::HostError;
use tollgate_agent::run::DecisionAnswer;

/// The suggested polling interval; meanwhile a person decides.
const POLL_MS: u64 = 1_000;

impl ToolCallSession<'_> {
    /// Returns the response that contains a task instead of a result.
    pub(super) async fn as_task(&self, pending: &WaitingCall) -> Result<CallToolResponse, ErrorData> {
        let kept = self.pending.tasks.of_run(&self.thread_id, &pending.run_id, self.is_agent);
        let recorded = self.recorded(&kept.run_id).await?;
        Ok(CreateTaskResult::new(self.task(&kept, &recorded)).into())
    }

    /// Returns the state of a task: its call waits, is running, or has a result.
    pub(super) async fn read_task(&mut self, id: &str) -> Result<DetailedTask, ErrorData> {
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
            None => self.decide(&kept.run_id, target, DecisionAnswer::Cancel, reason).await?.map(drop),
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
                | HostError::UnknownQuestion(_)
                | HostError::AlreadyDecided { .. }
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
    fn moments_are_written_as_iso_8601() {
        assert_eq!(written(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert!(written(u64::MAX).starts_with("9999-12-"));
    }
}
