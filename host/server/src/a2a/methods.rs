//! The methods of A2A, whichever binding carries them.

use super::encode::TaskEncoder;
use super::error::{A2aError, ErrorKind};
use super::request::{List, QuestionAnswer, Send, TaskRef};
use super::task::TaskView;
use crate::Shared;
use crate::agent_runs::{
    AgentRuns, Feed, FeedUntil, IdempotentStart, OwnRun, ReplyText, Start, encoded, repeatable, start_once,
};
use crate::problem::Problem;
use axum::http::HeaderMap;
use futures::Stream;
use serde_json::{Value, json};
use std::time::Duration;
use tollgate::store::{RecordReader, RunFilter, RunSummary};
use tollgate::tools::Reservation;
use tollgate_agent::json::{Measure, written_bytes};
use tollgate_agent::run::Decision;

/// How long a stream stays open while a person decides a gate's question.
const HOLD: Duration = Duration::from_secs(240);
/// How long an answer waits for the end of a cancelled task.
const CANCEL_TIME: Duration = Duration::from_secs(5);
/// The maximum number of tasks that a list looks through, newest first.
const MAX_LISTED: usize = 1_000;
/// The size at which a page of tasks ends early, in bytes.
const MAX_PAGE_BYTES: usize = 1 << 20;

/// The tasks of one principal with one agent.
#[derive(Clone, Copy)]
pub(super) struct Tasks<'a> {
    pub(super) state: &'a Shared,
    pub(super) runs: AgentRuns<'a>,
    pub(super) headers: &'a HeaderMap,
    pub(super) agent: &'a str,
    pub(super) decide_url: &'a str,
}

/// A task that goes on, and what the client knows of it.
pub(super) struct OngoingTask {
    feed: Feed,
    encoder: TaskEncoder,
    task_id: String,
    /// Whether an earlier request with the same key started the task.
    pub(super) is_replay: bool,
}

impl OngoingTask {
    /// Returns the stream of the task's updates.
    pub(super) fn stream(self) -> impl Stream<Item = Value> + std::marker::Send {
        encoded(self.feed, self.encoder)
    }
}

impl Tasks<'_> {
    /// Starts a task with a message, or answers the questions of one. `hold` keeps the stream open
    /// while a person decides a gate's question.
    pub(super) async fn send(&self, send: &Send, holds: bool) -> Result<OngoingTask, A2aError> {
        match &send.task {
            Some(task) => self.answer(task, send, holds).await,
            None => self.start(send, holds).await,
        }
    }

    async fn start(&self, send: &Send, holds: bool) -> Result<OngoingTask, A2aError> {
        if !send.answers.is_empty() {
            let why = "an answer to a question needs the `taskId` of the task that asked";
            return Err(A2aError::new(ErrorKind::InvalidParams, why));
        }
        let prepare = || async {
            if let Some(context) = &send.context
                && self.runs.latest(context).await?.is_none()
            {
                let why = "there is no such context; leave out `contextId` to begin one";
                return Err(A2aError::new(ErrorKind::InvalidParams, why));
            }
            Ok(Start {
                agent_id: self.agent.to_owned(),
                prompt: send.text.clone(),
                thread: send.context.clone(),
                detached: true,
                by_agent: true,
                ..Start::default()
            })
        };
        let (route, body) = (format!("A2A {}", self.agent), send.message.as_bytes());
        let once = start_once((self.state, &self.runs), &route, self.headers, body, prepare).await?;
        let IdempotentStart { started, is_replay } = once;
        let task_id = started.run_id.to_string();
        let view = TaskView::new(&task_id, &started.thread, self.decide_url);
        let encoder = TaskEncoder::new(view, ReplyText::default(), send.history_length);
        let feed = self.runs.follow(&started, until(holds))?;
        Ok(OngoingTask { feed, encoder, task_id, is_replay })
    }

    /// Answers questions of a task.
    async fn answer(&self, task: &str, send: &Send, holds: bool) -> Result<OngoingTask, A2aError> {
        let run = self.find(task).await?;
        if send.context.as_ref().is_some_and(|context| *context != run.thread) {
            let why = "the task belongs to another context; leave out `contextId`";
            return Err(A2aError::new(ErrorKind::InvalidParams, why));
        }
        let unsupported = |why: &str| Err(A2aError::new(ErrorKind::UnsupportedOperation, why));
        if run.end.is_some() {
            return unsupported("the task has ended; send the message without `taskId`");
        }
        if !run.is_waiting {
            return unsupported("the task is working; wait until it has ended or asks for input");
        }
        let decisions = decisions(&run, send)?;
        let (count, stored) = (decisions.len(), run.stored());
        self.runs.decide(&run, decisions).await?;
        let view = TaskView::of(&run, self.decide_url);
        let encoder = TaskEncoder::new(view, ReplyText::default(), send.history_length);
        let feed = self.runs.resume(&run.run_id, until(holds), stored, stored)?;
        let feed = feed.after_decisions(count);
        Ok(OngoingTask { feed, encoder, task_id: run.run_id, is_replay: false })
    }

    /// Waits until the task has ended or asks, and returns it.
    pub(super) async fn wait_for_rest(
        &self,
        mut going: OngoingTask,
        history: Option<usize>,
    ) -> Result<Value, A2aError> {
        going.feed.finished().await;
        self.get(&TaskRef { id: going.task_id, history_length: history }).await
    }

    /// Returns a task that was just started.
    pub(super) async fn describe_started(
        &self,
        going: OngoingTask,
        history: Option<usize>,
    ) -> Result<Value, A2aError> {
        self.get(&TaskRef { id: going.task_id, history_length: history }).await
    }

    /// Follows a task from its present state.
    pub(super) async fn subscribe(&self, task: &TaskRef) -> Result<OngoingTask, A2aError> {
        let run = self.find(&task.id).await?;
        if run.end.is_some() {
            let why = "the task has ended; get it instead";
            return Err(A2aError::new(ErrorKind::UnsupportedOperation, why));
        }
        let stored = run.stored();
        let view = TaskView::of(&run, self.decide_url);
        let encoder = TaskEncoder::new(view, ReplyText::default(), task.history_length);
        let feed = self.runs.resume(&run.run_id, until(true), stored, stored)?;
        Ok(OngoingTask { feed, encoder, task_id: run.run_id, is_replay: false })
    }

    /// Returns a task.
    pub(super) async fn get(&self, task: &TaskRef) -> Result<Value, A2aError> {
        let run = self.find(&task.id).await?;
        Ok(TaskView::of(&run, self.decide_url).task(task.history_length, true))
    }

    /// Cancels a task, and returns it once it has ended.
    pub(super) async fn cancel(&self, task: &TaskRef) -> Result<Value, A2aError> {
        let run = self.find(&task.id).await?;
        if run.end.is_some() {
            return Err(A2aError::new(ErrorKind::TaskNotCancelable, "the task has ended"));
        }
        self.runs.cancel(&run.run_id, "cancelled by its client").await?;
        let stored = run.stored();
        let mut feed = self.runs.resume(&run.run_id, FeedUntil::Waiting, stored, stored)?;
        let _ = tokio::time::timeout(CANCEL_TIME, feed.finished()).await;
        self.get(task).await
    }

    /// Lists tasks, those that changed last first.
    pub(super) async fn list(&self, list: &List) -> Result<Value, A2aError> {
        let thread_id = match &list.context {
            Some(context) => Some(self.runs.stored_thread(context)?),
            None => None,
        };
        let filter = RunFilter {
            thread_id,
            kind: Some("prompt".to_owned()),
            agent_id: Some(self.agent.to_owned()),
            limit: MAX_LISTED,
            ..RunFilter::default()
        };
        let runs = self.runs.summaries(filter).await?;
        let mut tasks: Vec<RunSummary> = Vec::new();
        for run in runs {
            let is_recent = run.updated_at_ms >= list.changed_from_ms;
            if is_recent && self.is_in_state(&run, list.state.as_deref()).await {
                tasks.push(run);
            }
        }
        tasks.sort_by_key(|run| std::cmp::Reverse(run.updated_at_ms));
        let (total, mut page, mut bytes, mut memory) = (tasks.len(), Vec::new(), 0, Vec::new());
        for run in tasks.iter().skip(list.skipped).take(list.page_size) {
            // Others read a record in between.
            let _place = self.runs.whole_record().await;
            let run = self.find(&run.run_id).await?;
            let history = list.history_length.or(Some(0));
            let task = TaskView::of(&run, self.decide_url).task(history, list.has_artifacts);
            match self.room_for_task(&task) {
                Ok(reserved) => memory.push(reserved),
                // It is on the next page.
                Err(_) if !page.is_empty() => break,
                Err(full) => return Err(full),
            }
            bytes += written_bytes(&task);
            page.push(task);
            if bytes > MAX_PAGE_BYTES {
                break;
            }
        }
        let next = list.skipped.saturating_add(page.len());
        Ok(json!({
            "nextPageToken": if next < total { next.to_string() } else { String::new() },
            "pageSize": page.len(),
            "totalSize": total,
            "tasks": page,
        }))
    }

    /// Reserves the memory of a task while the others of its page are read.
    fn room_for_task(&self, task: &Value) -> Result<Reservation, A2aError> {
        let reserved = self.state.host.memory_budget().try_reserve(Measure::of(task).parsed_bytes);
        reserved.ok_or_else(|| {
            Problem::overloaded(
                "the host has no memory to list the tasks now; retry after other work has completed",
            )
            .into()
        })
    }

    /// Returns whether the task of a run is in this state; any if it is `None`.
    async fn is_in_state(&self, run: &RunSummary, state: Option<&str>) -> bool {
        let Some(state) = state else { return true };
        match (run.status.as_str(), state) {
            // Only the record shows who asks.
            ("waiting", "TASK_STATE_AUTH_REQUIRED" | "TASK_STATE_INPUT_REQUIRED") => {
                // Others read a record in between.
                let _place = self.runs.whole_record().await;
                let mut view = TaskView::new(&run.run_id, &run.thread_id, self.decide_url);
                let mut record = RecordReader::new(&**self.state.store(), &run.run_id);
                loop {
                    match record.next().await {
                        Ok(Some(stored)) => view.apply(&stored),
                        Ok(None) => break view.state() == state,
                        Err(_) => break false,
                    }
                }
            }
            ("running", "TASK_STATE_WORKING")
            | ("completed", "TASK_STATE_COMPLETED")
            | ("cancelled", "TASK_STATE_CANCELED")
            | ("blocked", "TASK_STATE_REJECTED")
            | ("stopped" | "failed", "TASK_STATE_FAILED") => true,
            _ => false,
        }
    }

    async fn find(&self, task: &str) -> Result<OwnRun, A2aError> {
        let run = self.runs.find_run(task).await?;
        run.filter(|run| run.agent_id == self.agent).ok_or_else(A2aError::task_not_found)
    }
}

fn until(holds: bool) -> FeedUntil {
    if holds { FeedUntil::Held(HOLD) } else { FeedUntil::Waiting }
}

/// Returns the decisions that a message stands for. An agent never answers a gate's question about
/// its own task: a person does, elsewhere.
fn decisions(run: &OwnRun, send: &Send) -> Result<Vec<Decision>, A2aError> {
    let open: Vec<_> = run.calls.waiting().map(|(_, asked)| asked).collect();
    let gate = || {
        let why = "a gate asks a person; an agent cannot decide about its own task";
        A2aError::new(ErrorKind::UnsupportedOperation, why)
    };
    let answers = match send.answers.is_empty() {
        false => send.answers.clone(),
        true => {
            let mut tools = open.iter().filter(|asked| asked.asking_gate().is_none());
            let Some(asked) = tools.next() else { return Err(gate()) };
            if tools.next().is_some() {
                let why = "the task asks several questions; answer with data {\"suspension_id\", \"answer\"}";
                return Err(A2aError::new(ErrorKind::InvalidParams, why));
            }
            let value = Some(Value::String(send.text.clone()));
            vec![QuestionAnswer { suspension: asked.suspension_id.clone(), value }]
        }
    };
    let decide = |answer: QuestionAnswer| {
        let asked =
            run.question(&answer.suspension).ok_or_else(|| run.no_such_question(&answer.suspension))?;
        if asked.asking_gate().is_some() {
            return Err(gate());
        }
        let decision = match answer.value {
            Some(value) => Decision::resume(answer.suspension, value),
            None => Decision::cancel(answer.suspension),
        };
        Ok(repeatable(decision, &run.run_id))
    };
    answers.into_iter().map(decide).collect()
}
