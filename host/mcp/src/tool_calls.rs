//! One call of a client, from its request to its answer.

use super::call_result;
use super::mounted_client::MountedClient;
use super::notifications::Notices;
use super::suspended_calls::{CallKey, PendingCalls};
use super::tool_list::ToolList;
use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData};
use rmcp::service::RequestContext;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tollgate::run::{RunEnd, RunHandle, UnrecordedEffect};
use tollgate::{CallRequest, Host, HostError, RunRequest};
use tollgate_agent::SmolStr;
use tollgate_agent::proposal::Arguments;
use tollgate_agent::run::{Decision, DecisionAnswer, StoredEvent};
use uuid::Uuid;

const CANCELLED: &str = "the call was cancelled";
/// How long a decision waits before it retries on a busy thread.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// A call with the parts of its session that it needs.
pub(super) struct ToolCallSession<'a> {
    pub(super) host: &'a Host,
    pub(super) thread_id: Arc<str>,
    pub(super) pending: &'a PendingCalls,
    pub(super) calls: &'a Semaphore,
    /// The places for calls that continue after a "no".
    pub(super) declined: &'a Semaphore,
    pub(super) context: &'a RequestContext<RoleServer>,
    pub(super) notices: Option<Notices>,
    pub(super) offer: &'a ToolList,
    /// The client, if another server mounts this one.
    pub(super) client: Option<&'a MountedClient>,
    /// Whether an agent is called instead of a tool.
    pub(super) is_agent: bool,
}

impl ToolCallSession<'_> {
    /// Calls a tool or an agent, or continues the call that is repeated.
    pub(super) async fn call(
        &mut self,
        params: CallToolRequestParams,
        sent: Arc<str>,
    ) -> Result<CallToolResponse, ErrorData> {
        let request = match self.is_agent.then(|| request(&sent)).transpose() {
            Ok(request) => request,
            Err(refused) => return Ok((*refused).into()),
        };
        let thread_id = Arc::clone(&self.thread_id);
        let is_agent = self.is_agent;
        let asked = || CallKey::new(&thread_id, &params.name, &sent).of_agent(is_agent);
        let state = params.request_state.as_deref();
        if (state.is_some() || !self.pending.is_empty())
            && let Some(pending) = self.pending.take(&asked(), state)
        {
            return self.repeat_call(pending, params.input_responses).await;
        }
        if state.is_some() {
            let words = "the requestState matches no waiting call; repeat the call without it";
            return Err(ErrorData::invalid_params(words, None));
        }
        let end = match request {
            Some(request) => self.work(&params.name, request).await?,
            None => self.begin(&params.name, Arc::clone(&sent)).await?,
        };
        if end.waiting.is_empty() {
            return self.result(end).map(Into::into);
        }
        self.settle(end, &asked()).await
    }

    /// Runs an agent on a request, in a conversation of its own.
    async fn work(&mut self, agent_id: &str, request: String) -> Result<RunEnd, ErrorData> {
        self.admit().await?;
        let places = self.client.map_or(self.calls, |client| &client.runs);
        let _turn = turn_if_wanted(places, &self.context.ct).await?;
        let mut request = RunRequest::new(agent_id, request);
        if let Some(client) = self.client {
            request = request.on_thread(client.thread_id(&Uuid::now_v7().to_string()).to_string());
            request.principal = Some(SmolStr::new(&client.principal));
        }
        let handle = self.host.run(request).await.map_err(|e| self.failed(e))?;
        self.follow(handle).await
    }

    async fn begin(&mut self, tool_name: &str, sent: Arc<str>) -> Result<RunEnd, ErrorData> {
        self.admit().await?;
        let _turn = turn(self.calls, &self.context.ct).await?;
        let mut request = CallRequest::from_json(tool_name, sent).on_thread(&*self.thread_id);
        request.principal = self.client.map(|client| SmolStr::new(&client.principal));
        request.cancel = self.context.ct.clone();
        if self.notices.is_none() {
            return self.host.call(request).await.map_err(|e| self.failed(e));
        }
        let handle = self.host.start_call(request).await.map_err(|e| self.failed(e))?;
        self.follow(handle).await
    }

    /// Checks that the client of a mounted server may begin another call.
    async fn admit(&self) -> Result<(), ErrorData> {
        let Some(client) = self.client else { return Ok(()) };
        client.access.admit().await.map_err(|why| ErrorData::invalid_request(why, None))
    }

    /// Returns the result of a call that waits for no one.
    pub(super) fn result(&self, end: RunEnd) -> Result<CallToolResult, ErrorData> {
        if self.is_agent {
            return Ok(call_result::of_run(end));
        }
        let finished = end.last_call.ok_or_else(|| broken("the run ended without a result of its call"))?;
        let has_schema = super::tool_list::has_output_schema(self.host, &finished.tool_name);
        Ok(call_result::of_call(&finished, has_schema))
    }

    /// Continues a call with a person's decision. A "no" does not wait until other calls have ended. The
    /// inner error is that of the decision.
    pub(super) async fn decide(
        &mut self,
        run_id: &str,
        suspension_id: &str,
        answer: DecisionAnswer,
        reason: Option<String>,
    ) -> Result<Result<RunEnd, HostError>, ErrorData> {
        let places = if answer == DecisionAnswer::Cancel { self.declined } else { self.calls };
        let _turn = turn_if_wanted(places, &self.context.ct).await?;
        let decision = Decision {
            id: Uuid::now_v7().to_string(),
            target: suspension_id.to_owned(),
            answer,
            reason,
            by: self.client.map(|client| client.principal.to_string()),
            by_key: self.client.is_some(),
            at_ms: tollgate::store::now_ms(),
        };
        loop {
            match self.host.decide(run_id, decision.clone()).await {
                // Another call of the thread is being decided; wait for it.
                Err(HostError::Busy(_)) if !self.context.ct.is_cancelled() => {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(e) => return Ok(Err(e)),
                Ok(handle) => return self.follow(handle).await.map(Ok),
            }
        }
    }

    /// Sends the notifications that the client asked for, until the run has ended or waits.
    pub(super) async fn follow(&mut self, mut handle: RunHandle) -> Result<RunEnd, ErrorData> {
        let (ct, cancellation) = (self.context.ct.clone(), handle.cancellation());
        let cancel = async move {
            ct.cancelled().await;
            cancellation.cancel();
            std::future::pending::<()>().await;
        };
        let forwarded = async {
            match &mut self.notices {
                Some(notices) => notices.forward_all(&mut handle.events).await,
                None => while handle.events.next().await.is_some() {},
            }
        };
        tokio::select! {
            () = forwarded => {}
            () = cancel => {}
        }
        handle.wait().await.map_err(|e| self.failed(e.into()))
    }

    /// Returns the recorded state of a run that was decided elsewhere.
    pub(super) async fn recorded(&self, run_id: &Arc<str>) -> Result<FinishedRun, ErrorData> {
        let _memory = self.host.room_for_record(run_id).await.map_err(|e| self.failed(e))?;
        let record = self.host.store().events(run_id, 0).await.map_err(|e| self.failed(e.into()))?;
        let at_ms = |numbered: Option<&Arc<StoredEvent>>| numbered.map_or(0, |numbered| numbered.at_ms);
        Ok(FinishedRun {
            began_at_ms: at_ms(record.first()),
            changed_at_ms: at_ms(record.last()),
            end: RunEnd::of_record(&record, &self.thread_id).map_err(broken)?,
        })
    }

    /// Returns the error for a failure of the host itself; failures of tools are results. A client
    /// of a mounted server reads the reason only if it caused it. Others may contain paths and
    /// addresses, and are logged.
    pub(super) fn failed(&self, error: HostError) -> ErrorData {
        match error {
            HostError::Store(_) | HostError::Run(_) | HostError::Setup(_) if self.client.is_some() => {
                tracing::error!("a request failed: {error}");
                broken(shown_failure(&error))
            }
            error => broken(error),
        }
    }
}

/// Returns a failure of the host without its reason. A client learns whether it may repeat the call.
fn shown_failure(error: &HostError) -> &'static str {
    let effect = match error {
        HostError::Run(why) => why.effect(),
        _ => UnrecordedEffect::Unknown,
    };
    match effect {
        UnrecordedEffect::Unknown => "the server failed; its log has the reason",
        UnrecordedEffect::NothingRan => "nothing was run: the server failed; its log has the reason",
        UnrecordedEffect::Ran => {
            "the tool has run, but its record is lost; check what it did, and do not repeat the call"
        }
    }
}

/// The recorded state of a run.
pub(super) struct FinishedRun {
    pub(super) end: RunEnd,
    pub(super) began_at_ms: u64,
    pub(super) changed_at_ms: u64,
}

/// Returns the request to an agent, or the error for invalid arguments.
fn request(sent: &str) -> Result<String, Box<CallToolResult>> {
    let wrong = |words: &str| {
        let structured = serde_json::json!({"error": {"code": "invalid_arguments", "message": words}});
        Box::new(call_result::refused(words, structured))
    };
    let arguments = Arguments::read(sent).map_err(|fault| wrong(&fault.message))?;
    match arguments.value().as_object().map(|object| (object.get("request"), object.len())) {
        Some((Some(Value::String(request)), 1)) => Ok(request.clone()),
        _ => Err(wrong("An agent takes one argument: `request`, a string.")),
    }
}

/// Waits until the session has room for another call. A call that was cancelled before it was
/// examined still proceeds if there is room: a tool's call ends at once then, and is recorded as
/// cancelled.
async fn turn<'a>(calls: &'a Semaphore, ct: &CancellationToken) -> Result<SemaphorePermit<'a>, ErrorData> {
    tokio::select! {
        biased;
        turn = calls.acquire() => turn.map_err(broken),
        () = ct.cancelled() => Err(broken(CANCELLED)),
    }
}

/// Like [`turn`], for operations that cannot be undone once begun: an agent's work and a person's
/// decision. They do not begin if the client has cancelled its request.
async fn turn_if_wanted<'a>(
    calls: &'a Semaphore,
    ct: &CancellationToken,
) -> Result<SemaphorePermit<'a>, ErrorData> {
    let turn = turn(calls, ct).await?;
    if ct.is_cancelled() { Err(broken(CANCELLED)) } else { Ok(turn) }
}

/// Returns an error with these words.
pub(super) fn broken(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(tollgate_agent::text::clean(&error.to_string(), 1_000), None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_call_that_is_cancelled_early_has_its_turn_where_there_is_room() {
        let (calls, ct) = (Semaphore::new(1), CancellationToken::new());
        ct.cancel();
        for _ in 0..64 {
            assert!(turn(&calls, &ct).await.is_ok());
            assert!(turn_if_wanted(&calls, &ct).await.is_err(), "it could not be taken back");
        }
        let _other = calls.acquire().await.unwrap();
        assert!(turn(&calls, &ct).await.is_err(), "the client has cancelled it");
    }
}
