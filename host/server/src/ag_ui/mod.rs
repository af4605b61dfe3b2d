//! AG-UI: `POST /ag-ui/{agent}`, for `HttpAgent` and CopilotKit.
//!
//! A client has one request, which starts a run or answers its interrupts. Its `runId` is the key
//! of the request: the same request again replays the same events and changes nothing.

mod agent_encoder;
mod encode;
mod request;
mod state;
#[cfg(test)]
mod tests;

use crate::Shared;
use crate::agent_runs::history::{Role, split};
use crate::agent_runs::{
    AgentRuns, Answers, Caller, Feed, FeedUntil, ReplyText, Start, approval, decide_url, encoded, fits,
};
use crate::body::SentBody;
use crate::event_stream;
use crate::parameters::PathParameters;
use crate::problem::Problem;
use agent_encoder::id_in;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use encode::{AgUiEncoder, StreamInfo, error};
use futures::StreamExt;
use request::{Resume, RunInput};
use serde_json::{Value, json};
use state::SharedState;
use std::sync::Arc;
use tollgate::store::whole_state;
use tollgate_agent::message::Message;
use tollgate_agent::run::event::SuspendedCall;
use tollgate_agent::run::{Decision, StoredEvent};

/// Returns the route below `/ag-ui`.
pub fn router() -> axum::Router<Shared> {
    axum::Router::new().route("/ag-ui/{agent}", post(run))
}

/// The reason why a request neither starts a run nor decides anything, with its code.
struct Refusal {
    code: &'static str,
    why: String,
}

impl Refusal {
    fn new(code: &'static str, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self { code: problem.code, why: problem.detail }
    }
}

/// The events that answer a request.
struct RequestedEvents {
    /// The events to send.
    feed: Feed,
    run_id: String,
    /// The earlier events of the run, which the client has.
    earlier: Vec<Arc<StoredEvent>>,
    /// The answers to interrupts that came too late and were not applied.
    late: Vec<String>,
}

/// Runs an agent, or continues a run with answers to its interrupts.
async fn run(
    State(state): State<Shared>,
    principal: Caller,
    PathParameters(agent): PathParameters<String>,
    headers: HeaderMap,
    body: Result<SentBody, Problem>,
) -> Result<Response, Problem> {
    let SentBody(body) = body?;
    let input = RunInput::read(&body)?;
    let runs = AgentRuns::new(&state, &principal);
    runs.agent(&agent)?;
    let (shared, requested) = match requested_events(&state, &runs, agent, &input).await {
        Ok(requested) => requested,
        Err(refusal) => return Ok(refused(&state, &input, &refusal)),
    };
    let RequestedEvents { feed, run_id, earlier, late } = requested;
    let about = StreamInfo {
        thread: input.thread,
        client_run: input.run,
        run_id,
        version: input.version,
        decide_url: decide_url(&headers),
        messages: input.sent,
        state: shared,
        ignored: [input.ignored, late].concat(),
    };
    let earlier: Vec<_> = earlier.into_iter().map(|event| state.host.visible(event)).collect();
    let events = encoded(feed, AgUiEncoder::after(about, &earlier, ReplyText::default()));
    Ok(event_stream::answer(&state.pulse, events.map(|event| event_stream::data(&event))))
}

/// Returns the state at the beginning of the request, and the events that answer it.
async fn requested_events(
    state: &Shared,
    runs: &AgentRuns<'_>,
    agent: String,
    input: &RunInput,
) -> Result<(SharedState, RequestedEvents), Refusal> {
    let thread_id = runs.stored_thread(&input.thread)?;
    // The state is read before the run can change it.
    let shared = {
        let _place = runs.whole_record().await;
        let _memory = state.host.room_for_thread(&thread_id).await.map_err(Problem::from)?;
        let values = whole_state(&**state.store(), &thread_id).await.map_err(Problem::from)?;
        SharedState::new(&input.state, &values, |key| state.host.shows_key(key))
    };
    let events =
        if input.resume.is_empty() { start(runs, agent, input).await? } else { resume(runs, input).await? };
    Ok((shared, events))
}

/// Answers with a run that fails at once, because clients expect errors in this form.
fn refused(state: &Shared, input: &RunInput, refusal: &Refusal) -> Response {
    let started = json!({"type": "RUN_STARTED", "threadId": input.thread, "runId": input.run});
    let events = [started, error(refusal.code, &refusal.why)];
    event_stream::answer(&state.pulse, futures::stream::iter(events.map(|event| event_stream::data(&event))))
}

/// Starts a run with the last message of the user, or replays the run that this request started.
async fn start(runs: &AgentRuns<'_>, agent_id: String, input: &RunInput) -> Result<RequestedEvents, Refusal> {
    let latest = runs.latest(&input.thread).await?;
    let run_id = runs.request_id(&["ag-ui", &agent_id, &input.thread, &input.run]);
    let messages = input.messages().map_err(|why| Refusal::new("unsupported", why))?;
    if let Some(run) = runs.find_run(&run_id).await? {
        let last = messages.iter().rfind(|message| message.role == Role::User);
        if last.map(|last| last.text.as_str()) != run.prompt() {
            let why = "this `runId` was sent with another message; use a new one for a new run";
            return Err(Refusal::new("key_reused", why));
        }
        let feed = runs.resume(&run_id, FeedUntil::Waiting, 0, 1)?;
        return Ok(RequestedEvents { feed, run_id, earlier: Vec::new(), late: Vec::new() });
    }
    if latest.as_ref().is_some_and(|latest| latest.status == "waiting") {
        let why = "the thread waits for answers to its interrupts; send them with `resume`";
        return Err(Refusal::new("pending_interrupts", why));
    }
    let no_prompt = || Refusal::new("bad_request", "the last message must be the user's");
    let (history, prompt): (Vec<Message>, String) = match latest {
        None => split(messages).ok_or_else(no_prompt)?,
        // The server has the earlier messages.
        Some(_) => {
            let last = messages.into_iter().last().filter(|last| last.role == Role::User);
            (Vec::new(), last.ok_or_else(no_prompt)?.text)
        }
    };
    let thread = Some(input.thread.clone());
    let start = Start { agent_id, prompt, thread, history, run_id: Some(run_id), ..Start::default() };
    let started = runs.start(start).await?;
    let run_id = started.run_id.to_string();
    let feed = runs.follow(&started, FeedUntil::Waiting)?;
    Ok(RequestedEvents { feed, run_id, earlier: Vec::new(), late: Vec::new() })
}

/// Answers all open interrupts of a run of the thread. Answers to interrupts that were already decided,
/// by this request or elsewhere, change nothing; the stream then has the events after the decision.
async fn resume(runs: &AgentRuns<'_>, input: &RunInput) -> Result<RequestedEvents, Refusal> {
    let unknown = || Refusal::new("no_such_interrupt", "the thread has no such interrupts");
    // An interrupt names its run, because another run may have asked under the same suspension id.
    let run_id = input.resume.first().map(|answer| answer.run_id.as_str()).unwrap_or_default();
    let run = runs.find_run(run_id).await?.ok_or_else(unknown)?;
    let is_of_run = |answer: &Resume| answer.run_id == run_id && run.asked(&answer.suspension).is_some();
    if run.thread != input.thread || !input.resume.iter().all(is_of_run) {
        return Err(unknown());
    }
    let answers = Answers::of(&run, &input.resume, |answer| answer.suspension.as_str(), decision)?;
    let Answers { decisions, count, after, late } = answers;
    if !decisions.is_empty() {
        let open: Vec<&str> = run.calls.waiting().map(|(_, asked)| asked.suspension_id.as_str()).collect();
        let is_answered = |id: &&str| input.resume.iter().any(|answer| answer.suspension == **id);
        if !open.iter().all(is_answered) {
            let open: Vec<String> = open.into_iter().map(|id| id_in(&run.run_id, id)).collect();
            let open = open.join(", ");
            let why = format!("`resume` must answer all open interrupts; open: {open}");
            return Err(Refusal::new("wrong_resume", why));
        }
        runs.decide(&run, decisions).await?;
    }
    let feed = runs.resume(&run.run_id, FeedUntil::Waiting, after, after + 1)?.after_decisions(count);
    let earlier = run.events.into_iter().take_while(|event| event.number <= after).collect();
    let late = late.iter().map(|id| format!("resume {}", id_in(&run.run_id, id))).collect();
    Ok(RequestedEvents { feed, run_id: run.run_id, earlier, late })
}

/// Returns the decision that an answer stands for. A payload that means no cancels the call, unless the
/// schema accepts it.
fn decision(asked: &SuspendedCall, answer: &Resume) -> Result<Decision, Refusal> {
    match (answer.is_resolved, &answer.payload) {
        (false, _) => Ok(Decision::cancel(&asked.suspension_id)),
        (true, None | Some(Value::Null)) => Ok(approval(asked, true, None)?),
        (true, Some(payload)) => {
            let means_no = *payload == Value::Bool(false) || payload["approved"] == Value::Bool(false);
            match fits(asked, payload) {
                Ok(()) => Ok(Decision::resume(&asked.suspension_id, payload.clone())),
                Err(_) if means_no => Ok(Decision::cancel(&asked.suspension_id)),
                Err(why) => Err(why.into()),
            }
        }
    }
}
