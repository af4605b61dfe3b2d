//! The link to a server, which its connections and the calls of its tools share.

use super::failure::MAX_WHY_BYTES;
use super::output::LatestOutput;
use super::questions::{self, AnsweredQuestion, QuestionMatch};
use super::weight::ReplyTooHeavy;
use rmcp::RoleClient;
use rmcp::model::{ElicitRequestParams, ErrorData, ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::RwLock;
use tollgate::tools::{Report, ReportSink};
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::MAX_TOOLS;
use tollgate_agent::outcome::{Fault, Ticket};
use tollgate_agent::text::{clean, one_line};
use tollgate_sandbox::ProgressStatus;

/// The maximum size of a progress message that is passed on, in bytes.
const MAX_PROGRESS_BYTES: usize = 4 * 1024;
/// The maximum number of progress messages that are kept until the token of their call is known.
const MAX_EARLY: usize = 16;

/// The link to a server, across its connections.
pub(super) struct Link {
    pub(super) server: String,
    pub(super) answer_bytes: usize,
    peer: Mutex<Result<Peer<RoleClient>, String>>,
    calls: Mutex<OpenCalls>,
    /// The server has asked a person something.
    pub(super) asks: AtomicBool,
    /// It was disconnected because it flooded.
    flooded: AtomicBool,
    /// The reason if it was disconnected because of a message that could not be parsed.
    heavy: Mutex<Option<ReplyTooHeavy>>,
    /// The tools that it refused to call although it lists them.
    refused: Mutex<RefusedTools>,
    /// The output of the most recently started process.
    pub(super) output: LatestOutput,
    /// The number of calls of its tools, each of which reports the end of the connection.
    pub(super) running: AtomicUsize,
    /// Calls share the server until it asks a question; after that, each has it exclusively.
    pub(super) alone: RwLock<()>,
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
pub(super) struct OpenCalls {
    next: u64,
    open: BTreeMap<u64, OpenCall>,
    /// Progress that arrived before the token of its call was known.
    early: Vec<(ProgressToken, Report)>,
}

impl OpenCalls {
    pub(super) fn add(&mut self, call: OpenCall) -> u64 {
        self.next += 1;
        self.open.insert(self.next, call);
        self.next
    }

    /// Sets a call's token, and passes on its early progress.
    pub(super) fn identify(&mut self, number: u64, token: ProgressToken) {
        if let Some(call) = self.open.get_mut(&number) {
            for (_, report) in self.early.extract_if(.., |(of, _)| *of == token) {
                call.reports.offer(report);
            }
            call.token = Some(token);
        }
        self.forget_early();
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<OpenCall> {
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

    pub(super) fn report(&mut self, token: ProgressToken, report: Report) {
        if let Some(call) = self.open.values().find(|call| call.token.as_ref() == Some(&token)) {
            call.reports.offer(report);
        } else if self.early.len() < MAX_EARLY && self.open.values().any(|call| call.token.is_none()) {
            self.early.push((token, report));
        }
    }
}

/// A call in flight on the server.
pub(super) struct OpenCall {
    /// Known once the call is sent.
    pub(super) token: Option<ProgressToken>,
    pub(super) reports: Arc<dyn ReportSink>,
    pub(super) heard: CallQuestions,
}

/// The questions of a server during a call.
#[derive(Default)]
pub(super) struct CallQuestions {
    /// The remaining part of a person's answer to an earlier question.
    pub(super) decided: AnsweredQuestion,
    /// The question for a person.
    pub(super) asked: Option<Ticket>,
    /// It asked something other than what was answered.
    pub(super) asked_other: bool,
    /// The server asked while it had other calls too; the question may have been for this one.
    pub(super) may_have_asked: bool,
}

/// The reason why a server's question is not asked.
pub(super) enum QuestionRefusal {
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

    pub(super) fn peer(&self) -> Result<Peer<RoleClient>, Fault> {
        let peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        peer.map_err(|why| self.gone(&why))
    }

    /// Records that the server is disconnected for flooding.
    pub(super) fn record_flooding(&self) {
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
    pub(super) fn unread_answer_fault(&self) -> Option<Fault> {
        let heavy = (*self.heavy.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(heavy.fault(&self.server))
    }

    /// Forwards a server's progress to the call's observer.
    pub(super) fn progress(&self, notification: ProgressNotificationParam) {
        let fraction = notification
            .total
            .filter(|total| *total > 0.0)
            .map(|total| (notification.progress / total).clamp(0.0, 1.0));
        let report = Report::Progress {
            status: ProgressStatus::Running,
            message: notification.message.map(|message| clean(&message, MAX_PROGRESS_BYTES)),
            progress: fraction.filter(|fraction| fraction.is_finite()),
        };
        self.open_calls().report(notification.progress_token, report);
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
    pub(super) fn refuses(&self, tool: &str) -> Fault {
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

    pub(super) fn open_calls(&self) -> MutexGuard<'_, OpenCalls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a server's question to a person. Returns the answer if one was given before.
    /// Otherwise the call is suspended with the question, and the server asks again when the call
    /// is repeated. The asking call is known only if it is the only one, so a server that has
    /// asked gets its calls one at a time.
    ///
    /// # Errors
    /// The reason why the server gets no answer now.
    pub(super) fn asks(&self, params: &ElicitRequestParams) -> Result<Value, QuestionRefusal> {
        if !matches!(params, ElicitRequestParams::FormElicitationParams { .. }) {
            return Err(QuestionRefusal::NotAForm);
        }
        self.asks.store(true, Ordering::Relaxed);
        let mut calls = self.open_calls();
        let several = calls.open.len() > 1;
        let mut open = calls.open.values_mut();
        let (Some(OpenCall { heard, .. }), false) = (open.next(), several) else {
            calls.open.values_mut().for_each(|call| call.heard.may_have_asked = true);
            return Err(QuestionRefusal::Unclear);
        };
        match questions::asked(&self.server, params, &mut heard.decided) {
            QuestionMatch::Answered(value) => return Ok(value),
            QuestionMatch::New(ticket) => heard.asked = Some(ticket),
            QuestionMatch::Other => heard.asked_other = true,
            QuestionMatch::NotAForm => return Err(QuestionRefusal::NotAForm),
        }
        Err(QuestionRefusal::Suspended)
    }

    /// Returns the fault of a failed call that may be the one that asked.
    pub(super) fn unclear_fault(&self) -> Fault {
        let message = format!(
            "The server '{}' asked a person while it had several calls, and failed this one, which may be \
             the one that it asked for. It gets its calls one at a time from now on; check what this one did \
             before you repeat it.",
            self.server
        );
        Fault::new(Code::ToolFailed, message)
    }

    pub(super) fn failed(&self, why: &str) -> Fault {
        let message = format!("The server '{}' failed the call: {}", self.server, one_line(why, 500));
        Fault::new(Code::ToolFailed, message)
    }

    /// Returns the fault of a call that the server refused to make.
    pub(super) fn refused(&self, error: &ErrorData) -> Fault {
        let (code, words) = (error.code.0, one_line(&error.message, 500));
        let message = format!("The server '{}' refused the call: {words} (error {code})", self.server);
        Fault::new(Code::ToolFailed, message)
    }

    pub(super) fn gone(&self, why: &str) -> Fault {
        let message = format!("The server '{}' does not answer: {}", self.server, one_line(why, 500));
        Fault::new(Code::ToolFailed, message)
    }
}
