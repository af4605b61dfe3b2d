//! Calls that wait for a person, presented in the way the client supports.
//!
//! A client that can show forms is asked, either by a request of the server or, in newer versions
//! of the protocol, by an answer that lists the required input. A client that supports tasks
//! receives one. Any other client receives instructions for a decision; the call continues when it is
//! repeated. The same applies if a client's forms are too small for the question, because a
//! person must see the whole question.

use super::call_result;
use super::form::{FormEntry, entered, form};
use super::suspended_calls::{CallKey, WaitingCall};
use super::tool_calls::{ToolCallSession, broken};
use super::tool_list::DecideCommand;
use rmcp::model::{
    CallToolResponse, ClientCapabilities, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
    ErrorData, InputRequest, InputRequiredResult, InputResponses, ProtocolVersion, ServerRequest,
};
use serde_json::{Value, json};
use tollgate::HostError;
use tollgate::blocking::block_in_place;
use tollgate::run::RunEnd;
use tollgate_agent::gate::permissions::wants_more;
use tollgate_agent::question::{action, asks, marked};
use tollgate_agent::run::DecisionAnswer;
use tollgate_agent::run::event::SuspendedCall;

/// How many times a form is shown again because the entry is invalid.
const MAX_ENTRIES: u32 = 3;

/// The ways in which a client can ask its person.
enum QuestionChannel {
    /// The client answers requests of the server.
    Request(Box<ElicitRequestParams>),
    /// The client repeats the call with the required input.
    Repeat(Box<ElicitRequestParams>),
    /// The client polls the call until a person has decided elsewhere.
    Task,
    /// The client cannot ask.
    None,
}

/// The result of a person's entry.
enum Entry {
    /// The call continues, or was continued by a decision elsewhere. Holds its current state.
    Stands(Box<RunEnd>),
    /// The question stays open.
    Open,
    /// The entry is invalid, and the question is still open. Holds the reason.
    Unfit(String),
}

impl ToolCallSession<'_> {
    /// Returns the answer to a call that ended, or handles one that waits.
    pub(super) async fn settle(
        &mut self,
        mut end: RunEnd,
        asked: &CallKey,
    ) -> Result<CallToolResponse, ErrorData> {
        loop {
            let Some(question) = end.waiting.first() else {
                if end.status.is_none() {
                    return Ok(under_way(&end.run_id));
                }
                self.pending.forget(&end.run_id);
                return self.result(end).map(Into::into);
            };
            let pending = self.pending.add(asked, &end.run_id, question);
            match self.way(question) {
                QuestionChannel::None => return Ok(self.approval_required(&pending)),
                QuestionChannel::Repeat(form) => return Ok(input_required(&pending, *form)),
                QuestionChannel::Task => return self.as_task(&pending).await,
                QuestionChannel::Request(form) => match self.ask(&pending, *form).await? {
                    Some(next) => end = next,
                    None => return Ok(self.approval_required(&pending)),
                },
            }
        }
    }

    /// Handles a repeated call that waits: with an answer, or to check its state.
    pub(super) async fn repeat_call(
        &mut self,
        pending: WaitingCall,
        responses: Option<InputResponses>,
    ) -> Result<CallToolResponse, ErrorData> {
        // In every case the call can be repeated, with its new handle.
        let pending = self.pending.add(&pending.asked, &pending.run_id, &pending.question);
        let response = responses.and_then(|mut all| all.remove(&pending.question.suspension_id));
        if response.is_some() && !self.may_decide() {
            let words = "this key may not answer questions of its own calls; another person decides";
            return Err(ErrorData::invalid_request(words, None));
        }
        let stands = match response {
            // It may have ended, or ask another question, after a decision elsewhere.
            None => self.recorded(&pending.run_id).await?.end,
            Some(response) => {
                let result = serde_json::from_value::<ElicitResult>(response).map_err(|e| {
                    ErrorData::invalid_params(format!("the input is not a valid form answer: {e}"), None)
                })?;
                match self.enter(&pending, result).await? {
                    Entry::Stands(stands) => *stands,
                    Entry::Open => return Ok(self.approval_required(&pending)),
                    // The client is asked again, in the same way.
                    Entry::Unfit(_) => self.recorded(&pending.run_id).await?.end,
                }
            }
        };
        self.settle(stands, &pending.asked).await
    }

    /// Shows the form; returns `None` if the person leaves the question open.
    async fn ask(
        &mut self,
        pending: &WaitingCall,
        form: ElicitRequestParams,
    ) -> Result<Option<RunEnd>, ErrorData> {
        for _ in 0..MAX_ENTRIES {
            let request = ServerRequest::ElicitRequest(ElicitRequest::new(form.clone()));
            let answered = tokio::select! {
                answered = self.context.peer.send_request(request) => answered,
                () = self.context.ct.cancelled() => return Err(broken("the call was cancelled")),
            };
            // A client that does not answer its form learns how to decide otherwise.
            let Ok(ClientResult::ElicitResult(result)) = answered else { return Ok(None) };
            match self.enter(pending, result).await? {
                Entry::Stands(stands) => return Ok(Some(*stands)),
                Entry::Open => return Ok(None),
                Entry::Unfit(why) => tracing::debug!(%why, "an answer did not fit"),
            }
        }
        Ok(None)
    }

    /// Decides according to the person's entry.
    async fn enter(&mut self, pending: &WaitingCall, result: ElicitResult) -> Result<Entry, ErrorData> {
        let may_remember = self.offer.answers_may_be_remembered;
        let (decision, reason) = match entered(&pending.question, may_remember, result) {
            FormEntry::Answer(value) if !may_remember && wants_more(&pending.question, &value) => {
                return Ok(Entry::Unfit("only yes or no to this call is accepted".to_owned()));
            }
            FormEntry::Answer(value) => (DecisionAnswer::Resume(value), None),
            FormEntry::Declined => (DecisionAnswer::Cancel, Some("declined".to_owned())),
            FormEntry::Dismissed => return Ok(Entry::Open),
            FormEntry::Unreadable(why) => return Ok(Entry::Unfit(why)),
        };
        let asked = pending.question.suspension_id.as_str();
        match self.decide(&pending.run_id, asked, decision, reason).await? {
            Ok(end) => Ok(Entry::Stands(Box::new(end))),
            Err(
                why @ (HostError::Refused(_)
                | HostError::UnknownQuestion(_)
                | HostError::AlreadyDecided { .. }
                | HostError::DoesNotFit { .. }),
            ) => {
                // The question may have been decided elsewhere meanwhile.
                let stands = self.recorded(&pending.run_id).await?.end;
                let waits = stands.waiting.iter().any(|question| question.suspension_id == asked);
                Ok(if waits { Entry::Unfit(why.to_string()) } else { Entry::Stands(Box::new(stands)) })
            }
            Err(e) => Err(self.failed(e)),
        }
    }

    fn way(&self, question: &SuspendedCall) -> QuestionChannel {
        let capabilities = self.context.client_capabilities();
        let knows_tasks = capabilities.as_ref().is_some_and(ClientCapabilities::supports_tasks);
        let elicits = capabilities.and_then(|capabilities| capabilities.elicitation).is_some_and(|elicits| {
            // A client that names no mode supports forms.
            elicits.form.is_some() || elicits.url.is_none()
        });
        let version = self.context.protocol_version();
        let repeats = version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let form = (elicits && self.may_decide())
            .then(|| form(question, self.offer.answers_may_be_remembered))
            .flatten();
        match (form.map(Box::new), repeats) {
            (Some(form), true) => QuestionChannel::Repeat(form),
            (Some(form), false) => QuestionChannel::Request(form),
            (None, true) if knows_tasks => QuestionChannel::Task,
            (None, _) => QuestionChannel::None,
        }
    }

    /// Returns whether the client's person may answer questions of the client's calls.
    fn may_decide(&self) -> bool {
        self.client.is_none_or(|client| client.access.may_decide())
    }

    /// Returns the response for a client that cannot ask its person.
    fn approval_required(&self, pending: &WaitingCall) -> CallToolResponse {
        let question = &pending.question;
        let (run, call) = (&pending.run_id, &question.call_id);
        let HowToDecide { words, places } = self.how_to_decide(run, question);
        let text = format!("{words}\nThen repeat the very same call to get its result.");
        let mut structured = json!({
            "status": "approval_required",
            "run_id": &**run,
            "call_id": call,
            "suspension_id": question.suspension_id,
            "question": {
                "gate": question.gate,
                "action": question.ticket.action,
                "message": question.ticket.message,
                "parameters": question.ticket.parameters,
                "response_schema": question.ticket.response_schema,
            },
        });
        for (name, place) in places {
            structured[name] = Value::String(place);
        }
        call_result::refused(text, structured).into()
    }

    /// Returns how a person can answer a question elsewhere.
    pub(super) fn how_to_decide(&self, run_id: &str, question: &SuspendedCall) -> HowToDecide {
        let asks = format!(
            "Approval required: a person has to decide before `{}` continues. {} ({}):\n{}",
            question.tool_name,
            asks(question),
            action(question),
            marked(&question.ticket.message, usize::MAX)
        );
        if let Some(client) = self.client {
            let url = client.decide_url.to_string();
            let words = format!("{asks}\nA person decides at {url}, or with the API of this server.");
            return HowToDecide { words, places: vec![("decide_url", url)] };
        }
        let Some(DecideCommand { command, resume, cancel }) = &self.offer.decide else {
            let words = format!("{asks}\nA person decides on the host.");
            return HowToDecide { words, places: Vec::new() };
        };
        let decide = format!("{command} {run_id} {}", question.call_id);
        let value = block_in_place(|| yes(question));
        let (approve, reject) = (format!("{decide} {resume}{value}"), format!("{decide} {cancel}"));
        let words = format!(
            "{asks}\n\
             A person decides on a terminal of the host; without a terminal, the commands need a code that only the \
             host shows. To approve: {approve}   To reject: {reject}"
        );
        HowToDecide { words, places: vec![("approve", approve), ("reject", reject)] }
    }
}

/// A question as text, and the commands or the address with which a person answers it.
pub(super) struct HowToDecide {
    pub(super) words: String,
    /// The members of the structured answer that name them.
    places: Vec<(&'static str, String)>,
}

/// Returns what is typed to say yes to a question: nothing, if `true` is an answer.
fn yes(question: &SuspendedCall) -> &'static str {
    let Some(written) = &question.ticket.response_schema else { return "" };
    let knows_approved = written.pointer("/properties/approved").is_some();
    let schema = question.answer_schema().ok().flatten();
    let fits = |answer: Value| schema.is_some_and(|schema| schema.violations(&answer).is_empty());
    match () {
        () if fits(json!(true)) => "",
        () if knows_approved && fits(json!({"approved": true})) => " '{\"approved\": true}'",
        () => " 'ANSWER AS JSON'",
    }
}

/// Returns the response for a call that was decided elsewhere and has not ended yet.
fn under_way(run_id: &str) -> CallToolResponse {
    let text = "The question was decided, and the call is running. Repeat the very same call later to get its result.";
    let structured = json!({"status": "under_way", "run_id": run_id});
    call_result::refused(text, structured).into()
}

fn input_required(pending: &WaitingCall, form: ElicitRequestParams) -> CallToolResponse {
    let request = InputRequest::Elicitation(ElicitRequest::new(form));
    let requests = [(pending.question.suspension_id.clone(), request)].into();
    InputRequiredResult::new(Some(requests), Some(pending.handle.clone())).into()
}
