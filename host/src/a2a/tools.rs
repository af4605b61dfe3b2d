//! The two calls of a run whose agent is remote. They are never offered to a model.

use super::RemoteAgent;
use super::binding::Method;
use super::client::MessageReply;
use super::error::RemoteError;
use super::task::{Piece, RemoteState, TaskState};
use crate::tools::{CallContext, NativeTool, Report, ToolCall};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::{ExecutionPolicy, ToolDescriptor};
use tollgate_agent::name::{FOLLOW_AGENT, MESSAGE_AGENT};
use tollgate_agent::outcome::{Fault, ToolOutput, ToolResult};
use tollgate_agent::remote::{RemoteAnswer, RemoteMessage, RemoteTask};
use tollgate_agent::text::sentence;
use tollgate_sandbox::ProgressStatus;

/// How long an attempt of either call may take, unless the agent's limits are lower. Their default
/// ceiling is 5 minutes.
const TIMEOUT_MS: u32 = 24 * 60 * 60 * 1000;
/// How long a message may take to be accepted after its call has ended.
const LATE: Duration = Duration::from_secs(60);
/// The first and the longest pause between two looks at a task.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// How often in a row a look may fail because of the connection.
const MAX_BROKEN: u32 = 5;

/// The remote agents of a host, by their ids.
pub(crate) type RemoteAgents = Arc<BTreeMap<String, Arc<RemoteAgent>>>;

/// Sends a remote agent a message, and returns the id of the task that it began.
pub(crate) struct MessageAgent(pub(crate) RemoteAgents);

/// Waits until a remote task has ended or asks. Repeating it is harmless.
pub(crate) struct FollowAgent(pub(crate) RemoteAgents);

/// Returns the remote agent that calls. No other agent can use its server and its token.
fn caller<'a>(
    agents: &'a RemoteAgents,
    call: &ToolCall<'_>,
) -> Result<(&'a Arc<RemoteAgent>, String), Fault> {
    let id = call.attempt().agent.id.clone();
    let refused = |why: &str| Fault::new(Code::ToolFailed, format!("The agent '{id}' {why}."));
    let remote = agents.get(&id).ok_or_else(|| refused("is not a remote agent"))?;
    match call.arguments()["url"] == remote.address() {
        true => Ok((remote, id)),
        false => Err(refused("is at another address now; start the conversation anew")),
    }
}

fn descriptor(
    name: &str,
    description: &str,
    idempotent: bool,
    mut properties: Value,
    required: &str,
) -> ToolDescriptor {
    let execution =
        ExecutionPolicy { timeout_ms: Some(TIMEOUT_MS), max_retries: None, idempotent, validates: false };
    properties["url"] = json!({"type": "string", "description": "The address of the remote agent."});
    properties["context_id"] = json!({"type": "string", "description": "The remote conversation."});
    ToolDescriptor::new(name.replace('_', "-"), name, description)
        .with_category("agents")
        .with_execution(execution)
        .with_parameters(json!({
            "type": "object",
            "properties": properties,
            "required": ["url", required],
            "additionalProperties": false,
        }))
}

fn failed(agent: &str, error: &RemoteError) -> Fault {
    Fault::new(
        Code::ToolFailed,
        format!("The remote agent '{agent}' did not answer: {}", sentence(&error.to_string())),
    )
}

/// Returns whether the task has to be read again after a stream failed: the task ended
/// meanwhile, the connection broke, or the server cannot stream its updates.
fn must_poll(why: &RemoteError) -> bool {
    matches!(why, RemoteError::Broken(_) | RemoteError::Refused { is_unsupported: true, .. })
}

/// Returns the id of the message that an attempt sends. Each attempt sends one.
fn message_id(attempt: &CallContext<'_>) -> String {
    format!("{}/{}/{}", attempt.identity.run_id, attempt.permit.call_id(), attempt.attempt)
}

fn cancelled() -> Fault {
    Fault::new(Code::Cancelled, "The call was cancelled.")
}

#[async_trait]
impl NativeTool for MessageAgent {
    fn descriptor(&self) -> ToolDescriptor {
        let properties = json!({
            "message": {"type": "string", "description": "The message."},
            "earlier": {"type": "string", "description": "The messages before it, as text."},
        });
        descriptor(MESSAGE_AGENT, "Sends a remote agent a message.", false, properties, "message")
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        let (remote, agent) = caller(&self.0, &call)?;
        let text = |name: &str| call.arguments()[name].as_str().map(str::to_owned);
        let message = RemoteMessage {
            message: text("message").unwrap_or_default(),
            earlier: text("earlier"),
            context_id: text("context_id"),
        };
        let attempt = call.attempt();
        let id = message_id(attempt);
        let (tell, told) = oneshot::channel();
        let (remote, wait) = (Arc::clone(remote), attempt.timeout.saturating_add(LATE));
        // If the call has ended when the id of its task arrives, the task is cancelled.
        tokio::spawn(async move {
            let sending = tokio::time::timeout(wait, remote.send(&id, &message)).await;
            let Ok(sent) = sending else { return };
            if let Err(Ok(MessageReply::Task(unheard))) = tell.send(sent) {
                remote.cancel(&unheard.task_id).await;
            }
        });
        let sent = tokio::select! {
            biased;
            sent = told => sent.map_err(|_| Fault::new(Code::HostFailed, "The message was not sent."))?,
            () = call.cancelled() => return Err(cancelled()),
        };
        let answer = match sent.map_err(|why| failed(&agent, &why))? {
            MessageReply::Message { text, context_id } => {
                RemoteAnswer { response: Some(text), task_id: None, context_id }
            }
            MessageReply::Task(task) => {
                RemoteAnswer { response: None, task_id: Some(task.task_id), context_id: task.context_id }
            }
        };
        Ok(ToolResult::success(json!(answer)).into())
    }
}

#[async_trait]
impl NativeTool for FollowAgent {
    fn descriptor(&self) -> ToolDescriptor {
        let properties = json!({"task_id": {"type": "string", "description": "The remote task."}});
        descriptor(FOLLOW_AGENT, "Waits for a remote agent's answer.", true, properties, "task_id")
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        let (remote, agent) = caller(&self.0, &call)?;
        let text = |name: &str| call.arguments()[name].as_str().map(str::to_owned);
        let task =
            RemoteTask { task_id: text("task_id").unwrap_or_default(), context_id: text("context_id") };
        let following = FollowedTask { remote, agent: &agent, task: &task, call: &call };
        let state = tokio::select! {
            biased;
            followed = following.to_rest() => followed.map_err(|why| failed(&agent, &why))?,
            () = call.cancelled() => return Err(cancelled()),
        };
        Ok(match state.state {
            TaskState::Completed => ToolResult::success(json!(RemoteAnswer {
                response: Some(state.response()),
                task_id: Some(task.task_id),
                context_id: state.context_id.or(task.context_id),
            }))
            .into(),
            TaskState::InputRequired | TaskState::AuthRequired => {
                ToolResult::suspended_with(state.question(&agent)).into()
            }
            TaskState::Working | TaskState::Failed | TaskState::Cancelled | TaskState::Rejected => {
                let message = format!("The remote agent '{agent}' {}.", state.failure());
                return Err(Fault::new(Code::ToolFailed, message));
            }
        })
    }
}

/// A call that waits for a task.
struct FollowedTask<'a> {
    remote: &'a RemoteAgent,
    agent: &'a str,
    task: &'a RemoteTask,
    call: &'a ToolCall<'a>,
}

impl FollowedTask<'_> {
    /// Follows the task until it has ended or asks something that was not answered.
    async fn to_rest(&self) -> Result<RemoteState, RemoteError> {
        let (mut state, mut broken, mut pause) = (RemoteState::default(), 0, PAUSES.0);
        let mut resume = self.call.attempt().resume;
        loop {
            match self.refresh(&mut state).await {
                Ok(()) => {
                    broken = 0;
                    // An answer is sent once, and to its own question only.
                    let answer = resume.take().and_then(|resumption| state.answer(self.agent, resumption));
                    let followed = match answer {
                        Some(part) => self.answer(&mut state, part).await,
                        None if state.is_at_rest() => return Ok(state),
                        None => self.watch(&mut state).await,
                    };
                    match followed {
                        Ok(()) if state.is_at_rest() => return Ok(state),
                        Err(why) if !must_poll(&why) => return Err(why),
                        _ => {}
                    }
                }
                Err(RemoteError::Broken(_)) if broken < MAX_BROKEN => broken += 1,
                Err(why) => return Err(why),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn refresh(&self, state: &mut RemoteState) -> Result<(), RemoteError> {
        let task = self.remote.get_task(self.task).await?;
        self.apply(state, &task)
    }

    /// Follows the task by a stream, if the server has them.
    async fn watch(&self, state: &mut RemoteState) -> Result<(), RemoteError> {
        let endpoint = self.remote.endpoint().await?;
        if !endpoint.streams {
            return Ok(());
        }
        let method = Method::SubscribeToTask(&self.task.task_id);
        let mut events = self.remote.stream(&endpoint, method).await?;
        while let Some(update) = self.remote.next_update(&endpoint, &mut events).await? {
            self.apply(state, &update)?;
            if state.is_at_rest() {
                break;
            }
        }
        Ok(())
    }

    /// Sends a person's answer, and follows the task until it rests again. The first task of the
    /// stream may still be the one that asks.
    async fn answer(&self, state: &mut RemoteState, part: Value) -> Result<(), RemoteError> {
        let id = message_id(self.call.attempt());
        let mut message =
            json!({"messageId": id, "role": "ROLE_USER", "taskId": self.task.task_id, "parts": [part]});
        if let Some(context) = state.context_id.as_ref().or(self.task.context_id.as_ref()) {
            message["contextId"] = json!(context);
        }
        let params = json!({"message": message, "configuration": {"acceptedOutputModes": ["text/plain"]}});
        let endpoint = self.remote.endpoint().await?;
        if !endpoint.streams {
            let settled = self.remote.call(Method::SendMessage(&params)).await?;
            state.state = TaskState::Working;
            return self.apply(state, &settled);
        }
        let mut events = self.remote.stream(&endpoint, Method::SendStreamingMessage(&params)).await?;
        state.state = TaskState::Working;
        while let Some(update) = self.remote.next_update(&endpoint, &mut events).await? {
            self.apply(state, &update)?;
            if update.get("task").is_some() {
                state.state = TaskState::Working;
            }
            if state.is_at_rest() {
                break;
            }
        }
        Ok(())
    }

    /// Applies an update, and reports what is new.
    ///
    /// # Errors
    /// It is about another task.
    fn apply(&self, state: &mut RemoteState, update: &Value) -> Result<(), RemoteError> {
        let ids =
            [&update["task"]["id"], &update["statusUpdate"]["taskId"], &update["artifactUpdate"]["taskId"]];
        if let Some(id) = ids.into_iter().filter_map(Value::as_str).find(|id| *id != self.task.task_id) {
            return Err(RemoteError::malformed(format!("its answer is about another task: {id}")));
        }
        match state.apply(update) {
            Some(Piece::Text(text)) => {
                self.call.report(Report::Output(text));
            }
            Some(Piece::Progress(words)) => {
                let status = ProgressStatus::Running;
                self.call.report(Report::Progress { status, message: Some(words), progress: None });
            }
            None => {}
        }
        Ok(())
    }
}
