//! Calls of a server's tools: the fourth kind of runner, besides components, native tools and
//! agents.

use super::call_result::{malformed, outcome};
use super::connection::MAX_WHY_BYTES;
use super::output::LatestOutput;
use super::questions::{self, Asked, Decided, Next, OTHER};
use super::resources;
use super::rewrite::is_malformed;
use super::tools::{RemoteCall, RemoteTool};
use super::unreached;
use super::weight::ReplyTooHeavy;
use async_trait::async_trait;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientRequest,
    ElicitRequestParams, ErrorCode, ErrorData, InputRequiredResult, ProgressNotificationParam, ProgressToken,
    ProtocolVersion, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, ServiceError};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::RwLock;
use tollgate::tools::{Attempt, AttemptRequest, CallContext, DeclaredTool, Report, ReportSink, Runner};
use tollgate_agent::catalog::Tool;
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::MAX_TOOLS;
use tollgate_agent::outcome::{Fault, Outcome, Ticket, ToolResult, Usage};
use tollgate_agent::proposal::Arguments;
use tollgate_agent::text::{clean, one_line};
use tollgate_sandbox::{Console, ProgressStatus};

/// The maximum size of a progress message that is passed on, in bytes.
const MAX_PROGRESS_BYTES: usize = 4 * 1024;
/// The maximum number of progress messages that are kept until the token of their call is known.
const MAX_EARLY: usize = 16;
/// How often and in which intervals a call whose connection ended looks for the reason.
const END_LOOKS: u32 = 40;
const END_LOOK: Duration = Duration::from_millis(50);
/// How many times a call is repeated because its answer required input.
const MAX_ROUNDS: u32 = 8;

/// The link to a server, across its connections.
pub(super) struct Link {
    server: String,
    answer_bytes: usize,
    peer: Mutex<Result<Peer<RoleClient>, String>>,
    calls: Mutex<OpenCalls>,
    /// The server has asked a person something.
    asks: AtomicBool,
    /// It was disconnected because it flooded.
    flooded: AtomicBool,
    /// The reason if it was disconnected because of a message that could not be parsed.
    heavy: Mutex<Option<ReplyTooHeavy>>,
    /// The tools that it refused to call although it lists them.
    refused: Mutex<RefusedTools>,
    /// The output of the most recently started process.
    pub(super) output: LatestOutput,
    /// The number of calls of its tools, each of which reports the end of the connection.
    running: AtomicUsize,
    /// Calls share the server until it asks a question; after that, each has it exclusively.
    alone: RwLock<()>,
}

/// Tools that a server lists and does not call.
#[derive(Default)]
struct RefusedTools {
    names: BTreeSet<String>,
    /// The list of tools does not show it yet.
    is_new: bool,
}

/// The calls in flight on the server. A call is here before it is sent, because the server may
/// answer before its token is known.
#[derive(Default)]
struct OpenCalls {
    next: u64,
    open: BTreeMap<u64, OpenCall>,
    /// Progress that arrived before the token of its call was known.
    early: Vec<(ProgressToken, Report)>,
}

impl OpenCalls {
    fn add(&mut self, call: OpenCall) -> u64 {
        self.next += 1;
        self.open.insert(self.next, call);
        self.next
    }

    /// Sets a call's token, and passes on its early progress.
    fn identify(&mut self, number: u64, token: ProgressToken) {
        if let Some(call) = self.open.get_mut(&number) {
            for (_, report) in self.early.extract_if(.., |(of, _)| *of == token) {
                call.reports.offer(report);
            }
            call.token = Some(token);
        }
        self.forget_early();
    }

    fn remove(&mut self, number: u64) -> Option<OpenCall> {
        let call = self.open.remove(&number);
        self.forget_early();
        call
    }

    /// Forgets early progress once every call has its token, because no call can claim it then.
    fn forget_early(&mut self) {
        if self.open.values().all(|call| call.token.is_some()) {
            self.early.clear();
        }
    }

    fn report(&mut self, token: ProgressToken, report: Report) {
        if let Some(call) = self.open.values().find(|call| call.token.as_ref() == Some(&token)) {
            call.reports.offer(report);
        } else if self.early.len() < MAX_EARLY && self.open.values().any(|call| call.token.is_none()) {
            self.early.push((token, report));
        }
    }
}

/// A call in flight on the server.
struct OpenCall {
    /// Known once the call is sent.
    token: Option<ProgressToken>,
    reports: Arc<dyn ReportSink>,
    heard: Heard,
}

/// The questions of a server during a call.
#[derive(Default)]
struct Heard {
    /// The remaining part of a person's answer to an earlier question.
    decided: Decided,
    /// The question for a person.
    asked: Option<Ticket>,
    /// It asked something other than what was answered.
    asked_other: bool,
    /// The server asked while it had other calls too; the question may have been for this one.
    may_have_asked: bool,
}

/// The reason why a server's question is not asked.
pub(super) enum Unasked {
    /// The call is suspended with it.
    Suspended,
    /// A person cannot be asked this here.
    NotAForm,
    /// The server has no call, or several, and does not say for which it asks.
    Unclear,
}

impl Link {
    pub(super) fn new(server: String, answer_bytes: usize) -> Self {
        let peer = Mutex::new(Err("it is still connecting".to_owned()));
        let (asks, flooded) = (AtomicBool::new(false), AtomicBool::new(false));
        let (calls, heavy, alone) = (Mutex::default(), Mutex::default(), RwLock::new(()));
        let output = LatestOutput::default();
        let refused = Mutex::default();
        let running = AtomicUsize::new(0);
        Self { server, answer_bytes, peer, calls, asks, flooded, heavy, refused, output, running, alone }
    }

    /// Returns the server's name.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn found(&self, peer: Peer<RoleClient>) {
        self.flooded.store(false, Ordering::Relaxed);
        *self.heavy.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = Ok(peer);
    }

    /// Records why the connection ended. Returns whether a call is in progress, which reports that.
    pub(super) fn lost(&self, why: &str) -> bool {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = Err(one_line(why, MAX_WHY_BYTES));
        self.running.load(Ordering::Relaxed) > 0
    }

    fn peer(&self) -> Result<Peer<RoleClient>, Fault> {
        let peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        peer.map_err(|why| self.gone(&why))
    }

    /// Records that the server is disconnected for flooding.
    pub(super) fn floods(&self) {
        self.flooded.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }

    /// Records that the server is disconnected because of a message that cannot be parsed.
    pub(super) fn is_too_heavy(&self, heavy: ReplyTooHeavy) {
        *self.heavy.lock().unwrap_or_else(PoisonError::into_inner) = Some(heavy);
    }

    /// Returns why the message that may have been the answer was not parsed.
    fn unread(&self) -> Option<Fault> {
        let heavy = (*self.heavy.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(heavy.fault(&self.server))
    }

    /// Forwards a server's progress to the call's observer.
    pub(super) fn progress(&self, told: ProgressNotificationParam) {
        let fraction =
            told.total.filter(|total| *total > 0.0).map(|total| (told.progress / total).clamp(0.0, 1.0));
        let report = Report::Progress {
            status: ProgressStatus::Running,
            message: told.message.map(|message| clean(&message, MAX_PROGRESS_BYTES)),
            progress: fraction.filter(|fraction| fraction.is_finite()),
        };
        self.open_calls().report(told.progress_token, report);
    }

    /// Returns the tools that the server refused to call although it lists them.
    pub(super) fn refused_tools(&self) -> BTreeSet<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).names.clone()
    }

    /// Returns whether it has refused another one since this was last asked.
    pub(super) fn takes_refusal(&self) -> bool {
        std::mem::take(&mut self.refused.lock().unwrap_or_else(PoisonError::into_inner).is_new)
    }

    /// Records that the server has no ordinary calls of a tool that it lists.
    fn refuses(&self, tool: &str) -> Fault {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.names.len() < MAX_TOOLS {
            refused.is_new |= refused.names.insert(tool.to_owned());
        }
        let message = format!(
            "The server '{}' lists the tool \"{}\" but refuses ordinary calls of it; it may require a task, \
             which is not supported. The tool is no longer offered.",
            self.server,
            one_line(tool, 80)
        );
        Fault::new(Code::ToolFailed, message)
    }

    fn open_calls(&self) -> MutexGuard<'_, OpenCalls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a server's question to a person. Returns the answer if one was given before.
    /// Otherwise the call is suspended with the question, and the server asks again when the call
    /// is repeated. The asking call is known only if it is the only one, so a server that has
    /// asked gets its calls one at a time.
    ///
    /// # Errors
    /// The reason why the server gets no answer now.
    pub(super) fn asks(&self, params: &ElicitRequestParams) -> Result<Value, Unasked> {
        if !matches!(params, ElicitRequestParams::FormElicitationParams { .. }) {
            return Err(Unasked::NotAForm);
        }
        self.asks.store(true, Ordering::Relaxed);
        let mut calls = self.open_calls();
        let several = calls.open.len() > 1;
        let mut open = calls.open.values_mut();
        let (Some(OpenCall { heard, .. }), false) = (open.next(), several) else {
            calls.open.values_mut().for_each(|call| call.heard.may_have_asked = true);
            return Err(Unasked::Unclear);
        };
        match questions::asked(&self.server, params, &mut heard.decided) {
            Asked::Answered(value) => return Ok(value),
            Asked::New(ticket) => heard.asked = Some(ticket),
            Asked::Other => heard.asked_other = true,
            Asked::NotAForm => return Err(Unasked::NotAForm),
        }
        Err(Unasked::Suspended)
    }

    /// Returns the fault of a failed call that may be the one that asked.
    fn unclear(&self) -> Fault {
        let message = format!(
            "The server '{}' asked a person while it had several calls, and failed this one, which may be \
             the one that it asked for. It gets its calls one at a time from now on; check what this one did \
             before you repeat it.",
            self.server
        );
        Fault::new(Code::ToolFailed, message)
    }

    fn failed(&self, why: &str) -> Fault {
        let message = format!("The server '{}' failed the call: {}", self.server, one_line(why, 500));
        Fault::new(Code::ToolFailed, message)
    }

    /// Returns the fault of a call that the server refused to make.
    fn refused(&self, error: &ErrorData) -> Fault {
        let (code, words) = (error.code.0, one_line(&error.message, 500));
        let message = format!("The server '{}' refused the call: {words} (error {code})", self.server);
        Fault::new(Code::ToolFailed, message)
    }

    /// Returns the fault of a request that failed. If the connection ended, that is how it ended,
    /// which is known soon after.
    async fn failure(&self, error: &ServiceError) -> Fault {
        match error {
            ServiceError::McpError(error) if is_malformed(error) => malformed(&self.server, &error.message),
            ServiceError::McpError(error) => self.refused(error),
            ServiceError::TransportSend(why) if let Some(why) = unreached::request(why) => self.failed(&why),
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                for _ in 0..END_LOOKS {
                    if let Err(fault) = self.peer() {
                        return fault;
                    }
                    tokio::time::sleep(END_LOOK).await;
                }
                self.gone("the connection ended")
            }
            error => self.gone(&error.to_string()),
        }
    }

    fn gone(&self, why: &str) -> Fault {
        let message = format!("The server '{}' does not answer: {}", self.server, one_line(why, 500));
        Fault::new(Code::ToolFailed, message)
    }
}

/// The runner of one server's tools.
pub(super) struct RemoteRunner {
    link: Arc<Link>,
    tools: BTreeMap<String, Arc<RemoteTool>>,
}

impl RemoteRunner {
    pub(super) fn new(link: Arc<Link>, tools: BTreeMap<String, Arc<RemoteTool>>) -> Self {
        Self { link, tools }
    }

    async fn call(&self, attempt: &CallContext<'_>) -> Result<Outcome, Fault> {
        let link = &self.link;
        let _running = Running::begin(link);
        let name = &attempt.permit.tool().descriptor.name;
        let tool = self.tools.get(name).ok_or_else(|| link.gone("it no longer has this tool"))?;
        let RemoteCall::Tool(remote_name) = &tool.call else {
            let answered =
                resources::call(&link.peer()?, &tool.call, attempt.permit.arguments().value()).await;
            return match answered {
                Ok(answered) => Ok(outcome(&link.server, tool, answered, link.answer_bytes)),
                Err(e) => Err(link.failure(&e).await),
            };
        };
        let resumed = attempt.resume.map(|resumption| Decided::of(&link.server, resumption));
        let mut decided = resumed.unwrap_or_default();
        // A server with a newer version asks in its answer, and so it is clear for which call.
        let waits = matches!(decided, Decided::Waiting { .. });
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
                Answered::Result(result) => {
                    let (link, tool) = (Arc::clone(link), Arc::clone(tool));
                    // This time counts, like the rest of the attempt.
                    let read = tokio::task::spawn_blocking(move || {
                        outcome(&link.server, &tool, result, link.answer_bytes)
                    });
                    return Ok(read
                        .await
                        .unwrap_or_else(|_| self.link.gone("its answer could not be read").into()));
                }
                Answered::Asked(ticket) => return Ok(suspended(ticket)),
                Answered::Required(required) => required,
            };
            match questions::next(&link.server, required, &mut decided) {
                Next::Suspend(ticket) => return Ok(suspended(ticket)),
                Next::Again(given, kept) => (responses, state) = (given, kept),
                Next::Fail(why) => return Err(link.failed(&why)),
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
        decided: &mut Decided,
    ) -> Result<Answered, Fault> {
        let link = &self.link;
        let tool = params.name.clone();
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let heard = Heard { decided: std::mem::take(decided), ..Heard::default() };
        let call = OpenCall { token: None, reports: Arc::clone(&attempt.reports), heard };
        let mut open = Open::new(link, call);
        let handle = peer
            .send_request_with_option(request, PeerRequestOptions::no_options())
            .await
            .map_err(|e| link.gone(&e.to_string()))?;
        open.was_sent(&handle);
        let answered = handle.await_response().await;
        let heard = open.close();
        *decided = heard.decided;
        if let Some(ticket) = heard.asked {
            return Ok(Answered::Asked(ticket));
        }
        if heard.asked_other {
            return Err(link.failed(OTHER));
        }
        if answered.is_err()
            && let Some(fault) = link.unread()
        {
            return Err(fault);
        }
        match answered {
            Ok(ServerResult::CallToolResult(result))
                if heard.may_have_asked && result.is_error == Some(true) =>
            {
                Err(link.unclear())
            }
            Err(ServiceError::McpError(_)) if heard.may_have_asked => Err(link.unclear()),
            Ok(ServerResult::CallToolResult(result)) => Ok(Answered::Result(result)),
            Ok(ServerResult::InputRequiredResult(required)) => Ok(Answered::Required(required)),
            Ok(_) => Err(link.gone("its answer is not a result")),
            Err(_) if link.has_flooded() => Err(link.gone("it flooded its connection, and was cut off")),
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                Err(link.refuses(&tool))
            }
            Err(e) => Err(link.failure(&e).await),
        }
    }
}

/// Counts a call of the link while it lives.
struct Running<'a>(&'a Link);

impl<'a> Running<'a> {
    fn begin(link: &'a Link) -> Self {
        link.running.fetch_add(1, Ordering::Relaxed);
        Self(link)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A server's answer.
enum Answered {
    Result(CallToolResult),
    /// It asked a person with a request of its own.
    Asked(Ticket),
    /// It lists the input it needs.
    Required(InputRequiredResult),
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
struct Open<'a> {
    link: &'a Link,
    number: u64,
    waiting: Option<(Peer<RoleClient>, RequestId)>,
}

impl<'a> Open<'a> {
    fn new(link: &'a Link, call: OpenCall) -> Self {
        let number = link.open_calls().add(call);
        Self { link, number, waiting: None }
    }

    fn was_sent(&mut self, handle: &RequestHandle<RoleClient>) {
        self.link.open_calls().identify(self.number, handle.progress_token.clone());
        self.waiting = Some((handle.peer.clone(), handle.id.clone()));
    }

    /// Ends the call after the server answered; returns its questions.
    fn close(mut self) -> Heard {
        self.waiting = None;
        self.link.open_calls().remove(self.number).map(|call| call.heard).unwrap_or_default()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.link.open_calls().remove(self.number);
        let Some((peer, id)) = self.waiting.take() else { return };
        tokio::spawn(async move {
            let why = Some("the answer is no longer awaited".to_owned());
            let told = CancelledNotificationParam::new(Some(id), why);
            // A server that is gone has stopped already.
            let _ = peer.notify_cancelled(told).await;
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
            memory: None,
        }
    }

    async fn validate(&self, _tool: &Tool, _arguments: &Arguments) -> Result<(), Fault> {
        Ok(())
    }

    fn declared(&self, tool_name: &str) -> Option<&DeclaredTool> {
        self.tools.get(tool_name).map(|tool| &tool.declared)
    }
}
