//! Calls of a server's tools: the fourth kind of runner, besides components, native tools and
//! agents.

use super::call_result::{malformed, outcome};
use super::link::{CallQuestions, Link, OpenCall};
use super::questions::{self, AnsweredQuestion, InputStep, OTHER};
use super::resources;
use super::rewrite::is_malformed;
use super::tools::{RemoteCall, RemoteTool};
use super::unreached;
use super::weight::ReplyTooHeavy;
use async_trait::async_trait;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientRequest,
    ErrorCode, InputRequiredResult, ProtocolVersion, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, ServiceError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tollgate::tools::{Attempt, AttemptRequest, CallContext, DeclaredTool, Runner};
use tollgate_agent::catalog::Tool;
use tollgate_agent::code::Code;
use tollgate_agent::json::written_bytes;
use tollgate_agent::outcome::{Fault, Outcome, Ticket, ToolResult, Usage};
use tollgate_agent::proposal::Arguments;
use tollgate_sandbox::{Console, MemoryBudget, Reservation};

/// How often and in which intervals a call whose connection ended looks for the reason.
const END_LOOKS: u32 = 40;
const END_LOOK: Duration = Duration::from_millis(50);
/// A result up to this size is kept without a reservation, in bytes.
const SMALL_BYTES: usize = 64 * 1024;
/// Memory per byte of a longer result: a parsed value takes several times its text.
const COPIES: u64 = 4;
/// How many times a call is repeated because its answer required input.
const MAX_ROUNDS: u32 = 8;

/// The runner of one server's tools.
pub(super) struct RemoteRunner {
    link: Arc<Link>,
    tools: BTreeMap<String, Arc<RemoteTool>>,
    budget: MemoryBudget,
}

impl RemoteRunner {
    pub(super) fn new(
        link: Arc<Link>,
        tools: BTreeMap<String, Arc<RemoteTool>>,
        budget: MemoryBudget,
    ) -> Self {
        Self { link, tools, budget }
    }

    async fn call(&self, attempt: &CallContext<'_>) -> Result<Outcome, Fault> {
        let link = &self.link;
        let _running = RunningCall::begin(link);
        let name = &attempt.permit.tool().descriptor.name;
        let tool = self.tools.get(name).ok_or_else(|| link.gone("it no longer has this tool"))?;
        let RemoteCall::Tool(remote_name) = &tool.call else {
            let answered =
                resources::call(&link.peer()?, &tool.call, attempt.permit.arguments().value()).await;
            return match answered {
                Ok(answered) => Ok(outcome(&link.server, tool, answered, link.answer_bytes)),
                Err(e) => Err(failure(link, &e).await),
            };
        };
        let resumed = attempt.resume.map(|resumption| AnsweredQuestion::of(&link.server, resumption));
        let mut decided = resumed.unwrap_or_default();
        // A server with a newer version asks in its answer, and so it is clear for which call.
        let waits = matches!(decided, AnsweredQuestion::Waiting { .. });
        let asks = (link.asks.load(Ordering::Relaxed) || waits) && !says_what_it_needs(&link.peer()?);
        let (_alone, _shared) = match asks {
            true => (Some(link.alone.write().await), None),
            false => (None, Some(link.alone.read().await)),
        };
        let peer = link.peer()?;
        let (mut responses, mut state) = (None, None);
        for _ in 0..MAX_ROUNDS {
            let mut params = CallToolRequestParams::new(remote_name.clone());
            params.arguments = attempt.permit.arguments().value().as_object().cloned();
            (params.input_responses, params.request_state) = (responses, state);
            let required = match self.send(&peer, params, attempt, &mut decided).await? {
                ServerAnswer::Result(result) => {
                    let (link, tool) = (Arc::clone(link), Arc::clone(tool));
                    // This time counts, like the rest of the attempt.
                    let read = tokio::task::spawn_blocking(move || {
                        outcome(&link.server, &tool, result, link.answer_bytes)
                    });
                    return Ok(read
                        .await
                        .unwrap_or_else(|_| self.link.gone("its answer could not be read").into()));
                }
                ServerAnswer::Question(ticket) => return Ok(suspended(ticket)),
                ServerAnswer::Required(required) => required,
            };
            match questions::next(&link.server, required, &mut decided) {
                InputStep::Suspend(ticket) => return Ok(suspended(ticket)),
                InputStep::Again(given, kept) => (responses, state) = (given, kept),
                InputStep::Fail(why) => return Err(link.failed(&why)),
            }
        }
        Err(link.failed(&format!("it required input {MAX_ROUNDS} times in a row")))
    }

    /// Sends the call and waits for its answer.
    async fn send(
        &self,
        peer: &Peer<RoleClient>,
        params: CallToolRequestParams,
        attempt: &CallContext<'_>,
        decided: &mut AnsweredQuestion,
    ) -> Result<ServerAnswer, Fault> {
        let link = &self.link;
        let tool = params.name.clone();
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let heard = CallQuestions { decided: std::mem::take(decided), ..CallQuestions::default() };
        let call = OpenCall { token: None, reports: Arc::clone(&attempt.reports), heard };
        let mut open = RegisteredCall::new(link, call);
        let handle = peer
            .send_request_with_option(request, PeerRequestOptions::no_options())
            .await
            .map_err(|e| link.gone(&e.to_string()))?;
        open.was_sent(&handle);
        let answered = handle.await_response().await;
        let heard = open.close();
        *decided = heard.decided;
        if let Some(ticket) = heard.asked {
            return Ok(ServerAnswer::Question(ticket));
        }
        if heard.asked_other {
            return Err(link.failed(OTHER));
        }
        if answered.is_err()
            && let Some(fault) = link.unread_answer_fault()
        {
            return Err(fault);
        }
        match answered {
            Ok(ServerResult::CallToolResult(result))
                if heard.may_have_asked && result.is_error == Some(true) =>
            {
                Err(link.unclear_fault())
            }
            Err(ServiceError::McpError(_)) if heard.may_have_asked => Err(link.unclear_fault()),
            Ok(ServerResult::CallToolResult(result)) => Ok(ServerAnswer::Result(result)),
            Ok(ServerResult::InputRequiredResult(required)) => Ok(ServerAnswer::Required(required)),
            Ok(_) => Err(link.gone("its answer is not a result")),
            Err(_) if link.has_flooded() => Err(link.gone("it flooded its connection, and was cut off")),
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                Err(link.refuses(&tool))
            }
            Err(e) => Err(failure(link, &e).await),
        }
    }
}

/// Returns the fault of a request that failed. If the connection ended, that is how it ended,
/// which is known soon after.
async fn failure(link: &Link, error: &ServiceError) -> Fault {
    match error {
        ServiceError::McpError(error) if is_malformed(error) => malformed(&link.server, &error.message),
        ServiceError::McpError(error) => link.refused(error),
        ServiceError::TransportSend(why) if let Some(why) = unreached::request(why) => link.failed(&why),
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
            for _ in 0..END_LOOKS {
                if let Err(fault) = link.peer() {
                    return fault;
                }
                tokio::time::sleep(END_LOOK).await;
            }
            link.gone("the connection ended")
        }
        error => link.gone(&error.to_string()),
    }
}

/// Counts a call of the link while it lives.
struct RunningCall<'a>(&'a Link);

impl<'a> RunningCall<'a> {
    fn begin(link: &'a Link) -> Self {
        link.running.fetch_add(1, Ordering::Relaxed);
        Self(link)
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A server's answer.
enum ServerAnswer {
    Result(CallToolResult),
    /// It asked a person with a request of its own.
    Question(Ticket),
    /// It lists the input it needs.
    Required(InputRequiredResult),
}

/// Reserves the memory of a long result until it is stored. Without that memory, the result is dropped.
fn reserved(outcome: Outcome, budget: &MemoryBudget, server: &str) -> (Outcome, Option<Arc<Reservation>>) {
    let Outcome::Returned(output) = &outcome else { return (outcome, None) };
    let bytes = written_bytes(&*output.result);
    if bytes <= SMALL_BYTES {
        return (outcome, None);
    }
    match budget.try_reserve(COPIES * bytes as u64) {
        Some(memory) => (outcome, Some(Arc::new(memory))),
        None => (ReplyTooHeavy::Budget(budget.limit_places()).fault(server).into(), None),
    }
}

fn suspended(ticket: Ticket) -> Outcome {
    Outcome::Returned(ToolResult::suspended_with(ticket).into())
}

/// Returns whether the server's version lists required input in answers.
fn says_what_it_needs(peer: &Peer<RoleClient>) -> bool {
    peer.peer_info().is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28)
}

/// Registers a call with its link while the server has it. If the answer is no longer awaited,
/// the server is notified.
struct RegisteredCall<'a> {
    link: &'a Link,
    number: u64,
    waiting: Option<(Peer<RoleClient>, RequestId)>,
}

impl<'a> RegisteredCall<'a> {
    fn new(link: &'a Link, call: OpenCall) -> Self {
        let number = link.open_calls().add(call);
        Self { link, number, waiting: None }
    }

    fn was_sent(&mut self, handle: &RequestHandle<RoleClient>) {
        self.link.open_calls().identify(self.number, handle.progress_token.clone());
        self.waiting = Some((handle.peer.clone(), handle.id.clone()));
    }

    /// Ends the call after the server answered; returns its questions.
    fn close(mut self) -> CallQuestions {
        self.waiting = None;
        self.link.open_calls().remove(self.number).map(|call| call.heard).unwrap_or_default()
    }
}

impl Drop for RegisteredCall<'_> {
    fn drop(&mut self) {
        self.link.open_calls().remove(self.number);
        let Some((peer, id)) = self.waiting.take() else { return };
        tokio::spawn(async move {
            let why = Some("the answer is no longer awaited".to_owned());
            let notification = CancelledNotificationParam::new(Some(id), why);
            // A server that is gone has stopped already.
            let _ = peer.notify_cancelled(notification).await;
        });
    }
}

#[async_trait]
impl Runner for RemoteRunner {
    async fn run(&self, AttemptRequest { call: attempt, .. }: AttemptRequest<'_>) -> Attempt {
        let began = Instant::now();
        let name = &attempt.permit.tool().descriptor.name;
        let outcome = tokio::select! {
            biased;
            () = attempt.cancel.cancelled() => Fault::new(Code::Cancelled, "The call was cancelled.").into(),
            ended = tokio::time::timeout(attempt.timeout, self.call(&attempt)) => match ended {
                Ok(called) => called.unwrap_or_else(Outcome::from),
                Err(_) => {
                    let after = tollgate_agent::text::seconds(attempt.timeout);
                    Fault::new(Code::TimedOut, format!("Tool '{name}' timed out after {after}")).into()
                }
            },
        };
        let (outcome, memory) = reserved(outcome, &self.budget, &self.link.server);
        let wall_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let at_least = outcome.was_cut();
        let usage = Usage { wall_us, attempts: 1, at_least, ..Usage::default() };
        Attempt {
            outcome,
            usage,
            console: Console::default(),
            dropped_reports: 0,
            http_requests: 0,
            denied: Vec::new(),
            taken: None,
            memory,
        }
    }

    async fn validate(&self, _tool: &Tool, _arguments: &Arguments) -> Result<(), Fault> {
        Ok(())
    }

    fn declared(&self, tool_name: &str) -> Option<&DeclaredTool> {
        self.tools.get(tool_name).map(|tool| &tool.declared)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[test]
    fn z3_a_long_result_holds_memory_or_is_dropped() {
        let budget = MemoryBudget::new(2 << 20);
        let of = |bytes: usize| {
            let result = ToolResult::success("x".repeat(bytes));
            reserved(Outcome::Returned(result.into()), &budget, "s")
        };
        assert_eq!(of(1_000).1, None);
        let (kept, memory) = of(300_000);
        assert!(matches!(kept, Outcome::Returned(_)) && budget.reserved_bytes() >= 1_200_000);
        let (Outcome::Faulted(fault), None) = of(300_000) else { panic!("both were kept") };
        assert_eq!(fault.code, Code::Overloaded);
        assert!(fault.message.contains("may have had effects"), "{}", fault.message);
        drop(memory);
        assert!(of(300_000).1.is_some());
    }
}
