//! One call of a client, from its request to what it is answered.

use super::answer;
use super::notices::Notices;
use super::pending::{Asked, Pending, PendingCalls};
use crate::run::{RunEnd, RunHandle};
use crate::{CallRequest, Host, HostError, RunRequest};
use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData};
use rmcp::service::RequestContext;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tollgate_agent::run::event::{Event, Finished};
use tollgate_agent::run::{Decision, DecisionAnswer};
use uuid::Uuid;

/// How long a decision waits before it asks again for a thread that is at work.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// A call with all that it needs of its session.
pub(super) struct Calling<'a> {
    pub(super) host: &'a Host,
    pub(super) thread_id: &'a str,
    pub(super) pending: &'a PendingCalls,
    pub(super) calls: &'a Semaphore,
    pub(super) context: &'a RequestContext<RoleServer>,
    pub(super) notices: Option<Notices>,
    pub(super) decide: &'a str,
}

impl Calling<'_> {
    /// Calls a tool; or goes on with the call that is repeated.
    pub(super) async fn tool(
        &mut self,
        params: CallToolRequestParams,
        arguments: Arc<str>,
    ) -> Result<CallToolResponse, ErrorData> {
        let asked =
            Asked { thread_id: self.thread_id.to_owned(), tool_name: params.name.into_owned(), arguments };
        let state = params.request_state.as_deref();
        if let Some(pending) = self.pending.take(&asked, state) {
            return self.again(pending, params.input_responses).await;
        }
        if state.is_some() {
            let words = "the requestState is not that of a call that waits here; repeat the call without it";
            return Err(ErrorData::invalid_params(words, None));
        }
        let end = self.begin(&asked).await?;
        self.settle(end, &asked).await
    }

    /// Lets an agent work on a request, in a conversation of its own.
    pub(super) async fn agent(&mut self, params: CallToolRequestParams) -> Result<CallToolResult, ErrorData> {
        let arguments = params.arguments.unwrap_or_default();
        let request = match (arguments.get("request"), arguments.len()) {
            (Some(Value::String(request)), 1) => request.clone(),
            _ => {
                let words = "An agent takes one argument, `request`, a text.";
                let structured =
                    serde_json::json!({"error": {"code": "invalid_arguments", "message": words}});
                return Ok(answer::refused(words, structured));
            }
        };
        let handle = self.host.run(RunRequest::new(params.name, request)).await.map_err(broken)?;
        Ok(answer::of_run(self.follow(handle).await?))
    }

    async fn begin(&mut self, asked: &Asked) -> Result<RunEnd, ErrorData> {
        let _turn = turn(self.calls, &self.context.ct).await?;
        let mut request = CallRequest::new(&asked.tool_name, &*asked.arguments).on_thread(&asked.thread_id);
        request.cancel = self.context.ct.clone();
        if self.notices.is_none() {
            return self.host.call(request).await.map_err(broken);
        }
        let handle = self.host.start_call(request).await.map_err(broken)?;
        self.follow(handle).await
    }

    /// Carries a call on with a person's decision.
    pub(super) async fn decide(
        &mut self,
        pending: &Pending,
        answer: DecisionAnswer,
        reason: Option<String>,
    ) -> Result<RunEnd, HostError> {
        let _turn = turn(self.calls, &self.context.ct)
            .await
            .map_err(|e| HostError::Refused(e.message.into_owned()))?;
        let decision = Decision {
            id: Uuid::now_v7().to_string(),
            target: pending.question.suspension_id.clone(),
            answer,
            reason,
            at_ms: crate::run::now_ms(),
        };
        loop {
            match self.host.decide(&pending.run_id, decision.clone()).await {
                // Another call of the thread is being decided; it takes its turn.
                Err(HostError::Busy(_)) if !self.context.ct.is_cancelled() => {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(e) => return Err(e),
                Ok(handle) => {
                    let followed = self.follow(handle).await;
                    return followed.map_err(|e| HostError::Setup(e.message.into_owned()));
                }
            }
        }
    }

    /// Tells the client what it asked to be told, until the run has ended or waits.
    pub(super) async fn follow(&mut self, mut handle: RunHandle) -> Result<RunEnd, ErrorData> {
        let (ct, cancellation) = (self.context.ct.clone(), handle.cancellation());
        let cancel = async move {
            ct.cancelled().await;
            cancellation.cancel();
            std::future::pending::<()>().await;
        };
        let told = async {
            match &mut self.notices {
                Some(notices) => notices.tell_all(&mut handle.events).await,
                None => while handle.events.next().await.is_some() {},
            }
        };
        tokio::select! {
            () = told => {}
            () = cancel => {}
        }
        handle.wait().await.map_err(broken)
    }

    /// What a run that was decided elsewhere came to, from its record.
    pub(super) async fn recorded_end(&self, run_id: &str) -> Result<Option<Finished>, ErrorData> {
        let record = self.host.store().events(run_id, 0).await.map_err(broken)?;
        let ended = record.last().is_some_and(|last| matches!(last.event, Event::RunFinished { .. }));
        let finished = record.iter().rev().find_map(|numbered| match &numbered.event {
            Event::CallFinished(finished) => Some(finished.clone()),
            _ => None,
        });
        Ok(finished.filter(|_| ended))
    }
}

/// Waits until the session has room for one more call.
async fn turn<'a>(calls: &'a Semaphore, ct: &CancellationToken) -> Result<SemaphorePermit<'a>, ErrorData> {
    tokio::select! {
        turn = calls.acquire() => turn.map_err(broken),
        () = ct.cancelled() => Err(broken("the call was cancelled")),
    }
}

/// The host itself broke; whatever a tool does is not here.
pub(super) fn broken(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(tollgate_agent::text::clean(&error.to_string(), 1_000), None)
}
